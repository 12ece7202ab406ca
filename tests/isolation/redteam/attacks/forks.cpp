// Processes: as many as the system gives, each of which makes more.
#include <sched.h>
#include <unistd.h>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

struct Bomb {
    SharedCounter made;
    SharedCounter refused;
};

void multiply(const Bomb& bomb, const Options& options) {
    while (!is_late()) {
        if (bomb.made.value() >= options.max_count) {
            ::sched_yield();
        } else if (child([&] { multiply(bomb, options); }) < 0) {
            bomb.refused.add(1);
            ::sched_yield();
        } else {
            bomb.made.add(1);
        }
    }
}

/// Forks from every child, without end and without a pause: each end makes place for the next fork.
void fork_bomb(const Options& options) {
    const Bomb bomb;
    if (child([&] { multiply(bomb, options); }) < 0)
        give_up("not even one child");
    while (bomb.made.value() < options.max_count && bomb.refused.value() == 0 && !is_late())
        ::usleep(10'000);  // check-allow: sleep counters that other processes share are polled
    taken("processes", bomb.made.value() + 2);
    hold();
}

const Registration k_forks{{"fork-bomb", "--max-count processes, which then turn without rest", fork_bomb}};

}  // namespace
}  // namespace atl::attack
