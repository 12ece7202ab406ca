// Warnings of a limit of processes that was met, by this host's own kernel.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <vector>

#include "../isolation/fixture.hpp"
#include "cgroup/groups.hpp"
#include "core/base/ids.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/zygote.hpp"
#include "tests/support/paths.hpp"

namespace process_watch_test {

namespace {

using namespace atl;

constexpr auto k_deadline = test::k_client_deadline;
const std::string k_zygote = test::build_path("bin/atoll-zygote");

struct Warning {
    std::uint32_t used = 0;
    std::uint32_t limit = 0;
};

/// A group for 8 processes, and for the two that a sandbox has besides.
class Crowd {
  public:
    Crowd() {
        auto opened =
            cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance_, k_zygote, 0});
        REQUIRE(opened.has_value());
        groups_ = std::move(*opened);
        const auto& places = groups_->places().all;
        if (std::ranges::none_of(places, [](const cgroup::Place& place) {
                return place.controllers.contains(cgroup::Controller::pids);
            }))
            SKIP("no cgroup on this host with which this user can limit processes");
        sandbox::Limits limits;
        limits.max_processes = 8;
        auto made = groups_->create("box", limits);
        REQUIRE(made.has_value());
        group = std::move(*made);
        group->watch_processes([this](std::uint32_t used, std::uint32_t limit) {
            warnings.push_back({used, limit});
        });
    }
    ~Crowd() {
        end();
        group.reset();
        groups_.reset();
        // Opening the groups again removes a group whose members were still dying.
        (void)cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance_, k_zygote, 0});
    }

    /// Starts a shell that starts so many others and then waits for them; it ends at the first that it cannot
    /// start.
    void run(int others) {
        const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        isolation::ChildPlan plan;
        plan.fds = {null.get(), null.get(), null.get()};
        plan.group_fd = group->clone_into_fd();
        const std::string script = "PATH=/usr/bin:/bin; i=0; while [ $i -lt " + std::to_string(others) +
                                   " ]; do sleep 1000 & i=$((i+1)); done; wait";
        const std::vector<std::string> args{"-c", script};
        const auto prepared = group->take_prepared_process().value();
        isolation::Zygote* const zygote = isolation::Zygote::from(prepared.get());
        auto spawned =
            zygote ? zygote->become("/bin/sh", args, plan) : isolation::spawn("/bin/sh", args, plan);
        REQUIRE(spawned.has_value());
        pid_ = spawned->pid;
    }
    void end() {
        if (pid_ <= 0)
            return;
        group->kill();
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

    test::Loop loop;
    std::vector<Warning> warnings;
    std::unique_ptr<sandbox::ResourceGroup> group;

  private:
    std::string instance_ = "test" + base::new_id();
    std::unique_ptr<cgroup::Groups> groups_;
    pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("process watch: a process that was refused is told once, and the group is crowded until it is not",
          "[cgroup]") {
    Crowd crowd;
    CHECK_FALSE(crowd.group->is_crowded());
    crowd.run(30);
    REQUIRE(crowd.loop.run_until([&] { return !crowd.warnings.empty(); }, k_deadline));
    CHECK(crowd.warnings.front().limit == 8);
    CHECK(crowd.warnings.front().used <= 8);
    CHECK(crowd.warnings.front().used >= 7);
    CHECK(crowd.group->is_crowded());
    crowd.end();
    REQUIRE(crowd.loop.run_until([&] { return crowd.group->members().empty(); }, k_deadline));
    // The kernel counts a process a moment longer than it shows it.
    CHECK(crowd.loop.run_until([&] { return !crowd.group->is_crowded(); }, k_deadline));
    CHECK(crowd.warnings.size() == 1);
}

TEST_CASE("process watch: a group that is half full is crowded only shortly after a refusal", "[cgroup]") {
    Crowd crowd;
    crowd.run(30);
    REQUIRE(crowd.loop.run_until([&] { return !crowd.warnings.empty(); }, k_deadline));
    // Nine others are left once the shell has ended, and nobody but this thread ends them.
    REQUIRE(crowd.loop.run_until([&] { return crowd.group->members().size() == 9; }, k_deadline));
    const auto members = crowd.group->members();
    for (std::size_t i = 6; i < members.size(); ++i)
        REQUIRE(::kill(members[i], SIGKILL) == 0);
    CHECK(crowd.loop.run_until([&] { return crowd.group->members().size() == 6; }, k_deadline));
    CHECK(crowd.group->is_crowded());
    CHECK(crowd.loop.run_until([&] { return !crowd.group->is_crowded(); }, k_deadline));
    CHECK(crowd.group->members().size() == 6);
}

TEST_CASE("process watch: a full group to which nothing was refused is no reason to warn", "[cgroup]") {
    Crowd crowd;
    crowd.run(9);
    REQUIRE(crowd.loop.run_until([&] { return crowd.group->members().size() == 10; }, k_deadline));
    (void)crowd.loop.run_until([&] { return !crowd.warnings.empty(); }, std::chrono::seconds{1});
    CHECK(crowd.warnings.empty());
    CHECK_FALSE(crowd.group->is_crowded());
}

}  // namespace process_watch_test
