#include "bridge/guest/strays.hpp"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "core/plain/guest_limits.hpp"

namespace atl::guest {
namespace {

constexpr Millis k_look_again{5};
// A process that forks is seen by the next pass, and a killed one forks no more (fork(2) fails while a signal
// is pending): a few passes catch all.
constexpr int k_most_kill_passes = 3;
// The longest chain of parents that is followed.
constexpr int k_most_ancestors = 64;

}  // namespace

bool Strays::is_crowded() const {
    if (max_processes_ == 0 || getpid() != 1)
        return false;
    std::uint64_t used = 0;
    for (const auto& [pid, process] : see_processes())
        used += process.threads;
    return used + 1 + max_processes_ / base::k_crowded_share > max_processes_;
}

void Strays::end(Done done) {
    waiting_.push_back(std::move(done));
    if (waiting_.size() > 1)
        return;
    killed_.clear();
    deadline_ = std::chrono::steady_clock::now() + k_stray_deadline;
    timer_ = loop_.arm(Millis{0}, [this] { look(); });
}

void Strays::look() {
    timer_ = 0;
    const bool left = getpid() == 1 && kill_all() > 0;
    if (left && std::chrono::steady_clock::now() < deadline_) {
        timer_ = loop_.arm(k_look_again, [this] { look(); });
        return;
    }
    const std::vector<Done> told = std::exchange(waiting_, {});
    for (const Done& done : told)
        done(killed_.size());
}

/// Returns how many strays there were in the last pass, zombies among them.
std::size_t Strays::kill_all() {
    std::size_t found = 0;
    for (int pass = 0; pass < k_most_kill_passes; ++pass) {
        const SeenProcesses seen = see_processes();
        found = 0;
        bool is_new = false;
        for (const auto& [pid, process] : seen) {
            if (!is_stray(seen, pid))
                continue;
            ++found;
            if (!killed_.emplace(pid, process.started).second)
                continue;
            is_new = true;
            signal_seen(pid, process, SIGKILL);
        }
        if (!is_new)
            break;
    }
    return found;
}

bool Strays::is_stray(const SeenProcesses& seen, pid_t pid) const {
    if (pid == 1)
        return false;
    for (int steps = 0; steps < k_most_ancestors; ++steps) {
        const auto found = seen.find(pid);
        if (found == seen.end() || pid == 1)
            return true;
        if (children_.watches(pid) || children_.watches(found->second.session))
            return false;
        pid = found->second.parent;
    }
    return true;
}

}  // namespace atl::guest
