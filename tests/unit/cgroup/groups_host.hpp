// A server's groups for tests of the kernel's enforcement: on this host's own hierarchies, of either version,
// or on a part of them. The groups are removed at the end.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <optional>

#include "../isolation/fixture.hpp"
#include "cgroup/groups.hpp"
#include "core/base/ids.hpp"
#include "core/isolation/spawn.hpp"
#include "core/isolation/zygote.hpp"
#include "tests/support/paths.hpp"

namespace atl::test {

inline constexpr auto k_group_deadline = k_client_deadline;
// Holds 60 MB in its own memory.
inline const char* const k_memory_bomb =
    "dd if=/dev/zero of=/dev/null bs=60M count=1 status=none && echo held";
inline const std::string k_zygote = build_path("bin/atoll-zygote");

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

class GroupsHost {
  public:
    explicit GroupsHost(cgroup::Layout layout = cgroup::find_layout(), std::size_t made_ahead = 0)
        : layout_(std::move(layout)), made_ahead_(made_ahead) {
        reopen();
    }
    // A group that was dropped while a member was dying stays until the next start: this is it.
    ~GroupsHost() {
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
        const auto prepared = group.take_prepared_process().value();
        isolation::Zygote* const zygote = isolation::Zygote::from(prepared.get());
        auto spawned =
            zygote ? zygote->become("/bin/sh", args, plan) : isolation::spawn("/bin/sh", args, plan);
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
            found += static_cast<std::size_t>(std::ranges::count_if(
                std::filesystem::directory_iterator(place.path),
                [](const std::filesystem::directory_entry& entry) { return entry.is_directory(); }));
        }
        return found;
    }
    bool removes(sandbox::ResourceGroup& group) {
        std::optional<base::Result<void>> result;
        group.remove([&result](const base::Result<void>& how) { result = how; });
        return loop.run_until([&result] { return result.has_value(); }, k_group_deadline) &&
               result->has_value();
    }

    test::Loop loop;

  private:
    cgroup::Layout layout_;
    std::size_t made_ahead_;
    std::string instance_ = "test" + base::new_id();
    std::unique_ptr<cgroup::Groups> groups_;
    int last_ = 0;
};

inline sandbox::Limits limits(std::uint32_t memory_mb, std::uint32_t processes = 64) {
    sandbox::Limits wanted;
    wanted.memory_mb = memory_mb;
    wanted.max_processes = processes;
    return wanted;
}

}  // namespace atl::test
