// Workspaces and the helper process, with the real program.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "../isolation/fixture.hpp"
#include "core/base/pidfd.hpp"
#include "core/store/checkpointer.hpp"
#include "fs-guard/workspaces.hpp"
#include "tests/support/many_files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/store_calls.hpp"

namespace fs_guard_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;
using Outcome = std::optional<base::Result<void>>;
auto into(Outcome& outcome) {
    return [&outcome](const auto& result) { outcome = result ? base::Result<void>() : result.error(); };
}

struct Bench {
    test::TempFolder data;
    test::Loop loop;
    std::unique_ptr<fs_guard::HelperClient> helper;
    base::SystemClock clock;
    fs_guard::DiskMeter meter{{clock, loop.timers, [this] { return space; },
                               [this](const std::string& id, auto done) {
                                   helper->measure(fs_guard::Workspaces::folder_name(id), std::move(done));
                               }},
                              {}};
    std::optional<fs_guard::FreeSpace> space{{1000, 1000, 1000, 1000}};
    base::Budgets budgets;
    std::unique_ptr<fs_guard::Workspaces> workspaces;

    explicit Bench(const fs::path& in = fs::temp_directory_path()) : data(in) {
        helper = start(isolation::Priority::background);
        workspaces =
            fs_guard::Workspaces::open(data.path(), *helper, meter, loop.timers, budgets.removals).value();
    }
    std::unique_ptr<fs_guard::HelperClient> start(isolation::Priority priority) {
        return fs_guard::HelperClient::start(loop.context.get_executor(), loop.timers,
                                             {test::build_path("bin/atoll-helper"), data.path(), priority})
            .value();
    }
    base::Result<void> settle(const Outcome& outcome) {
        REQUIRE(loop.run_until([&outcome] { return outcome.has_value(); }, std::chrono::seconds(60)));
        return *outcome;
    }
    base::Result<void> remove_tree(const std::string& path) {
        Outcome outcome;
        helper->remove(path, std::chrono::hours(1), into(outcome));
        CHECK_FALSE(outcome.has_value());
        return settle(outcome);
    }
    base::Result<void> remove(const std::string& id) {
        Outcome outcome;
        CHECK(workspaces->remove(id, base::ShareHolder(), into(outcome)).has_value());
        CHECK_FALSE(outcome.has_value());
        return settle(outcome);
    }
    /// The store has these. `told` gets the ids of the workspaces that are kept.
    sandbox::Sweep sweep(const std::vector<std::string>& known, Outcome& outcome,
                         std::vector<std::string>* told) {
        const std::set<std::string> ids(known.begin(), known.end());
        sandbox::SweepCalls calls;
        calls.is_known = [&](const std::string& id) { return base::Result<bool>(ids.contains(id)); };
        calls.on_kept = [&](const std::string& id) {
            told->push_back(id);
            return base::Result<void>();
        };
        calls.on_emptied = into(outcome);
        calls.known = known.size();
        auto swept = workspaces->sweep(std::move(calls));
        REQUIRE(swept.has_value());
        return *swept;
    }
    bool removes(const std::string& path) {
        const auto result = remove_tree(path);
        INFO((result ? std::string("removed") : result.error().detail()));
        CHECK(result.has_value());
        return result.has_value() && !fs::exists(fs::symlink_status(data / path));
    }
};

/// Folders below one another, each in the last; -1 or the innermost.
int nest(int at, int depth) {
    for (int i = 0; i < depth; ++i) {
        if (::mkdirat(at, "deep", 0755) != 0)
            return -1;
        const int next = ::openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ::close(at);
        at = next;
    }
    return at;
}

/// How often the write-ahead log of this database has begun anew: the checkpoint sequence number in its
/// header (https://sqlite.org/fileformat2.html#the_write_ahead_log). 0 before the first commit.
std::uint32_t log_rounds(const fs::path& database) {
    std::array<unsigned char, 16> header{};
    std::ifstream(database.string() + "-wal", std::ios::binary)
        .read(reinterpret_cast<char*>(header.data()), header.size());
    std::uint32_t rounds = 0;
    for (std::size_t at = 12; at < header.size(); ++at)
        rounds = rounds << 8U | header[at];
    return rounds;
}

}  // namespace

TEST_CASE("helper: a tree with hostile names, links and closed folders is removed and nothing beyond it") {
    Bench bench;
    test::write_text(bench.data / "outside/file", "keep");
    const fs::path tree = bench.data / "trash/t";
    test::write_text(tree / "a\nb \"\\ \x01\xff", "x");
    test::write_text(tree / std::string(255, 'n'), "x");
    test::write_text(tree / "-rf", "x");
    fs::create_directory_symlink(bench.data / "outside", tree / "link");
    fs::create_symlink("/", tree / "root");
    fs::create_symlink("..", tree / "up");
    REQUIRE(::mkfifo((tree / "fifo").c_str(), 0) == 0);
    test::write_text(tree / "closed/inner/file", "x", 0);
    ::chmod((tree / "closed/inner").c_str(), 0);
    ::chmod((tree / "closed").c_str(), 0);
    CHECK(bench.removes("trash/t"));
    CHECK(test::read_text(bench.data / "outside/file") == "keep");
}

TEST_CASE("helper: an unprivileged owner's closed folders are removed too") {
    if (!test::is_root())
        SKIP("the test above has run it unprivileged already");
    Bench bench;
    // The same program as an unprivileged user, driven by hand.
    constexpr uid_t k_uid = 1'950'000'000;
    const fs::path tree = bench.data / "t";
    test::write_text(tree / "closed/inner/file", "x", 0);
    test::write_text(tree / "readonly/file", "x", 0);
    REQUIRE(::chown(bench.data.path().c_str(), k_uid, k_uid) == 0);
    for (const char* name : {"", "closed", "closed/inner", "closed/inner/file", "readonly", "readonly/file"})
        REQUIRE(::chown((tree / name).c_str(), k_uid, k_uid) == 0);
    for (const auto& [name, mode] : {std::pair{"closed/inner", 0}, {"closed", 0}, {"readonly", 0555}})
        ::chmod((tree / name).c_str(), static_cast<mode_t>(mode));
    const std::string command =
        "cd '" + bench.data.path().string() +
        "' && echo '{\"id\":1,\"op\":\"remove\",\"path\":\"t\",\"ms\":60000}' | setpriv --reuid " +
        std::to_string(k_uid) + " --clear-groups '" + test::build_path("bin/atoll-helper") + "' >/dev/null";
    if (::access("/usr/bin/setpriv", X_OK) != 0)
        FAIL("setpriv is missing (package util-linux)");
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK_FALSE(fs::exists(tree));
}

TEST_CASE("helper: a tree of five thousand levels is removed with few descriptors and little memory") {
    Bench bench(test::folder_for_many_files());
    fs::create_directories(bench.data / "trash/t");
    const int bottom =
        nest(::open((bench.data / "trash/t").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), 5000);
    REQUIRE(bottom >= 0);
    ::close(::openat(bottom, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ::close(bottom);
    rlimit few{48, 48};
    REQUIRE(::prlimit(bench.helper->pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
    CHECK(bench.removes("trash/t"));
#if !defined(__SANITIZE_ADDRESS__)  // AddressSanitizer's own memory is far more
    const std::string status = test::read_text("/proc/" + std::to_string(bench.helper->pid()) + "/status");
    const std::size_t at = status.find("VmHWM:");
    REQUIRE(at != std::string::npos);
    if (test::checks_bounds())
        CHECK(std::stol(status.substr(at + 6)) < 20'000);
#endif
}

TEST_CASE("helper: a wide tree with many folders deep down is removed") {
    Bench bench(test::folder_for_many_files());
    for (int i = 0; i < 20; ++i) {
        std::string path = "trash/t/b" + std::to_string(i);
        for (int depth = 0; depth < 40; ++depth)
            path += "/d";
        for (int file = 0; file < 20; ++file)
            test::write_text(bench.data / (path + "/f" + std::to_string(file) + "/leaf"), "x");
    }
    for (int i = 0; i < 20'000; ++i)
        ::close(::open((bench.data / ("trash/t/file" + std::to_string(i))).c_str(),
                       O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK(bench.removes("trash/t"));
}

TEST_CASE("helper: a mount inside a tree is not entered") {
    if (!test::is_root())
        SKIP("only root can mount");
    Bench bench;
    fs::create_directories(bench.data / "trash/t/m");
    test::write_text(bench.data / "outside/file", "keep");
    if (::mount((bench.data / "outside").c_str(), (bench.data / "trash/t/m").c_str(), nullptr, MS_BIND,
                nullptr) != 0)
        SKIP("this root may not mount: " << std::strerror(errno));
    CHECK_FALSE(bench.remove_tree("trash/t").has_value());
    REQUIRE(::umount((bench.data / "trash/t/m").c_str()) == 0);
    CHECK(test::read_text(bench.data / "outside/file") == "keep");
    CHECK(bench.removes("trash/t"));
}

TEST_CASE("helper: no path leads out of the working directory") {
    Bench bench;
    const test::TempFolder outside;
    test::write_text(outside / "file", "keep");
    CHECK_FALSE(bench.remove_tree(outside.path().string()).has_value());
    CHECK_FALSE(bench.remove_tree("../" + outside.path().filename().string()).has_value());
    fs::create_directory_symlink(outside.path(), bench.data / "link");
    CHECK_FALSE(bench.remove_tree("link/file").has_value());
    CHECK(test::read_text(outside / "file") == "keep");
}

TEST_CASE("helper: what is not there is removed already") {
    Bench bench;
    CHECK(bench.remove_tree("trash/nothing").has_value());
}

TEST_CASE("helper: runs at the lowest priority with nothing open but its pipes and the log") {
    Bench bench;
    REQUIRE(bench.remove_tree("trash/nothing").has_value());  // it is up
    const std::string proc = "/proc/" + std::to_string(bench.helper->pid());
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(bench.helper->pid())) == 19);
    CHECK(::sched_getscheduler(bench.helper->pid()) == SCHED_BATCH);
    CHECK(test::read_text(proc + "/environ").empty());
    CHECK(std::distance(fs::directory_iterator(proc + "/fd"), fs::directory_iterator()) == 3);
}

TEST_CASE("helper: runs at the priority that it is given") {
    Bench bench;
    const auto helper = bench.start(isolation::Priority::low);
    Outcome outcome;
    helper->remove("trash/nothing", std::chrono::hours(1), into(outcome));
    REQUIRE(bench.settle(outcome).has_value());
    // No higher than that of who starts it.
    const int own = ::getpriority(PRIO_PROCESS, 0);
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(helper->pid())) == std::max(own, 5));
    CHECK(::sched_getscheduler(helper->pid()) == SCHED_BATCH);
}

TEST_CASE("helper: one that is killed is replaced and its request repeated") {
    Bench bench(test::folder_for_many_files());
    const pid_t first = bench.helper->pid();
    for (int i = 0; i < 3000; ++i)
        test::write_text(bench.data / ("trash/t/f" + std::to_string(i)), "x");
    Outcome outcome;
    REQUIRE(::kill(first, SIGSTOP) == 0);  // or it could have done it before it is killed
    bench.helper->remove("trash/t", std::chrono::hours(1), into(outcome));
    REQUIRE(::kill(first, SIGKILL) == 0);
    CHECK(bench.settle(outcome).has_value());
    CHECK(bench.helper->pid() != first);
    CHECK_FALSE(fs::exists(bench.data / "trash/t"));
    CHECK(bench.helper->deaths() == 1);
    CHECK(bench.helper->durations().count() == 1);
}

TEST_CASE("helper: each request that is answered counts with the time that it took") {
    Bench bench;
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(bench.remove_tree("trash/nothing").has_value());
    REQUIRE(bench.remove_tree("trash/nothing").has_value());
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK(bench.helper->durations().count() == 2);
    CHECK(bench.helper->durations().sum() > std::chrono::nanoseconds::zero());
    CHECK(bench.helper->durations().sum() <= took);
    CHECK(bench.helper->deaths() == 0);
}

TEST_CASE("helper: ends with its client") {
    Bench bench;
    const base::UniqueFd helper = base::open_pidfd(bench.helper->pid()).value();
    bench.helper.reset();
    // It runs at the lowest priority: on a busy machine its end takes longer than its client waits.
    pollfd gone{helper.get(), POLLIN, 0};
    CHECK(::poll(&gone, 1, test::k_client_deadline_ms) == 1);
}

TEST_CASE("helper: a program that is missing is an error that names it") {
    test::Loop loop;
    const auto started =
        fs_guard::HelperClient::start(loop.context.get_executor(), loop.timers, {"/there/is/no/helper", "/"});
    REQUIRE_FALSE(started.has_value());
    CHECK(started.error().code() == base::Errc::host_unsupported);
    CHECK(started.error().detail().find("/there/is/no/helper") != std::string::npos);
}

TEST_CASE("checkpointer: the log begins anew under a load that never rests, and nothing is lost") {
    Bench bench;
    // A helper of the lowest priority would get next to no time on a machine that others use, too.
    const auto helper = bench.start(isolation::Priority::normal);
    const fs::path database = bench.data / "test.db";
    auto store = store::SqliteStore::open(database).value();
    conversation::Journal journal(*store, bench.loop.timers);
    const store::Checkpointer::Bounds bounds{64UL * 1024, 256UL * 1024};
    std::optional<store::Checkpointer> checkpointer;
    checkpointer.emplace(bench.loop.timers, *helper, *store, journal, database, bounds);
    std::uint64_t seq = 0;
    std::uint64_t committed = 0;
    std::function<void()> load = [&] {
        const std::string text(2000, 'x');
        journal.add(conversation::AppendEvent{
            1, conversation::make_event(++seq, conversation::EventType::text_delta, base::WallTime{}, 1,
                                        "{\"delta\":\"" + text + "\"}")});
        journal.after_commit([&, mine = seq] {
            committed = mine;
            load();
        });
    };
    load();
    const auto begun_anew = [&, first = log_rounds(database)] { return log_rounds(database) - first; };
    REQUIRE(bench.loop.run_until([&] { return checkpointer->held_rounds() >= 5 && begun_anew() >= 3; },
                                 std::chrono::seconds(240)));
    CHECK(checkpointer->rounds() > checkpointer->held_rounds());
    CHECK(committed + 1 >= seq);
    checkpointer.reset();
    // Page by page: a busy machine lets this be gigabytes.
    std::uint64_t found = 0;
    for (auto page = test::read_events(*store, 1, 0, 1UL << 26); page.value().size() > 0;
         page = test::read_events(*store, 1, found, 1UL << 26)) {
        REQUIRE(page->front()->seq == found + 1);
        found += page->size();
    }
    CHECK(found == committed);
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("checkpointer: a helper that does not answer holds nobody up for long", "[serial]") {
    Bench bench;
    const fs::path program = bench.data / "hanging-helper";
    std::ofstream(program) << "#!/bin/sh\n"
                              "for id in 1 2; do read request; echo '{\"id\":'$id',\"ok\":true}'; done\n"
                              "exec sleep 1000\n";
    fs::permissions(program, fs::perms::owner_all);
    auto helper = fs_guard::HelperClient::start(bench.loop.context.get_executor(), bench.loop.timers,
                                                {program, bench.data.path()})
                      .value();
    const fs::path database = bench.data / "test.db";
    auto store = store::SqliteStore::open(database).value();
    conversation::Journal journal(*store, bench.loop.timers);
    const store::Checkpointer checkpointer(bench.loop.timers, *helper, *store, journal, database, {1, 1});
    const auto commit = [&](std::uint64_t seq) {
        bool done = false;
        journal.add(conversation::AppendEvent{
            1, conversation::make_event(seq, conversation::EventType::done, base::WallTime{}, 1, "{}")});
        journal.after_commit([&done] { done = true; });
        const auto began = std::chrono::steady_clock::now();
        REQUIRE(bench.loop.run_until([&done] { return done; }));
        return std::chrono::steady_clock::now() - began;
    };
    const auto first = commit(1);
    REQUIRE(bench.loop.run_until([&] { return checkpointer.rounds() == 1; }));
    CHECK(commit(2) >= store::Checkpointer::k_longest_hold / 2);
    const auto last = commit(3);
    if (test::checks_bounds()) {
        CHECK(first < store::Checkpointer::k_longest_hold);
        CHECK(last < store::Checkpointer::k_longest_hold);
    }
    CHECK(checkpointer.held_rounds() == 0);
}

TEST_CASE("helper: a checkpoint writes the log back while the database is in use") {
    Bench bench;
    const fs::path database = bench.data / "test.db";
    sqlite3* raw = nullptr;
    REQUIRE(::sqlite3_open(database.c_str(), &raw) == SQLITE_OK);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> server(raw, &::sqlite3_close);
    const auto run = [raw](const char* sql) {
        return ::sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
    };
    REQUIRE(run("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x);"));
    REQUIRE(
        run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<5000)"
            " INSERT INTO t SELECT randomblob(100) FROM n"));
    const auto database_bytes = fs::file_size(database);
    Outcome outcome;
    bench.helper->checkpoint(database, into(outcome));
    CHECK(bench.settle(outcome).has_value());
    CHECK(fs::file_size(database) > database_bytes);
    CHECK(run("INSERT INTO t VALUES(1)"));
    Outcome synced;
    bench.helper->sync_log(database, [&synced](const base::Result<void>& result) { synced = result; });
    CHECK(bench.settle(synced).has_value());
    Outcome no_log;
    bench.helper->sync_log(bench.data / "missing.db",
                           [&no_log](const base::Result<void>& result) { no_log = result; });
    CHECK_FALSE(bench.settle(no_log).has_value());
    Outcome missing;
    bench.helper->checkpoint(bench.data / "missing.db",
                             [&missing](const base::Result<void>& result) { missing = result; });
    CHECK_FALSE(bench.settle(missing).has_value());
}

TEST_CASE("workspaces: one is made for its owner alone, and removed at once") {
    Bench bench;
    const std::string id = base::new_id();
    const std::uint32_t uid = test::is_root() ? 1'950'000'001 : 0;
    const auto made = bench.workspaces->provision(id, uid);
    REQUIRE(made.has_value());
    CHECK(*made == bench.workspaces->workspace(id));
    struct stat about {};
    REQUIRE(::stat(made->c_str(), &about) == 0);
    CHECK((about.st_mode & 07777) == 0700);
    CHECK(about.st_uid == (uid == 0 ? ::geteuid() : uid));
    CHECK(about.st_gid == (uid == 0 ? ::getegid() : uid));
    test::write_text(*made / "a/b", "x");
    Outcome outcome;
    CHECK(bench.workspaces->remove(id, base::ShareHolder(), into(outcome)).has_value());
    CHECK_FALSE(fs::exists(*made));
    CHECK(bench.settle(outcome).has_value());
    CHECK(fs::is_empty(bench.data / "trash"));
}

TEST_CASE("workspaces: a link or a file in the place of one is none, and its removal touches nothing else") {
    Bench bench;
    const std::string id = base::new_id();
    REQUIRE(bench.workspaces->provision(id, 0).has_value());
    REQUIRE(bench.workspaces->has_workspace(id));
    const fs::path place = bench.workspaces->workspace(id);
    test::write_text(bench.data / "elsewhere/file", "x");
    fs::remove(place);
    test::write_text(place, "x");
    CHECK_FALSE(bench.workspaces->has_workspace(id));
    fs::remove(place);
    fs::create_directory_symlink(bench.data / "elsewhere", place);
    CHECK_FALSE(bench.workspaces->has_workspace(id));
    CHECK_FALSE(bench.workspaces->owner(id).has_value());
    CHECK(bench.remove(id).has_value());
    CHECK_FALSE(fs::exists(fs::symlink_status(place)));
    CHECK(test::read_text(bench.data / "elsewhere/file") == "x");
}

TEST_CASE("workspaces: a second one of the same id is refused, removing none is done at once") {
    Bench bench;
    const std::string id = base::new_id();
    REQUIRE(bench.workspaces->provision(id, 0).has_value());
    CHECK(bench.workspaces->provision(id, 0).error().code() == base::Errc::storage_failed);
    CHECK_FALSE(bench.workspaces->provision("../x", 0).has_value());
    CHECK(bench.remove(base::new_id()).has_value());
}

TEST_CASE(
    "workspaces: a start removes what was never claimed and what lies in the trash, and keeps the rest") {
    Bench bench;
    const std::string kept = base::new_id();
    const std::string unclaimed = base::new_id();
    const std::string orphan = base::new_id();
    for (const auto& id : {kept, unclaimed, orphan}) {
        REQUIRE(bench.workspaces->provision(id, 0).has_value());
        CHECK(fs::exists(bench.data / "unclaimed" / id));
    }
    bench.workspaces->claim(orphan);
    CHECK_FALSE(fs::exists(bench.data / "unclaimed" / orphan));
    test::write_text(bench.data / "workspaces" / orphan / "x", "x");
    test::write_text(bench.data / "workspaces/not an id/x", "x");
    test::write_text(bench.data / "workspaces/lost+found/x", "x");
    test::write_text(bench.data / "trash/old.1/x", "x");
    Outcome outcome;
    std::vector<std::string> told;
    const auto swept = bench.sweep({kept}, outcome, &told);
    CHECK(told == std::vector{kept});
    CHECK(bench.settle(outcome).has_value());
    CHECK(swept.unclaimed == 1);
    CHECK(swept.new_orphans == 2);
    CHECK(swept.orphans == 2);
    CHECK(swept.missing == 0);
    CHECK(swept.orphan_owners.size() == 2);
    CHECK(fs::exists(bench.workspaces->workspace(kept)));
    CHECK(fs::exists(bench.data / "workspaces/lost+found/x"));
    CHECK(std::distance(fs::directory_iterator(bench.data / "workspaces"), fs::directory_iterator()) == 2);
    CHECK(fs::is_empty(bench.data / "trash"));
    CHECK(fs::is_empty(bench.data / "unclaimed"));
    const fs::path date = fs::directory_iterator(bench.data / "orphaned")->path();
    CHECK(fs::exists(date / orphan / "x"));
    CHECK(fs::exists(date / "not an id/x"));
    // An orphan comes back if the database knows it again; an id without a workspace counts as missing.
    const std::string gone = base::new_id();
    Outcome again;
    const auto second = bench.sweep({kept, orphan, gone}, again, &told);
    CHECK(std::set(told.begin() + 1, told.end()) == std::set{kept, orphan});
    CHECK(second.kept == 2);
    CHECK(bench.settle(again).has_value());
    CHECK(second.returned == 1);
    CHECK(second.missing == 1);
    CHECK(second.orphans == 1);
    CHECK(second.new_orphans == 0);
    CHECK(fs::exists(bench.workspaces->workspace(orphan) / "x"));
    CHECK(bench.workspaces->has_workspace(orphan));
    CHECK_FALSE(bench.workspaces->has_workspace(gone));
}

TEST_CASE("workspaces: a store that fails ends the sweep, and the workspace in question stays") {
    Bench bench;
    const std::string id = base::new_id();
    REQUIRE(bench.workspaces->provision(id, 0).has_value());
    test::write_text(bench.data / "trash/old.1/x", "x");
    sandbox::SweepCalls calls;
    calls.on_kept = [](const std::string&) { return base::Result<void>(); };
    calls.on_emptied = [](const base::Result<void>&) { FAIL("the trash was emptied"); };
    SECTION("that is asked") {
        calls.is_known = [](const std::string&) {
            return base::Result<bool>(base::Error(base::Errc::storage_failed, "no"));
        };
    }
    SECTION("that is told") {
        calls.is_known = [](const std::string&) { return base::Result<bool>(true); };
        calls.on_kept = [](const std::string&) {
            return base::Result<void>(base::Error(base::Errc::storage_failed, "no"));
        };
    }
    const auto swept = bench.workspaces->sweep(std::move(calls));
    REQUIRE_FALSE(swept.has_value());
    CHECK(swept.error().code() == base::Errc::storage_failed);
    CHECK(bench.workspaces->has_workspace(id));
    CHECK(fs::exists(bench.data / "unclaimed" / id));
}

TEST_CASE("workspaces: a thousand without a record are all put aside, and a thousand with one all found") {
    Bench bench(test::folder_for_many_files());
    std::set<std::string> known;
    for (int i = 0; i < 2000; ++i) {
        const std::string id = base::new_id();
        fs::create_directory(bench.data / "workspaces" / id);
        if (i % 2 == 0)
            known.insert(id);
    }
    Outcome outcome;
    std::vector<std::string> told;
    const auto swept = bench.sweep({known.begin(), known.end()}, outcome, &told);
    CHECK(bench.settle(outcome).has_value());
    CHECK(swept.new_orphans == 1000);
    CHECK(told.size() == 1000);
    CHECK(std::set(told.begin(), told.end()) == known);
    std::set<std::string> visited;
    const auto all = bench.workspaces->each_workspace([&](const std::string& id) {
        CHECK(visited.insert(id).second);
        return base::Result<void>();
    });
    CHECK(all.has_value());
    CHECK(visited == known);
}

TEST_CASE("workspaces: a removed one leaves no mark, and one that cannot be made neither") {
    Bench bench;
    const std::string id = base::new_id();
    REQUIRE(bench.workspaces->provision(id, 0).has_value());
    CHECK(bench.remove(id).has_value());
    const std::string taken = base::new_id();
    fs::create_directory(bench.data / "workspaces" / taken);
    CHECK_FALSE(bench.workspaces->provision(taken, 0).has_value());
    CHECK(fs::is_empty(bench.data / "unclaimed"));
}

TEST_CASE("workspaces: a data directory that cannot be written is an error that names it") {
    Bench bench;
    const auto opened = fs_guard::Workspaces::open("/proc/nowhere", *bench.helper, bench.meter,
                                                   bench.loop.timers, bench.budgets.removals);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().detail().find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("workspaces: one that is over its limit is told, with what it holds") {
    Bench bench;
    const std::string id = base::new_id();
    REQUIRE(bench.workspaces->provision(id, 0).has_value());
    test::write_text(bench.workspaces->workspace(id) / "a/b", std::string(3'000'000, 'x'));
    std::optional<sandbox::Exit> told;
    const auto tell = [&told](const sandbox::Exit& exit) { told = exit; };
    bench.workspaces->watch(id, base::ShareHolder(), 4, tell, [](std::uint64_t, std::uint64_t) {});
    REQUIRE(bench.loop.run_until([&] { return bench.workspaces->usage(id).has_value(); }));
    CHECK_FALSE(told.has_value());
    CHECK(bench.workspaces->usage(id)->bytes >= 3'000'000);
    CHECK(bench.workspaces->usage(id)->inodes == 3);
    test::write_text(bench.workspaces->workspace(id) / "c", std::string(3'000'000, 'x'));
    bench.space->free_bytes = 0;  // so that it is looked at now
    REQUIRE(bench.loop.run_until([&] { return told.has_value(); }));
    CHECK(told->exit_class == sandbox::ExitClass::disk_limit);
    CHECK(told->limit_bytes == 4UL * 1024 * 1024);
    CHECK(told->peak_bytes.value_or(0) >= 6'000'000);
    CHECK(bench.workspaces->provision(base::new_id(), 0).error().code() == base::Errc::capacity);
}

}  // namespace fs_guard_test
