#include "bridge/guest/process_tree.hpp"

#include <signal.h>
#include <unistd.h>

namespace atl::guest {
namespace {

// The reason for this bound is that of k_most_passes (proc_scan.cpp).
constexpr int k_most_tree_passes = 16;

}  // namespace

// A parent may have a greater pid than its child, so one look at all of them is not enough.
void ProcessTree::take_members(pid_t root, const SeenProcesses& seen) {
    std::set<pid_t> alive{root};
    for (const auto& [pid, process] : seen)
        if (members_.contains({pid, process.started}))
            alive.insert(pid);
    for (std::size_t known = 0; known != alive.size();) {
        known = alive.size();
        for (const auto& [pid, process] : seen) {
            const bool is_child = alive.contains(process.parent) || leaders_.contains(process.group) ||
                                  leaders_.contains(process.session);
            if (pid == root || !is_child)
                continue;
            alive.insert(pid);
            members_.emplace(pid, process.started);
            for (const pid_t leader : {process.group, process.session})
                if (leader == pid)
                    leaders_.insert(leader);
        }
    }
}

void ProcessTree::signal(pid_t root, int number) {
    // Before anybody who dies of it leaves children to process 1.
    SeenProcesses seen = see_processes();
    take_members(root, seen);
    kill(-root, number);
    std::set<Name> told;
    for (int pass = 0; pass < k_most_tree_passes; ++pass) {
        bool is_new = false;
        for (const auto& [pid, process] : seen) {
            const Name name{pid, process.started};
            if (process.group == root || !members_.contains(name) || !told.insert(name).second)
                continue;
            is_new = true;
            signal_seen(pid, process, number);
        }
        if (!is_new)
            return;
        seen = see_processes();
        take_members(root, seen);
    }
}

}  // namespace atl::guest
