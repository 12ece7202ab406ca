// Which epoch a start finds, over the two databases as files.
#include "core/store/log_epoch.hpp"

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.hpp"
#include "core/store/backup.hpp"
#include "core/store/node_store.hpp"
#include "core/store/sqlite_store.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace log_epoch_test {

using namespace atl;
using store::EpochPlace;
using store::LogEpoch;
using store::LogMark;
using store::NodeMark;
using store::why_new_epoch;
namespace fs = std::filesystem;

namespace {

struct NoHelper final : store::CheckpointHelper {
    void sync_log(const fs::path&, Done done) override { done({}); }
    void checkpoint(const fs::path&, Done done) override { done({}); }
};

enum class End : std::uint8_t { stopped, killed };

/// A data directory and the starts of servers on it.
struct Folder {
    /// The epoch of one run.
    std::string run(End end = End::stopped) {
        auto logs = store::SqliteStore::open(database);
        REQUIRE(logs);
        auto node = store::SqliteNodeStore::open(node_database, helper);
        REQUIRE(node);
        auto epoch = LogEpoch::begin(**logs, **node, here);
        REQUIRE(epoch);
        if (end == End::stopped)
            REQUIRE(epoch->end());
        return epoch->word();
    }

    test::TempDir dir;
    fs::path database = dir.path() / "atoll.db";
    fs::path node_database = dir.path() / "node.db";
    fs::path aside = dir.path() / "aside.db";
    fs::path marker = dir.path() / "log-marker";
    EpochPlace here{"here", "boot", marker};
    NoHelper helper;
};

void put_over(const fs::path& from, const fs::path& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

std::pair<std::time_t, long> change_time(const fs::path& file) {
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    return {status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

/// Until the clock of the file system, which has ticks of milliseconds, has another time than that of `file`.
void let_tick(const fs::path& file) {
    const fs::path probe = file.string() + ".probe";
    do
        std::ofstream(probe) << "tick";
    while (change_time(probe) <= change_time(file));
}

}  // namespace

TEST_CASE("log epoch: stops, deaths and a start of the host between two runs keep it") {
    Folder folder;
    const std::string word = folder.run();
    CHECK(word.size() == base::k_log_epoch_length);
    for (const End end : {End::stopped, End::killed, End::killed, End::stopped, End::stopped})
        CHECK(folder.run(end) == word);
    folder.here.boot = "next";
    CHECK(folder.run() == word);
    CHECK(Folder().run() != word);
}

TEST_CASE("log epoch: a host that went down while the server ran may have lost events") {
    Folder folder;
    const std::string word = folder.run(End::killed);
    folder.here.boot = "next";
    const std::string next = folder.run();
    CHECK(next != word);
    CHECK(folder.run() == next);
}

TEST_CASE("log epoch: a database that was put back alone begins one, also over the same file") {
    Folder folder;
    const std::string word = folder.run();
    put_over(folder.database, folder.aside);
    REQUIRE(folder.run() == word);
    put_over(folder.aside, folder.database);
    const std::string next = folder.run();
    CHECK(next != word);
    CHECK(folder.run(End::killed) == next);
    // Taken of a server that runs, with the log of the database, and put back after its stop.
    put_over(folder.database, folder.aside);
    REQUIRE(folder.run() == next);
    put_over(folder.aside, folder.database);
    CHECK(folder.run() != next);
}

TEST_CASE("log epoch: a copy, another database in its place and a node.db that is new begin one") {
    Folder folder;
    const std::string word = folder.run();
    folder.here.place = "there";
    const std::string moved = folder.run();
    CHECK(moved != word);
    fs::remove(folder.node_database);
    const std::string without_node = folder.run();
    CHECK(without_node != moved);
    fs::remove(folder.database);
    const std::string without_logs = folder.run();
    CHECK(without_logs != without_node);
    CHECK(folder.run() == without_logs);
}

TEST_CASE("log epoch: a data directory that is written over by an earlier one begins one") {
    const bool has_marker = GENERATE(true, false);
    const End end = GENERATE(End::stopped, End::killed);
    CAPTURE(has_marker, end == End::killed);
    Folder folder;
    const std::string word = folder.run(end);
    std::vector<fs::path> files{folder.database, folder.node_database};
    if (has_marker)
        files.push_back(folder.marker);
    const fs::path backup = folder.dir.path() / "backup";
    fs::create_directory(backup);
    for (const fs::path& file : files)
        fs::copy_file(file, backup / file.filename());
    let_tick(folder.marker);
    REQUIRE(folder.run(end) == word);
    let_tick(folder.marker);
    for (const fs::path& file : files)
        put_over(backup / file.filename(), file);
    const std::string next = folder.run();
    CHECK(next != word);
    CHECK(folder.run(End::killed) == next);
    CHECK(folder.run() == next);
    fs::remove(folder.marker);
    CHECK(folder.run() != next);
}

TEST_CASE("log epoch: a backup has none, so that a restored one begins one") {
    Folder folder;
    const std::string word = folder.run();
    REQUIRE(store::back_up(folder.database, folder.aside));
    // At once: nothing was written since.
    fs::rename(folder.aside, folder.database);
    const std::string next = folder.run();
    CHECK(next != word);
    CHECK(folder.run() == next);
}

TEST_CASE("log epoch: a server that dies between the two marks keeps it, wherever that is") {
    const LogMark log{"word", 7, ""};
    const EpochPlace here{"here", "boot", "log-marker"};
    const auto goes_on = [&](const LogMark& log_mark, const NodeMark& node_mark) {
        return why_new_epoch(log_mark, node_mark, here, "now").empty();
    };
    // A stop or a start takes the marks through these.
    CHECK(goes_on(log, {"word", 7, true, "here", "now"}));
    CHECK(goes_on(log, {"word", 7, false, "here", ""}));
    CHECK(goes_on({"word", 8, "boot"}, {"word", 7, false, "here", ""}));
    CHECK(goes_on({"word", 8, "boot"}, {"word", 8, true, "here", "now"}));
    // The marker may have been written since, until the node's mark tells its state.
    CHECK(why_new_epoch(LogMark{"word", 8, "boot"}, NodeMark{"word", 7, false, "here", ""}, here, "later")
              .empty());
    CHECK_FALSE(goes_on(log, {"word", 7, true, "here", "before"}));
    CHECK_FALSE(goes_on(log, {"word", 7, true, "here", ""}));
    // And through none of these.
    CHECK_FALSE(goes_on({"word", 8, "boot"}, {"word", 7, true, "here", "now"}));
    CHECK_FALSE(goes_on({"word", 7, ""}, {"word", 8, true, "here", "now"}));
    CHECK_FALSE(goes_on({"word", 7, ""}, {"word", 8, false, "here", ""}));
    CHECK_FALSE(goes_on({"word", 9, ""}, {"word", 7, false, "here", ""}));
    CHECK_FALSE(goes_on({"other", 7, ""}, {"word", 7, true, "here", "now"}));
    CHECK_FALSE(goes_on({"word", 7, "before"}, {"word", 7, true, "here", "now"}));
    CHECK_FALSE(goes_on(log, {"word", 7, true, "there", "now"}));
    CHECK_FALSE(why_new_epoch({}, NodeMark{"word", 7, true, "here", "now"}, here, "now").empty());
    CHECK_FALSE(why_new_epoch(log, {}, here, "now").empty());
    CHECK_FALSE(why_new_epoch({}, {}, here, "now").empty());
}

}  // namespace log_epoch_test
