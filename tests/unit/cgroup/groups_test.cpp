#include "cgroup/groups.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../isolation/fixture.hpp"
#include "core/base/ids.hpp"
#include "core/isolation/spawn.hpp"
#include "tests/support/paths.hpp"

namespace groups_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;

const std::string k_zygote = test::build_path("bin/atoll-zygote");

/// A layout with this host's v2 hierarchy alone. It always has members; its limits depend on the host.
cgroup::Layout members_only() {
    return {cgroup::find_layout().unified, {}};
}

struct Bench {
    test::Loop loop;
    std::string instance = "test" + base::new_id();
    std::unique_ptr<cgroup::Groups> groups;

    cgroup::Layout layout;

    explicit Bench(cgroup::Layout where = members_only()) : layout(std::move(where)) { reopen(); }
    // A group that was dropped while a member was dying stays until the next start: this is it.
    ~Bench() {
        groups.reset();
        (void)cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance, k_zygote}, layout);
    }
    void reopen() {
        groups.reset();
        auto opened =
            cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance, k_zygote}, layout);
        REQUIRE(opened.has_value());
        groups = std::move(*opened);
        if (groups->places().all.empty())
            SKIP("no cgroup hierarchy on this host that this user may write to");
    }
    fs::path parent() const { return groups->places().all.front().path; }
    std::unique_ptr<sandbox::ResourceGroup> make(const std::string& name) const {
        auto group = groups->create(name, {});
        REQUIRE(group.has_value());
        REQUIRE(*group);
        return std::move(*group);
    }
    isolation::Spawned start_in(const sandbox::ResourceGroup& group, const std::string& script) {
        const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        isolation::ChildPlan plan;
        plan.fds = {null.get(), null.get(), null.get()};
        plan.group_fd = group.clone_into_fd();
        auto spawned = isolation::spawn("/bin/sh", {"-c", "PATH=/usr/bin:/bin\n" + script}, plan);
        REQUIRE(spawned.has_value());
        return std::move(*spawned);
    }
    std::size_t members(const std::string& name) const {
        const std::string text = test::read_text(parent() / name / "cgroup.procs");
        return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    std::optional<base::Result<void>> remove(sandbox::ResourceGroup& group) {
        std::optional<base::Result<void>> result;
        group.remove([&result](const base::Result<void>& how) { result = how; });
        CHECK_FALSE(result.has_value());
        (void)loop.run_until([&result] { return result.has_value(); });
        return result;
    }
};

void reap(const isolation::Spawned& spawned) {
    ::waitpid(spawned.pid, nullptr, 0);
}

}  // namespace

TEST_CASE("cgroup: a child is born in its group", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("a-1");
    const auto child = bench.start_in(*group, "sleep 1000");
    CHECK(test::read_text("/proc/" + std::to_string(child.pid) + "/cgroup")
              .find("/atoll-" + bench.instance + "/a-1\n") != std::string::npos);
    group->kill();
    reap(child);
}

TEST_CASE("cgroup: kill ends members that left their session and their parent", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("a-1");
    const auto child = bench.start_in(*group, "setsid sleep 1000 & (sleep 1000 &) ; sleep 1000");
    REQUIRE(bench.loop.run_until([&] {
        bench.loop.context.poll();
        return bench.members("a-1") == 4;
    }));
    group->kill();
    reap(child);
    const auto removed = bench.remove(*group);
    REQUIRE(removed.has_value());
    CHECK(removed->has_value());
    CHECK_FALSE(fs::exists(bench.parent() / "a-1"));
}

TEST_CASE("cgroup: remove waits until the last member is gone", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("a-1");
    const auto child = bench.start_in(*group, "sleep 0.1");
    const auto removed = bench.remove(*group);
    REQUIRE(removed.has_value());
    CHECK(removed->has_value());
    reap(child);
}

TEST_CASE("cgroup: an empty group is removed, but never from inside the call", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("a-1");
    const auto removed = bench.remove(*group);
    REQUIRE(removed.has_value());
    CHECK(removed->has_value());
}

TEST_CASE("cgroup: how long members waited for a resource is told where the kernel accounts it", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("one");
    if (!fs::exists(bench.parent() / "one" / "cpu.pressure"))
        SKIP("this kernel accounts no pressure of groups");
    CHECK(group->usage().memory_pressure.has_value());
    CHECK(group->usage().io_pressure.has_value());
    REQUIRE(group->usage().cpu_pressure.has_value());
    // More of them than processors: some wait.
    std::vector<isolation::Spawned> children;
    for (long i = 0; i < 2 * ::sysconf(_SC_NPROCESSORS_ONLN); ++i)
        children.push_back(bench.start_in(*group, "while :; do :; done"));
    CHECK(bench.loop.run_until([&] { return group->usage().cpu_pressure->some_usec > 0; }));
    group->kill();
    CHECK(bench.loop.run_until([&] { return bench.members("one") == 0; }));
}

TEST_CASE("cgroup: a group that is dropped takes its members along", "[cgroup]") {
    Bench bench;
    auto group = bench.make("a-1");
    const auto child = bench.start_in(*group, "sleep 1000");
    group.reset();
    int status = 0;
    REQUIRE(::waitpid(child.pid, &status, 0) == child.pid);
    CHECK(WIFSIGNALED(status));
    bench.reopen();
    CHECK_FALSE(fs::exists(bench.parent() / "a-1"));
}

TEST_CASE("cgroup: a start ends and removes what an earlier run of the same instance left, and nothing else",
          "[cgroup]") {
    Bench bench;
    Bench other;
    const auto theirs = other.make("b-1");
    const auto their_child = other.start_in(*theirs, "sleep 1000");
    const fs::path leftover = bench.parent() / "old-3";
    REQUIRE(::mkdir(leftover.c_str(), 0755) == 0);
    const pid_t orphan = ::fork();
    if (orphan == 0) {
        ::pause();
        ::_exit(0);
    }
    std::ofstream(leftover / "cgroup.procs") << orphan;
    bench.reopen();
    int status = 0;
    CHECK(::waitpid(orphan, &status, 0) == orphan);
    CHECK(WIFSIGNALED(status));
    CHECK_FALSE(fs::exists(leftover));
    CHECK(other.members("b-1") >= 1);
    CHECK(::waitpid(their_child.pid, nullptr, WNOHANG) == 0);
    theirs->kill();
    reap(their_child);
}

TEST_CASE("cgroup: a start tells of all groups that an earlier run left in one line", "[cgroup]") {
    Bench bench;
    std::vector<pid_t> orphans;
    for (const char* name : {"old-3", "old-4"}) {
        REQUIRE(::mkdir((bench.parent() / name).c_str(), 0755) == 0);
        orphans.push_back(::fork());
        if (orphans.back() == 0) {
            ::pause();
            ::_exit(0);
        }
        std::ofstream(bench.parent() / name / "cgroup.procs") << orphans.back();
    }
    std::ostringstream lines;
    auto& sinks = spdlog::default_logger()->sinks();
    sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
    bench.reopen();
    sinks.pop_back();
    for (const pid_t orphan : orphans)
        CHECK(::waitpid(orphan, nullptr, 0) == orphan);
    const std::string log = lines.str();
    INFO(log);
    const auto told = log.find("evt=sandbox_cleanup ");
    CHECK(log.find("evt=sandbox_cleanup groups=2 killed=2") == told);
    REQUIRE(told != std::string::npos);
    CHECK(log.find("evt=sandbox_cleanup ", told + 1) == std::string::npos);
}

TEST_CASE("cgroup: two groups of one name are refused", "[cgroup]") {
    Bench bench;
    const auto group = bench.make("a-1");
    CHECK(bench.groups->create("a-1", {}).error().code() == base::Errc::sandbox_failed);
}

TEST_CASE("cgroup: a host that offers no place gives null groups", "[cgroup]") {
    test::Loop loop;
    auto groups = cgroup::Groups::open(loop.context.get_executor(), loop.timers, {"x", k_zygote},
                                       {{"/proc/nowhere"}, {}});
    REQUIRE(groups.has_value());
    auto group = (*groups)->create("a-1", {});
    REQUIRE(group.has_value());
    CHECK(*group == nullptr);
}

TEST_CASE("cgroup: nothing is claimed that is not enforced", "[cgroup]") {
    test::Loop loop;
    const auto groups = cgroup::Groups::open(loop.context.get_executor(), loop.timers, {"x", k_zygote}, {});
    sandbox::Enforcement enforcement;
    (*groups)->describe(enforcement);
    CHECK(enforcement == sandbox::Enforcement{});
}

}  // namespace groups_test
