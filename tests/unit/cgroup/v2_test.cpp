// Features of cgroup v2 alone, by the kernel's own files: on hosts with all controllers in the unified
// hierarchy.
#include <signal.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "groups_host.hpp"

namespace v2_test {

namespace {

using namespace atl;
using test::Child;
using test::limits;
constexpr auto k_deadline = test::k_group_deadline;

struct Host : test::GroupsHost {
    Host() : GroupsHost({cgroup::find_layout().unified, {}}) {
        for (const auto controller :
             {cgroup::Controller::memory, cgroup::Controller::cpu, cgroup::Controller::pids}) {
            if (!enforces(controller))
                SKIP("no cgroup v2 hierarchy here in which this user can limit "
                     << cgroup::name_of(controller));
        }
    }
    std::string file(const std::string& name) {
        return test::read_text(groups().places().all.front().path / "box-1" / name);
    }
};

}  // namespace

TEST_CASE("v2: the kernel is told every limit, and changes of a running group", "[cgroup][v2]") {
    Host host;
    sandbox::Limits wanted = limits(64, 10);
    wanted.cpu_percent = 20;
    const auto group = host.make(wanted);
    CHECK(host.file("memory.max") == "67108864\n");
    CHECK(host.file("memory.swap.max") == "0\n");
    CHECK(host.file("memory.oom.group") == "1\n");
    CHECK(host.file("cpu.max") == "20000 100000\n");
    CHECK(host.file("pids.max") == "12\n");
    wanted = limits(128, 20);
    wanted.cpu_percent = 150;
    REQUIRE(group->set_limits(wanted).has_value());
    CHECK(host.file("memory.max") == "134217728\n");
    CHECK(host.file("cpu.max") == "150000 100000\n");
    CHECK(host.file("pids.max") == "22\n");
}

TEST_CASE("v2: a kill for memory takes all members, those that need little, too", "[cgroup][v2]") {
    Host host;
    const auto group = host.make(limits(48));
    bool told = false;
    group->watch_oom([&told] { told = true; });
    auto frugal = host.run(*group, "echo up; exec sleep 1000");
    char byte = 0;
    REQUIRE(::read(frugal.output.get(), &byte, 1) == 1);
    auto bomb = host.run(*group, test::k_memory_bomb);
    const int status = frugal.wait();
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    bomb.wait();
    CHECK(host.loop.run_until([&told] { return told; }, k_deadline));
    CHECK(host.file("memory.events").find("oom_group_kill 1\n") != std::string::npos);
    CHECK(group->oom_kills() >= 2);
    CHECK(host.removes(*group));
}

TEST_CASE("v2: what was used at most is told after the processes are gone", "[cgroup][v2]") {
    Host host;
    const auto group = host.make(limits(512));
    auto child = host.run(*group, test::k_memory_bomb);
    CHECK(child.read_all() == "held\n");
    child.wait();
    const auto usage = group->usage();
    REQUIRE(usage.memory_peak_bytes.has_value());
    CHECK(*usage.memory_peak_bytes > 60UL * 1024 * 1024);
    CHECK(usage.memory_bytes < 30UL * 1024 * 1024);
}

TEST_CASE("v2: memory in a tmpfs counts, and is no way around the limit", "[cgroup][v2]") {
    Host host;
    const auto group = host.make(limits(48));
    // Each process is small: it is the files that need the room.
    const std::string file = "/dev/shm/atoll-test-" + base::new_id();
    auto child = host.run(*group, "head -c 100000000 /dev/zero > " + file + "; echo all");
    CHECK(child.read_all().empty());
    CHECK(WIFSIGNALED(child.wait()));
    CHECK(group->oom_kills() > 0);
    std::filesystem::remove(file);
}

TEST_CASE("v2: one write ends a group, whatever forks meanwhile", "[cgroup][v2]") {
    Host host;
    const auto group = host.make(limits(256, 40));
    auto child = host.run(*group, "setsid sleep 1000 & f() { sleep 0.01; f & f; }; echo up; f 2>/dev/null");
    char byte = 0;
    REQUIRE(::read(child.output.get(), &byte, 1) == 1);
    REQUIRE(host.file("cgroup.events").find("populated 1\n") != std::string::npos);
    group->kill();
    child.wait();
    CHECK(host.removes(*group));
    CHECK(host.count() == 0);
}

TEST_CASE("v2: the limit of processes that is raised holds for who runs already", "[cgroup][v2]") {
    Host host;
    const auto group = host.make(limits(256, 1));
    auto child = host.run(*group,
                          "trap 'for i in 1 2 3 4 5; do sleep 1000 & done; echo all' USR1; echo up; "
                          "while :; do sleep 0.05; done");
    char up[3];
    REQUIRE(::read(child.output.get(), up, sizeof up) == sizeof up);
    REQUIRE(group->set_limits(limits(256, 20)).has_value());
    REQUIRE(::kill(child.spawned.pid, SIGUSR1) == 0);
    char all[4] = {};
    CHECK(::read(child.output.get(), all, sizeof all) == sizeof all);
    CHECK(std::string_view(all, sizeof all) == "all\n");
    CHECK(host.file("pids.max") == "22\n");
    group->kill();
    child.wait();
}

TEST_CASE("v2: a group that was delegated to the server comes before the root", "[cgroup][v2]") {
    const Host host;
    const auto before = cgroup::find_layout().unified;
    const auto own = before.size() > 1 && before.front() != before.back() ? before.back() : before.front();
    const auto group = own / ("atoll-delegated-" + base::new_id());
    std::filesystem::create_directory(group);
    const char* const attribute = test::is_root() ? "trusted.delegate" : "user.delegate";
    // Joined by a child, since a process cannot be where the next test wants a group without members.
    const auto joins = [&group](const std::filesystem::path& first) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            std::ofstream(group / "cgroup.procs") << 0 << std::flush;
            const auto found = cgroup::find_layout().unified;
            ::_exit(found.size() == 2 && found.front() == first ? 0 : 1);
        }
        int status = -1;
        ::waitpid(pid, &status, 0);
        return status == 0;
    };
    CHECK(joins("/sys/fs/cgroup"));
    CHECK(::setxattr(group.c_str(), attribute, "1", 1, 0) == 0);
    CHECK(joins(group));
    CHECK(::rmdir(group.c_str()) == 0);
}

TEST_CASE("v2: a rootless server that shares its group with others limits nothing there, and says why",
          "[cgroup][v2][part]") {
    const char* const part = std::getenv("ATOLL_TEST_DELEGATED");
    if (part == nullptr)
        SKIP("no cgroup v2 hierarchy here of which this user was told to have a part");
    const auto group = std::filesystem::path(part) / ("atoll-shared-" + base::new_id());
    std::filesystem::create_directory(group);
    const pid_t pid = ::fork();
    if (pid == 0) {
        std::ofstream(group / "cgroup.procs") << 0 << std::flush;
        const pid_t other = ::fork();
        if (other == 0) {
            ::pause();
            ::_exit(0);
        }
        const auto places = cgroup::open_places("shared", cgroup::find_layout());
        const bool says_why =
            places.missing.size() == 3 &&
            places.missing.at(cgroup::Controller::memory).find("other processes run in") != std::string::npos;
        cgroup::close_places(places);
        ::kill(other, SIGKILL);
        ::waitpid(other, nullptr, 0);
        ::_exit(says_why ? 0 : 1);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
    // Its leaf is removed first: it has no member left.
    ::rmdir((group / "atoll-server-shared").c_str());
    CHECK(::rmdir(group.c_str()) == 0);
}

}  // namespace v2_test
