// The end of a process that waits for its task.
#include <sched.h>
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>

#include "core/base/pidfd.hpp"
#include "core/isolation/waiting_process.hpp"
#include "fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/stuck_processes.hpp"

namespace waiting_process_test {

using namespace atl;

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("waiting process: nobody waits for the end of one that cannot be killed", "[serial]") {
    if (!test::StuckProcesses::can_be_made())
        SKIP("no freezer of cgroup v1 on this host that this user may write to");
    // The longest time of a call that does not wait, on a busy machine.
    constexpr std::chrono::milliseconds k_prompt{90};
    std::optional<isolation::WaitingProcess> process =
        isolation::WaitingProcess::start(test::build_path("bin/atoll-zygote"), {}).value();
    const pid_t pid = process->pid();
    test::StuckProcesses stuck;
    stuck.hold(pid);
    const auto began = std::chrono::steady_clock::now();
    process.reset();
    const auto took = std::chrono::steady_clock::now() - began;
    if (test::checks_bounds())
        CHECK(took < k_prompt);
    CHECK(::kill(pid, 0) == 0);
    stuck.let_go();
    const auto is_gone = [pid] {
        base::reap_what_ended();
        return ::kill(pid, 0) != 0;
    };
    const auto until = std::chrono::steady_clock::now() + test::k_client_deadline;
    while (!is_gone() && std::chrono::steady_clock::now() < until)
        ::sched_yield();
    CHECK(is_gone());
}

}  // namespace waiting_process_test
