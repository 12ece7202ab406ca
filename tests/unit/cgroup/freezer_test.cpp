// Freezing on this host's own hierarchies, and on its v1 hierarchies alone where there are some.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>

#include "../isolation/fixture.hpp"
#include "cgroup/groups.hpp"
#include "core/base/ids.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/zygote.hpp"
#include "tests/support/paths.hpp"

namespace freezer_test {

namespace {

using namespace atl;

constexpr auto k_deadline = test::k_client_deadline;
const std::string k_zygote = test::build_path("bin/atoll-zygote");

cgroup::Layout v1_only() {
    return {{}, cgroup::find_layout().v1};
}

/// A program that writes without end, and its output.
struct Writer {
    pid_t pid = -1;
    base::UniqueFd output;

    std::size_t read_some() const {
        char chunk[65536];
        const ssize_t count = ::read(output.get(), chunk, sizeof chunk);
        return count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    void drain() const {
        while (read_some() > 0) {
        }
    }
    /// Waits until it has written some more; false if it does not.
    bool goes_on() const {
        drain();
        pollfd more{output.get(), POLLIN, 0};
        return ::poll(&more, 1, static_cast<int>(k_deadline.count()) * 1000) == 1 && read_some() > 0;
    }
    int wait() const {
        int status = 0;
        while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        return status;
    }
};

class Freezing {
  public:
    explicit Freezing(cgroup::Layout layout) : layout_(std::move(layout)) { reopen(); }
    // Opening the groups again removes a group whose members were still dying.
    ~Freezing() {
        groups_.reset();
        (void)cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance_, k_zygote, 0},
                                   layout_);
    }

    void reopen() {
        reopen_groups();
        if (groups_->freezer() == "none")
            SKIP("no cgroup freezer on this host that this user may write to");
    }
    cgroup::Groups& groups() { return *groups_; }
    std::unique_ptr<sandbox::ResourceGroup> make() {
        auto group = groups_->create("box-" + std::to_string(++last_), {});
        REQUIRE(group.has_value());
        REQUIRE(*group);
        return std::move(*group);
    }
    Writer start_writer(sandbox::ResourceGroup& group) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        Writer writer;
        writer.output.reset(ends[0]);
        const base::UniqueFd write_end(ends[1]);
        const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        isolation::ChildPlan plan;
        plan.fds = {null.get(), write_end.get(), null.get()};
        plan.group_fd = group.clone_into_fd();
        const auto prepared = group.take_prepared_process().value();
        isolation::Zygote* const zygote = isolation::Zygote::from(prepared.get());
        auto spawned =
            zygote ? zygote->become("/usr/bin/yes", {}, plan) : isolation::spawn("/usr/bin/yes", {}, plan);
        REQUIRE(spawned.has_value());
        writer.pid = spawned->pid;
        ::fcntl(writer.output.get(), F_SETFL, O_NONBLOCK);
        REQUIRE(writer.goes_on());
        return writer;
    }
    /// Again where a process got no processor for so long that the freeze was given up.
    base::Result<void> freeze(sandbox::ResourceGroup& group) {
        std::optional<base::Result<void>> result;
        const auto until = std::chrono::steady_clock::now() + k_deadline;
        do {
            result.reset();
            group.freeze([&result](const base::Result<void>& how) { result = how; });
            CHECK_FALSE(result.has_value());
            REQUIRE(loop.run_until([&result] { return result.has_value(); }, k_deadline));
        } while (!result->has_value() && std::chrono::steady_clock::now() < until);
        return *result;
    }
    bool removes(sandbox::ResourceGroup& group) {
        std::optional<base::Result<void>> result;
        group.remove([&result](const base::Result<void>& how) { result = how; });
        return loop.run_until([&result] { return result.has_value(); }, k_deadline) && result->has_value();
    }

    test::Loop loop;

  private:
    void reopen_groups() {
        groups_.reset();
        auto opened =
            cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance_, k_zygote, 0}, layout_);
        REQUIRE(opened.has_value());
        groups_ = std::move(*opened);
    }

    cgroup::Layout layout_;
    std::string instance_ = "test" + base::new_id();
    std::unique_ptr<cgroup::Groups> groups_;
    int last_ = 0;
};

cgroup::Layout some_layout() {
    const bool wants_v1 = GENERATE(false, true);
    return wants_v1 && v1_only().v1.contains(cgroup::Controller::freezer) ? v1_only() : cgroup::find_layout();
}

}  // namespace

TEST_CASE("freezer: what is frozen stands still beside a neighbour that goes on, and goes on when thawed") {
    Freezing host(some_layout());
    const auto group = host.make();
    const auto other = host.make();
    const Writer writer = host.start_writer(*group);
    const Writer neighbour = host.start_writer(*other);
    for (int round = 0; round < 3; ++round) {
        REQUIRE(host.freeze(*group).has_value());
        writer.drain();
        for (int i = 0; i < 100; ++i)
            REQUIRE(neighbour.goes_on());
        CHECK(writer.read_some() == 0);
        REQUIRE(group->thaw().has_value());
        CHECK(writer.goes_on());
    }
    group->kill();
    other->kill();
    CHECK(WIFSIGNALED(writer.wait()));
    neighbour.wait();
    CHECK(host.removes(*group));
    CHECK(host.removes(*other));
}

TEST_CASE("freezer: what is frozen, or on its way to, can be killed and removed") {
    Freezing host(some_layout());
    const bool waits = GENERATE(true, false);
    const auto group = host.make();
    const Writer writer = host.start_writer(*group);
    if (waits)
        REQUIRE(host.freeze(*group).has_value());
    else
        group->freeze([](const base::Result<void>&) { FAIL("it was killed"); });
    group->kill();
    CHECK(WIFSIGNALED(writer.wait()));
    CHECK(host.removes(*group));
}

TEST_CASE("freezer: a thaw gives up a freeze under way") {
    Freezing host(some_layout());
    const auto group = host.make();
    const Writer writer = host.start_writer(*group);
    group->freeze([](const base::Result<void>&) { FAIL("it was given up"); });
    REQUIRE(group->thaw().has_value());
    CHECK(writer.goes_on());
    REQUIRE(host.freeze(*group).has_value());
    group->kill();
    writer.wait();
    CHECK(host.removes(*group));
}

TEST_CASE("freezer: a start ends what the last run left frozen") {
    Freezing host(some_layout());
    auto group = host.make();
    const Writer writer = host.start_writer(*group);
    REQUIRE(host.freeze(*group).has_value());
    // The state after a killed server: nothing was thawed or removed.
    host.reopen();
    CHECK(WIFSIGNALED(writer.wait()));
}

TEST_CASE("freezer: a host without one says so, and what was to be frozen goes on") {
    cgroup::Layout layout = v1_only();
    layout.v1.erase(cgroup::Controller::freezer);
    test::Loop loop;
    const std::string instance = "test" + base::new_id();
    auto groups =
        cgroup::Groups::open(loop.context.get_executor(), loop.timers, {instance, k_zygote, 0}, layout);
    REQUIRE(groups.has_value());
    CHECK((*groups)->freezer() == "none");
    if ((*groups)->places().all.empty())
        return;  // then there are no groups at all, and no call asks for a freezer
    auto group = (*groups)->create("box", {});
    REQUIRE(group.has_value());
    std::optional<base::Result<void>> result;
    (*group)->freeze([&result](const base::Result<void>& how) { result = how; });
    REQUIRE(loop.run_until([&result] { return result.has_value(); }, k_deadline));
    CHECK(result->error().code() == base::Errc::sandbox_failed);
    CHECK((*group)->thaw().has_value());
}

}  // namespace freezer_test
