// The kernel's enforcement for a group, on this host's own hierarchies, of either version.
#include <signal.h>
#include <sys/wait.h>

#include "cgroup/members.hpp"
#include "groups_host.hpp"

namespace cgroup_limits_test {

namespace {

using namespace atl;
using test::Child;
using test::k_memory_bomb;
using test::limits;
using Host = test::GroupsHost;
using Layout = cgroup::Layout;
constexpr auto k_deadline = test::k_group_deadline;

/// The v1 hierarchies alone, as on a host without v2.
Layout v1_only() {
    return {{}, cgroup::find_layout().v1};
}

}  // namespace

TEST_CASE("limits: memory over the limit is told as it happens, and counted", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(48));
    bool told = false;
    group->watch_oom([&told] { told = true; });
    CHECK(group->oom_kills() == 0);
    auto bomb = host.run(*group, k_memory_bomb);
    CHECK(host.loop.run_until([&told] { return told; }, k_deadline));
    CHECK(group->oom_kills() > 0);
    const auto peak = group->usage().memory_peak_bytes;
    REQUIRE(peak.has_value());
    CHECK(*peak > 40UL * 1024 * 1024);
    CHECK(*peak <= 48UL * 1024 * 1024);
    group->kill();
    bomb.wait();
    CHECK(host.removes(*group));
}

TEST_CASE("limits: the same memory within a limit is no kill", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(1024));
    group->watch_oom([] { FAIL("nothing was killed"); });
    auto child = host.run(*group, k_memory_bomb);
    CHECK(child.read_all() == "held\n");
    child.wait();
    CHECK(group->oom_kills() == 0);
    CHECK(host.removes(*group));
}

TEST_CASE("limits: a SIGKILL from inside is not taken for the kernel's, nor is a neighbour's kill for ours",
          "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(256));
    const auto neighbour = host.make(limits(48));
    group->watch_oom([] { FAIL("it was not the kernel"); });
    bool told = false;
    neighbour->watch_oom([&told] { told = true; });
    auto child = host.run(*group, "kill -9 $$");
    auto bomb = host.run(*neighbour, k_memory_bomb);
    CHECK(host.loop.run_until([&told] { return told; }, k_deadline));
    CHECK(WIFSIGNALED(child.wait()));
    CHECK(group->oom_kills() == 0);
    neighbour->kill();
    bomb.wait();
}

TEST_CASE("limits: raised while it runs, they hold at once", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(48));
    REQUIRE(group->set_limits(limits(1024)).has_value());
    auto child = host.run(*group, k_memory_bomb);
    CHECK(child.read_all() == "held\n");
    child.wait();
    REQUIRE(group->set_limits(limits(64)).has_value());
    CHECK(group->oom_kills() == 0);
}

TEST_CASE("limits: unread datagrams take no more than the memory limit", "[cgroup][v1]") {
    Host host;
    host.require(cgroup::Controller::memory);
    // Sockets that send to themselves, 192 KB each, 77 MB in all; then how many megabytes came.
    const std::string unread = R"(ulimit -n 1000; exec python3 -c '
import socket
made = []
for i in range(400):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setblocking(False)
    one.bind(("127.0.0.1", 0))
    one.connect(one.getsockname())
    for j in range(6):
        try:
            one.send(bytes(32000))
        except OSError:
            pass
    made.append(one)
held = 0
for one in made:
    try:
        while True:
            held += len(one.recv(65536))
    except OSError:
        pass
print(held // 1000000)
')";
    const auto wide = host.make(limits(512));  // on v1 64 MB of buffers
    auto many = host.run(*wide, unread);
    const auto small = host.make(limits(32));
    auto few = host.run(*small, unread);
    // The control: with room enough nearly all came.
    CHECK(std::stoi("0" + many.read_all()) > 50);
    CHECK(std::stoi("0" + few.read_all()) < 40);
    many.wait();
    few.wait();
    CHECK(host.removes(*wide));
    CHECK(host.removes(*small));
}

TEST_CASE("limits: the processor time of all groups together is told, also of one that is gone", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::cpu);
    const auto before = host.groups().cpu_usec();
    REQUIRE(before.has_value());
    const auto group = host.make(limits(256));
    auto child = host.run(*group, "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done");
    child.wait();
    const auto own = group->usage().cpu_usec;
    REQUIRE(own.has_value());
    CHECK(*own > 1000);
    CHECK(host.removes(*group));
    CHECK(*host.groups().cpu_usec() - *before >= *own);
}

TEST_CASE("limits: no more processes than allowed", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::pids);
    const std::string forks =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 60 >/dev/null 2>&1 & done; echo all; kill $(jobs -p)";
    const auto few = host.make(limits(256, 5));
    CHECK(host.run(*few, forks).read_all().find("all") == std::string::npos);
    few->kill();
    const auto many = host.make(limits(256, 20));
    auto child = host.run(*many, forks);
    CHECK(child.read_all().find("all") != std::string::npos);
}

// [serial]: processor time beside passed time.
TEST_CASE("limits: a processor is shared as it was said", "[cgroup][serial]") {
    Host host;
    host.require(cgroup::Controller::cpu);
    sandbox::Limits half;
    half.cpu_percent = 20;
    const auto group = host.make(half);
    const auto began = std::chrono::steady_clock::now();
    auto child = host.run(*group, "perl -e 'while ((times)[0] + (times)[1] < 0.2) {}'");
    child.wait();
    // It asks for a whole processor until it has had 0.2 s of one. Other work makes that only longer.
    const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - began;
    const auto used = group->usage().cpu_usec;
    REQUIRE(used.has_value());
    CHECK(*used > 150'000);
    CHECK(static_cast<double>(*used) < passed.count() / 2);
}

TEST_CASE("limits: what a group uses is told", "[cgroup]") {
    Host host;
    host.require(cgroup::Controller::pids);
    const auto group = host.make(limits(256));
    auto child = host.run(*group, "sleep 60 & sleep 60 & sleep 60 & echo up; wait");
    char byte = 0;
    REQUIRE(::read(child.output.get(), &byte, 1) == 1);
    // The shell and three: the two that a sandbox always has are not counted.
    CHECK(group->usage().processes == 2);
    group->kill();
    child.wait();
    CHECK(host.removes(*group));
    CHECK(host.count() == 0);
}

TEST_CASE("limits: v1 alone ends and removes a group, whatever forks meanwhile", "[cgroup][v1]") {
    Host host(v1_only());
    const auto group = host.make(limits(256));
    CHECK(group->clone_into_fd() < 0);
    auto child =
        host.run(*group, "setsid sleep 1000 & (sleep 1000 &) ; f() { sleep 0.01; f & f; }; echo up; f");
    char byte = 0;
    REQUIRE(::read(child.output.get(), &byte, 1) == 1);
    group->kill();
    child.wait();
    CHECK(host.removes(*group));
    CHECK(host.count() == 0);
}

TEST_CASE("limits: groups made ahead are given away once, and none is left at the end", "[cgroup]") {
    Host host(cgroup::find_layout(), 4);
    host.require(cgroup::Controller::memory);
    host.groups().make_ahead();
    const bool has_v1 = !v1_only().v1.empty();
    const std::size_t hierarchies = host.groups().places().all.size();
    CHECK(host.loop.run_until([&] { return host.count() >= (has_v1 ? 4 * hierarchies : 0); }, k_deadline));
    const auto first = host.make(limits(64));
    const auto second = host.make(limits(64));
    auto one = host.run(*first, "echo one");
    auto two = host.run(*second, "echo two");
    CHECK(one.read_all() == "one\n");
    CHECK(two.read_all() == "two\n");
    one.wait();
    two.wait();
    CHECK(host.removes(*first));
    CHECK(host.removes(*second));
    host.reopen();
    CHECK(host.count() == 0);
}

TEST_CASE("limits: what cannot start says why on its own stderr", "[cgroup][v1]") {
    Host host(v1_only());
    const auto group = host.make(limits(64));
    const auto prepared = group->take_prepared_process().value();
    isolation::Zygote* const zygote = isolation::Zygote::from(prepared.get());
    REQUIRE(zygote);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Child child;
    child.output.reset(ends[0]);
    base::UniqueFd write_end(ends[1]);
    isolation::ChildPlan plan;
    plan.fds = {write_end.get(), write_end.get(), write_end.get()};
    auto spawned = zygote->become("/there/is/no/program", {}, plan);
    REQUIRE(spawned.has_value());
    write_end.reset();
    child.spawned = std::move(*spawned);
    CHECK(child.read_all().find("exec /there/is/no/program: No such file") != std::string::npos);
    CHECK(WEXITSTATUS(child.wait()) == 127);
}

}  // namespace cgroup_limits_test
