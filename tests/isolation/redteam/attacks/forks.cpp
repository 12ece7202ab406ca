// Processes: as many as the system gives, each of which makes more.
#include <sched.h>
#include <unistd.h>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

void multiply(const SharedCounter& made, const Options& options) {
    while (!is_late()) {
        if (made.value() >= options.max_count || child([&] { multiply(made, options); }) < 0) {
            ::sched_yield();
            continue;
        }
        made.add(1);
    }
}

/// Forks from every child, without end and without a pause: each end makes place for the next fork.
void fork_bomb(const Options& options) {
    const SharedCounter made;
    if (child([&] { multiply(made, options); }) < 0)
        give_up("not even one child");
    std::uint64_t before = 0;
    do {
        before = made.value();
        ::usleep(200'000);  // check-allow: sleep the count of processes is polled until it stands still
    } while (made.value() > before && made.value() < options.max_count && !is_late());
    taken("processes", made.value() + 2);
    hold();
}

const Registration k_forks{{"fork-bomb", "--max-count processes, which then turn without rest", fork_bomb}};

}  // namespace
}  // namespace atl::attack
