// Helpers that stand still: they are killed, another helper does their work, and no caller waits meanwhile.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "../isolation/fixture.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/spawn.hpp"
#include "core/store/checkpointer.hpp"
#include "fs-guard/helper_client.hpp"
#include "tests/support/many_files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/stuck_processes.hpp"

namespace helper_deadline_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;
using Outcome = std::optional<base::Result<void>>;

constexpr base::Millis k_short{200};
constexpr base::Millis k_long{60'000};
// The longest time of a handler that does not wait, on a busy machine.
constexpr base::Millis k_prompt{90};

struct Bench {
    test::TempFolder data;
    test::Loop loop;
    std::unique_ptr<fs_guard::HelperClient> helper;

    explicit Bench(fs_guard::HelperDeadlines deadlines,
                   const fs::path& program = test::build_path("bin/atoll-helper")) {
        fs_guard::HelperConfig config{program, data.path(), isolation::Priority::low};
        config.deadlines = deadlines;
        auto started = fs_guard::HelperClient::start(loop.context.get_executor(), loop.timers, config);
        REQUIRE(started.has_value());
        helper = std::move(*started);
    }
    base::Result<void> remove(const std::string& path) {
        Outcome outcome;
        helper->remove(path, std::chrono::hours(1), [&outcome](const base::Result<bool>& gone) {
            outcome = gone ? base::Result<void>() : gone.error();
        });
        REQUIRE(loop.run_until([&outcome] { return outcome.has_value(); }, std::chrono::seconds(240)));
        return *outcome;
    }
};

/// A program that runs the shell text `body` for each request; $id is the request's number.
fs::path script(const test::TempFolder& folder, const std::string& body) {
    fs::path program = folder / "helper";
    std::ofstream(program) << "#!/bin/bash\nid=0\nwhile read request; do id=$((id + 1))\n"
                           << body << "\ndone\n";
    fs::permissions(program, fs::perms::owner_all);
    return program;
}

constexpr int k_longer_than_interval_ms =
    static_cast<int>(base::Millis(base::k_helper_progress_interval).count()) + 100;

/// The program alone, driven by hand.
struct RawHelper {
    test::TempFolder data{test::folder_for_many_files()};
    base::UniqueFd requests;
    base::UniqueFd answers;
    isolation::Spawned spawned;

    RawHelper() {
        int in[2];
        int out[2];
        REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
        REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
        const base::UniqueFd reads(in[0]);
        requests.reset(in[1]);
        answers.reset(out[0]);
        const base::UniqueFd writes(out[1]);
        isolation::ChildPlan plan;
        plan.fds = {reads.get(), writes.get(), STDERR_FILENO};
        plan.cwd = data.path();
        auto started = isolation::spawn(test::build_path("bin/atoll-helper"), {}, plan);
        REQUIRE(started.has_value());
        spawned = std::move(*started);
    }
    ~RawHelper() {
        base::send_signal(spawned.pidfd, SIGKILL);
        base::reap_later(std::move(spawned.pidfd));
    }
    pid_t pid() const { return spawned.pid; }
    void ask(const std::string& line) {
        REQUIRE(::write(requests.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    }
    /// Its output within `limit_ms`; returns as soon as there is any.
    std::string read_for(int limit_ms) {
        pollfd entry{answers.get(), POLLIN, 0};
        if (::poll(&entry, 1, limit_ms) != 1)
            return {};
        char chunk[4096];
        const ssize_t count = ::read(answers.get(), chunk, sizeof chunk);
        return count > 0 ? std::string(chunk, static_cast<std::size_t>(count)) : std::string();
    }
};

bool is_there(pid_t pid) {
    return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("helper: one that stands still is ended, and another one does its work") {
    bool is_removed = false;
    // A deadline that is too short for the other helper, too, is tried again with a longer one.
    for (base::Millis deadline = k_short; deadline <= k_long && !is_removed; deadline *= 10) {
        Bench bench({deadline, deadline});
        const pid_t first = bench.helper->pid();
        test::write_text(bench.data / "trash/t/f", "x");
        REQUIRE(::kill(first, SIGSTOP) == 0);
        is_removed = bench.remove("trash/t").has_value();
        // The other one may have done it, and have been ended before it said so.
        CHECK_FALSE((is_removed && fs::exists(bench.data / "trash/t")));
        CHECK(bench.helper->pid() != first);
        CHECK(bench.helper->timeouts() >= 1);
        CHECK(bench.helper->deaths() >= bench.helper->timeouts());
        CHECK_FALSE(is_there(first));
    }
    CHECK(is_removed);
}

TEST_CASE("helper: a request that makes every helper stand still is given up") {
    const test::TempFolder folder;
    Bench bench({k_short, k_short}, script(folder, "exec sleep 1000"));
    const auto removed = bench.remove("trash/t");
    REQUIRE_FALSE(removed.has_value());
    CHECK(removed.error().code() == base::Errc::storage_failed);
    CHECK(bench.helper->timeouts() == base::k_max_helper_attempts);
    CHECK(bench.helper->pending() == 0);
}

TEST_CASE("helper: questions are refused while it cannot be started, and removals are done later") {
    const test::TempFolder folder;
    const fs::path program = folder / "helper";
    fs::copy_file(test::build_path("bin/atoll-helper"), program);
    Bench bench({k_long, k_long}, program);
    fs::rename(program, folder / "away");
    const pid_t first = bench.helper->pid();
    REQUIRE(first > 0);
    REQUIRE(::kill(first, SIGKILL) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.helper->pid() == -1; }));
    test::write_text(bench.data / "trash/t/f", "x");
    Outcome removed;
    bench.helper->remove("trash/t", std::chrono::hours(1), [&](const base::Result<bool>& gone) {
        removed = gone ? base::Result<void>() : gone.error();
    });
    std::vector<base::Result<nlohmann::json>> answers;
    for (int i = 0; i < 2; ++i)
        bench.helper->find(bench.data / "db", "{}", [&](base::Result<nlohmann::json> answer) {
            answers.push_back(std::move(answer));
        });
    REQUIRE(bench.loop.run_until([&] { return answers.size() == 2; }));
    for (const auto& answer : answers) {
        REQUIRE(answer.has_error());
        CHECK(answer.error().code() == base::Errc::storage_failed);
    }
    CHECK_FALSE(removed);
    fs::rename(folder / "away", program);
    REQUIRE(bench.loop.run_until([&] { return removed.has_value(); }));
    CHECK(removed->has_value());
    CHECK_FALSE(fs::exists(bench.data / "trash/t"));
}

TEST_CASE("helper: a removal that tells of progress may take longer than its deadline") {
    bool is_alive = false;
    // A deadline that other work makes too short for a step is repeated.
    for (const int half_s : {1, 10, 30}) {
        const test::TempFolder folder;
        // Three times the half of it, which no deadline ends.
        const base::Millis deadline = std::chrono::seconds(2 * half_s);
        Bench bench(
            {deadline, deadline},
            script(folder, "for step in 1 2 3; do read -t " + std::to_string(half_s) +
                               " < <(sleep 40)\n"
                               "echo '{\"id\":'$id',\"progress\":'$step'}'; done\n"
                               "printf '{\"id\":%d,\"progress\":9}\\n{\"id\":%d,\"ok\":true}\\n' $id $id"));
        is_alive = bench.remove("trash/t").has_value() && bench.helper->deaths() == 0;
        if (is_alive)
            break;
    }
    CHECK(is_alive);
}

TEST_CASE("helper: a walk and a removal that take long tell of their progress") {
    const char* const op = GENERATE("measure", "remove");
    constexpr int k_files = 20'000;
    bool told = false;
    // An attempt that was stopped before its beginning or after its end proves nothing.
    for (int run_ms = 2; run_ms < 2000 && !told; run_ms *= 2) {
        RawHelper helper;
        fs::create_directory(helper.data / "t");
        for (int i = 0; i < k_files; ++i)
            ::close(::open((helper.data / "t" / std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC,
                           0600));
        helper.ask(std::string("{\"id\":7,\"op\":\"") + op + "\",\"path\":\"t\",\"ms\":60000}\n");
        // Held up once in the middle of its work, for longer than it may be silent; then it goes on to its
        // end.
        std::string said = helper.read_for(run_ms);
        ::kill(helper.pid(), SIGSTOP);
        said += helper.read_for(k_longer_than_interval_ms);
        ::kill(helper.pid(), SIGCONT);
        const auto deadline = std::chrono::steady_clock::now() + k_long;
        while (said.find("\"ok\"") == std::string::npos && std::chrono::steady_clock::now() < deadline)
            said += helper.read_for(1'000);
        INFO(said);
        CHECK(said.find("\"ok\":true") != std::string::npos);
        told = said.starts_with("{\"id\":7,\"progress\":");
    }
    CHECK(told);
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("helper: nobody waits for the end of one that cannot be killed", "[serial]") {
    if (!test::StuckProcesses::can_be_made())
        SKIP("no freezer of cgroup v1 on this host that this user may write to");
    Bench bench({k_short, k_short});
    test::write_text(bench.data / "trash/t/f", "x");
    const pid_t first = bench.helper->pid();
    test::StuckProcesses stuck;
    stuck.hold(first);
    Outcome outcome;
    bench.helper->remove("trash/t", std::chrono::hours(1), [&outcome](const base::Result<bool>& gone) {
        outcome = gone ? base::Result<void>() : gone.error();
    });
    // Handler by handler, over the deadline.
    auto longest = std::chrono::steady_clock::duration::zero();
    const auto least = std::chrono::steady_clock::now() + 3 * k_short;
    const auto most = std::chrono::steady_clock::now() + test::k_client_deadline;
    const auto goes_on = [&] {
        const auto now = std::chrono::steady_clock::now();
        return now < least || (bench.helper->timeouts() == 0 && now < most);
    };
    while (goes_on()) {
        bench.loop.context.restart();
        bench.loop.context.run_one_until(least);
        const auto began = std::chrono::steady_clock::now();
        bench.loop.context.poll();
        longest = std::max(longest, std::chrono::steady_clock::now() - began);
    }
    CHECK(bench.helper->timeouts() == 1);
    if (test::checks_bounds())
        CHECK(longest < k_prompt);
    CHECK(is_there(first));
    // Two must not walk one tree: the next helper starts when this one is gone.
    CHECK(bench.helper->pid() == -1);
    CHECK_FALSE(outcome.has_value());
    stuck.let_go();
    REQUIRE(bench.loop.run_until([&outcome] { return outcome.has_value(); }));
    CHECK(outcome->has_value());
    CHECK_FALSE(is_there(first));
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("helper: a client goes without waiting for a helper that cannot be killed", "[serial]") {
    if (!test::StuckProcesses::can_be_made())
        SKIP("no freezer of cgroup v1 on this host that this user may write to");
    Bench bench({k_long, k_long});
    const pid_t pid = bench.helper->pid();
    test::StuckProcesses stuck;
    stuck.hold(pid);
    const auto began = std::chrono::steady_clock::now();
    bench.helper.reset();
    const auto took = std::chrono::steady_clock::now() - began;
    if (test::checks_bounds())
        CHECK(took < k_prompt);
    CHECK(is_there(pid));
    stuck.let_go();
    const auto gone = [pid] {
        base::reap_what_ended();
        return !is_there(pid);
    };
    const auto deadline = std::chrono::steady_clock::now() + test::k_client_deadline;
    while (!gone() && std::chrono::steady_clock::now() < deadline)
        ::sched_yield();
    CHECK(gone());
}

TEST_CASE("checkpointer: the log is written back again after its helper stood still") {
    // Long enough for a helper that is not held up, on a busy machine.
    Bench bench({base::Millis{3000}, k_short});
    const fs::path database = bench.data / "test.db";
    auto store = store::SqliteStore::open(database).value();
    conversation::Journal journal(*store, bench.loop.timers);
    const store::Checkpointer::Bounds bounds{64UL * 1024, 256UL * 1024};
    const store::Checkpointer checkpointer(bench.loop.timers, *bench.helper, *store, journal, database,
                                           bounds);
    std::uint64_t seq = 0;
    const auto commit = [&] {
        bool done = false;
        journal.add(conversation::AppendEvent{
            1, conversation::make_event(++seq, conversation::EventType::text_delta, base::WallTime{}, 1,
                                        "{\"delta\":\"" + std::string(2'000, 'x') + "\"}")});
        journal.after_commit([&done] { done = true; });
        REQUIRE(bench.loop.run_until([&done] { return done; }));
    };
    // SQLite counts how often it began the log anew (fileformat2.html, "WAL header": checkpoint sequence).
    const auto begun_anew = [&database] {
        std::ifstream log(database.string() + "-wal", std::ios::binary);
        log.seekg(12);
        unsigned char bytes[4] = {};
        log.read(reinterpret_cast<char*>(bytes), sizeof bytes);
        return bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    };
    REQUIRE(::kill(bench.helper->pid(), SIGSTOP) == 0);
    commit();
    const int before = begun_anew();
    for (int i = 0; i < 100; ++i)
        commit();
    // Unless these took longer than its deadline.
    if (bench.helper->timeouts() == 0) {
        CHECK(begun_anew() == before);
        CHECK(fs::file_size(database.string() + "-wal") > bounds.most);
    }
    const auto deadline = std::chrono::steady_clock::now() + test::k_client_deadline;
    while (begun_anew() == before && std::chrono::steady_clock::now() < deadline) {
        const auto rounds = checkpointer.rounds();
        commit();
        bench.loop.run_until([&] { return checkpointer.rounds() > rounds; }, base::Millis{500});
    }
    CHECK(begun_anew() > before);
    CHECK(bench.helper->timeouts() >= 1);
}

}  // namespace helper_deadline_test
