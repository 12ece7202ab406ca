// Epoll watches: a bound of each user (fs.epoll.max_user_watches), which all sandboxes of a rootless server
// share.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

constexpr int k_targets = 500;

/// Watches the same few pipes from one epoll descriptor after the other: each pair is a watch of its own.
void epoll_watches(const Options& options) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        give_up("no pipe");
    int targets[k_targets];
    for (int& target : targets) {
        target = ::dup(ends[0]);
        if (target < 0)
            give_up("no descriptors");
    }
    std::uint64_t watches = 0;
    while (watches < options.max_count && !is_late()) {
        const int set = ::epoll_create1(EPOLL_CLOEXEC);
        if (set < 0) {
            refused("epoll_create");
            break;
        }
        int added = 0;
        for (const int target : targets) {
            epoll_event event{};
            event.events = EPOLLIN;
            if (watches >= options.max_count || ::epoll_ctl(set, EPOLL_CTL_ADD, target, &event) != 0)
                break;
            ++watches;
            ++added;
        }
        if (added < k_targets && watches < options.max_count) {
            refused("epoll_ctl");
            break;
        }
    }
    taken("watches", watches);
    hold();
}

const Registration k_epoll{{"epoll-watches", "--max-count watches of one process", epoll_watches}};

}  // namespace
}  // namespace atl::attack
