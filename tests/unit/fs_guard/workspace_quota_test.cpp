// Which workspace has which quota, from its making to its removal and across a crash: on a real file system
// with project quotas, if temporary folders are on one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "../isolation/fixture.hpp"
#include "core/base/limits.hpp"
#include "fs-guard/disk_meter.hpp"
#include "fs-guard/helper_client.hpp"
#include "fs-guard/project_quota.hpp"
#include "fs-guard/workspaces.hpp"
#include "tests/support/paths.hpp"

namespace workspace_quota_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;
using fs_guard::ProjectQuota;

constexpr std::uint64_t k_mb = 1024UL * 1024;
constexpr std::uint32_t k_uid = base::k_first_host_uid + 4096 * 16'001;

struct Bench {
    test::TempFolder data;
    test::Loop loop;
    base::SystemClock clock;
    std::unique_ptr<fs_guard::HelperClient> helper;
    fs_guard::DiskMeter meter{{clock, loop.timers, [this] { return space; },
                               [this](const std::string& id, auto done) {
                                   const auto counted = workspaces->counted(id);
                                   REQUIRE(counted.has_value());
                                   loop.timers.defer([done, size = *counted] { done(size); });
                               }},
                              {}};
    std::optional<fs_guard::FreeSpace> space{{1000, 1000, 1000, 1000}};
    base::Budgets budgets;
    std::unique_ptr<fs_guard::Workspaces> workspaces;
    std::optional<ProjectQuota> quota;

    Bench() {
        auto found = ProjectQuota::open(open(data.path()).get());
        if (!found)
            SKIP("no project quotas where temporary folders are that this user may set: "
                 << found.error().detail());
        quota = std::move(*found);
        auto started = fs_guard::HelperClient::start(loop.context.get_executor(), loop.timers,
                                                     {test::build_path("bin/atoll-helper"), data.path()});
        REQUIRE(started.has_value());
        helper = std::move(*started);
        reopen();
    }
    /// Opens the workspaces again, as a start after a crash does.
    void reopen() {
        workspaces.reset();
        auto opened = fs_guard::Workspaces::open(data.path(), *helper, meter, loop.timers, budgets.removals);
        REQUIRE(opened.has_value());
        workspaces = std::move(*opened);
    }
    static base::UniqueFd open(const fs::path& path) {
        return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    std::string make(std::uint32_t uid) {
        const std::string id = base::new_id();
        REQUIRE(workspaces->provision(id, uid).has_value());
        return id;
    }
    void watch(const std::string& id, std::uint32_t limit_mb) {
        workspaces->watch(
            id, base::ShareHolder::thing(id), limit_mb,
            [](const sandbox::Exit&) { FAIL("the kernel is the wall"); },
            [this](std::uint64_t used, std::uint64_t) { warned_at = used; });
    }
    void sweep(const std::vector<std::string>& known) {
        bool done = false;
        sandbox::SweepCalls calls;
        calls.is_known = [&](const std::string& id) {
            return base::Result<bool>(std::ranges::find(known, id) != known.end());
        };
        calls.on_kept = [](const std::string&) { return base::Result<void>(); };
        calls.on_emptied = [&done](const base::Result<void>& result) { done = result.has_value(); };
        REQUIRE(workspaces->sweep(std::move(calls)).has_value());
        CHECK(loop.run_until([&done] { return done; }));
    }
    std::string disk_of(const std::string& id) const {
        sandbox::Enforcement enforcement;
        workspaces->describe(enforcement, id);
        return enforcement.disk;
    }
    /// XFS frees unlinked files a moment later.
    bool becomes_empty(std::uint32_t project) {
        const auto deadline = clock.steady_now() + std::chrono::seconds(20);
        while (clock.steady_now() < deadline) {
            const auto usage = quota->usage(project);
            if (usage && usage->inodes == 0 && usage->bytes == 0)
                return true;
            loop.context.restart();
            loop.context.run_one_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    std::uint64_t limit_of(std::uint32_t project) const { return quota->usage(project)->limit_bytes; }

    std::uint64_t warned_at = 0;
};

}  // namespace

TEST_CASE("workspaces: each has a project of its own, the number of its uid", "[quota]") {
    Bench bench;
    const std::string one = bench.make(k_uid);
    const std::string two = bench.make(k_uid + 1);
    CHECK(ProjectQuota::project_of(Bench::open(bench.workspaces->workspace(one)).get()) == k_uid);
    CHECK(ProjectQuota::project_of(Bench::open(bench.workspaces->workspace(two)).get()) == k_uid + 1);
    CHECK(bench.disk_of(one) == "quota");
    CHECK(bench.disk_of("") == "quota");
    bench.watch(one, 4);
    bench.watch(two, 8);
    CHECK(bench.limit_of(k_uid) == 5 * k_mb);  // with room for its folders
    CHECK(bench.limit_of(k_uid + 1) == 9 * k_mb);
    bench.workspaces->set_limit(one, 16);
    CHECK(bench.limit_of(k_uid) == 17 * k_mb);
    test::write_text(bench.workspaces->workspace(one) / "a/b", std::string(2 * k_mb, 'x'));
    const auto used = bench.workspaces->usage(one);
    REQUIRE(used.has_value());
    CHECK(used->inodes == 3);
    CHECK(bench.workspaces->usage(two)->inodes == 1);
}

TEST_CASE("workspaces: near its quota one is warned of, at its quota it is not ended", "[quota]") {
    Bench bench;
    const std::string id = bench.make(k_uid);
    bench.watch(id, 4);
    // By root, whom ext4 lets go beyond a limit and XFS does not.
    const fs::path file = bench.workspaces->workspace(id) / "file";
    test::write_text(file, std::string(20 * k_mb, 'x'));
    const base::UniqueFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::fsync(opened.get()) == 0);
    bench.space->free_bytes = 0;  // so that it is looked at now
    CHECK(bench.loop.run_until([&bench] { return bench.warned_at >= 4 * k_mb; }));
    bench.workspaces->unwatch(id);
}

TEST_CASE("workspaces: the quota goes with the workspace", "[quota]") {
    Bench bench;
    const std::string id = bench.make(k_uid);
    bench.watch(id, 4);
    test::write_text(bench.workspaces->workspace(id) / "a/b", std::string(k_mb, 'x'));
    bench.workspaces->unwatch(id);
    bool done = false;
    CHECK(bench.workspaces
              ->remove(id, base::ShareHolder(),
                       [&done](const base::Result<void>& result) { done = result.has_value(); })
              .has_value());
    CHECK(bench.limit_of(k_uid) == 0);  // at once: a crash now leaves nothing to clear
    CHECK(bench.loop.run_until([&done] { return done; }));
    CHECK(bench.becomes_empty(k_uid));
}

TEST_CASE("workspaces: after a crash the known keep their quotas, and the strays' are cleared", "[quota]") {
    Bench bench;
    const std::string kept = bench.make(k_uid);
    const std::string stray = bench.make(k_uid + 1);
    bench.watch(kept, 4);
    bench.watch(stray, 4);
    bench.workspaces->unwatch(kept);
    bench.workspaces->unwatch(stray);
    bench.reopen();
    bench.sweep({kept});
    CHECK(bench.disk_of(kept) == "quota");
    CHECK(bench.limit_of(k_uid) == 5 * k_mb);
    CHECK(bench.limit_of(k_uid + 1) == 0);
    CHECK(bench.becomes_empty(k_uid + 1));
    bench.workspaces->set_limit(kept, 8);
    CHECK(bench.limit_of(k_uid) == 9 * k_mb);
    bench.sweep({});
    // An orphan keeps its quota: its uid is held.
    CHECK(bench.limit_of(k_uid) > 0);
}

TEST_CASE("workspaces: one from before there were quotas is measured, and says so", "[quota]") {
    Bench bench;
    const std::string old = base::new_id();
    const fs::path folder = bench.workspaces->workspace(old);
    fs::create_directory(folder);
    REQUIRE(::chown(folder.c_str(), k_uid, k_uid) == 0);
    bench.sweep({old});
    CHECK(bench.disk_of(old) == "check");
    CHECK_FALSE(bench.workspaces->counted(old).has_value());
    // Nor is a project believed that is not the owner's.
    REQUIRE(ProjectQuota::assign(Bench::open(folder).get(), k_uid + 1).has_value());
    bench.reopen();
    bench.sweep({old});
    CHECK(bench.disk_of(old) == "check");
}

TEST_CASE("workspaces: a data directory that is a project itself is no hindrance", "[quota]") {
    Bench bench;
    for (const char* name : {"workspaces", "trash"})
        REQUIRE(ProjectQuota::assign(Bench::open(bench.data / name).get(), k_uid + 2).has_value());
    bench.reopen();
    const std::string id = bench.make(k_uid);
    bool done = false;
    CHECK(bench.workspaces
              ->remove(id, base::ShareHolder(),
                       [&done](const base::Result<void>& result) { done = result.has_value(); })
              .has_value());
    CHECK(bench.loop.run_until([&done] { return done; }));
}

}  // namespace workspace_quota_test
