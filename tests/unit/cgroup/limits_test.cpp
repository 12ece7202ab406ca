// What the kernel enforces for a group, on this host's own hierarchies, whichever version they are.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "../isolation/fixture.hpp"
#include "cgroup/groups.hpp"
#include "cgroup/members.hpp"
#include "core/base/ids.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/zygote.hpp"

namespace {

using namespace atl;
namespace fs = std::filesystem;
using Layout = cgroup::Layout;

constexpr std::chrono::seconds k_deadline{20};
const char* const k_zygote = ATOLL_BIN_DIR "/atoll-zygote";
// Holds 200 MB in its own memory.
const char* const k_memory_bomb = "x=$(yes | head -c 200000000); echo ${#x}";

struct Child {
    isolation::Spawned spawned;
    base::UniqueFd output;

    int wait() {
        int status = 0;
        while (::waitpid(spawned.pid, &status, 0) < 0 && errno == EINTR) {
        }
        return status;
    }
    std::string read_all() const {
        std::string text;
        char chunk[4096];
        ssize_t count = 0;
        while ((count = ::read(output.get(), chunk, sizeof chunk)) > 0)
            text.append(chunk, static_cast<std::size_t>(count));
        return text;
    }
};

/// A server's groups on this host, or on a part of what it has.
class Host {
  public:
    explicit Host(Layout layout = cgroup::find_layout(), std::size_t made_ahead = 0)
        : layout_(std::move(layout)), made_ahead_(made_ahead) {
        reopen();
    }
    // A group that was dropped while a member was dying stays until the next start: this is it.
    ~Host() {
        groups_.reset();
        (void)cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance_, k_zygote}, layout_);
    }

    cgroup::Groups& groups() { return *groups_; }
    bool enforces(cgroup::Controller controller) const {
        return std::ranges::any_of(groups_->places().all, [controller](const cgroup::Place& place) {
            return place.controllers.contains(controller);
        });
    }
    void require(cgroup::Controller controller) const {
        if (!enforces(controller))
            SKIP("no cgroup on this host with which this user can limit " << cgroup::name_of(controller));
    }
    std::unique_ptr<sandbox::ResourceGroup> make(const sandbox::Limits& limits) {
        auto group = groups_->create("box-" + std::to_string(++last_), limits);
        REQUIRE(group.has_value());
        REQUIRE(*group);
        return std::move(*group);
    }
    /// A shell in `group`, as a sandbox gets there.
    Child run(sandbox::ResourceGroup& group, const std::string& script) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        Child child;
        child.output.reset(ends[0]);
        const base::UniqueFd write_end(ends[1]);
        const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        isolation::ChildPlan plan;
        plan.fds = {null.get(), write_end.get(), write_end.get()};
        plan.group_fd = group.clone_into_fd();
        const std::vector<std::string> args{"-c", "PATH=/usr/bin:/bin\n" + script};
        const auto zygote = group.take_zygote();
        auto spawned = zygote ? zygote->become("/bin/sh", args, plan)
                              : isolation::spawn(loop.context.get_executor(), "/bin/sh", args, plan);
        REQUIRE(spawned.has_value());
        child.spawned = std::move(*spawned);
        return child;
    }
    void reopen() {
        groups_.reset();
        auto opened = cgroup::Groups::open(loop.context.get_executor(), loop.timers,
                                           {instance_, k_zygote, made_ahead_}, layout_);
        REQUIRE(opened.has_value());
        groups_ = std::move(*opened);
        if (groups_->places().all.empty())
            SKIP("no cgroup hierarchy on this host that this user may write to");
    }
    /// How many groups of this server there are in all hierarchies.
    std::size_t count() const {
        std::size_t found = 0;
        for (const auto& place : groups_->places().all) {
            found += static_cast<std::size_t>(
                std::ranges::count_if(fs::directory_iterator(place.path),
                                      [](const fs::directory_entry& entry) { return entry.is_directory(); }));
        }
        return found;
    }
    bool removes(sandbox::ResourceGroup& group) {
        std::optional<base::Result<void>> result;
        group.remove([&result](const base::Result<void>& how) { result = how; });
        return loop.run_until([&result] { return result.has_value(); }, k_deadline) && result->has_value();
    }

    test::Loop loop;

  private:
    Layout layout_;
    std::size_t made_ahead_;
    std::string instance_ = "test" + base::new_id();
    std::unique_ptr<cgroup::Groups> groups_;
    int last_ = 0;
};

sandbox::Limits limits(std::uint32_t memory_mb, std::uint32_t processes = 64) {
    sandbox::Limits wanted;
    wanted.memory_mb = memory_mb;
    wanted.max_processes = processes;
    return wanted;
}

/// The v1 hierarchies alone, as on a host without v2.
Layout v1_only() {
    return {{}, cgroup::find_layout().v1};
}

}  // namespace

TEST_CASE("limits: memory over the limit is told as it happens, and counted") {
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

TEST_CASE("limits: the same memory within a limit is no kill") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(1024));
    group->watch_oom([] { FAIL("nothing was killed"); });
    auto child = host.run(*group, k_memory_bomb);
    CHECK(child.read_all() == "199999999\n");
    child.wait();
    CHECK(group->oom_kills() == 0);
    CHECK(host.removes(*group));
}

TEST_CASE("limits: a SIGKILL from inside is not taken for the kernel's, nor is a neighbour's kill for ours") {
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

TEST_CASE("limits: raised while it runs, they hold at once") {
    Host host;
    host.require(cgroup::Controller::memory);
    const auto group = host.make(limits(48));
    REQUIRE(group->set_limits(limits(1024)).has_value());
    auto child = host.run(*group, k_memory_bomb);
    CHECK(child.read_all() == "199999999\n");
    child.wait();
    REQUIRE(group->set_limits(limits(64)).has_value());
    CHECK(group->oom_kills() == 0);
}

TEST_CASE("limits: no more processes than allowed") {
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

TEST_CASE("limits: a processor is shared as it was said") {
    Host host;
    host.require(cgroup::Controller::cpu);
    sandbox::Limits half;
    half.cpu_percent = 20;
    const auto group = host.make(half);
    auto child = host.run(*group, "timeout 1 sh -c 'while :; do :; done'");
    child.wait();
    const auto used = group->usage().cpu_usec;
    REQUIRE(used.has_value());
    CHECK(*used > 20'000);
    CHECK(*used < 500'000);
}

TEST_CASE("limits: what a group uses is told") {
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

TEST_CASE("limits: v1 alone ends and removes a group, whatever forks meanwhile") {
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

TEST_CASE("limits: groups made ahead are given away once, and none is left at the end") {
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
    CHECK(first->take_zygote() == nullptr);
    one.wait();
    two.wait();
    CHECK(host.removes(*first));
    CHECK(host.removes(*second));
    host.reopen();
    CHECK(host.count() == 0);
}

TEST_CASE("limits: what cannot start says why on its own stderr") {
    Host host(v1_only());
    const auto group = host.make(limits(64));
    const auto zygote = group->take_zygote();
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
