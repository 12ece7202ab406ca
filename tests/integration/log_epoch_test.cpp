// A client is told if the log that it reads is not the one that it has seen: restarts keep a log's epoch,
// restored and copied logs begin another.
#include <SQLiteCpp/Database.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace log_epoch_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

/// A conversation of `echo`, which needs no program but its agent.
struct World {
    ServerOptions in(const fs::path& folder) const {
        ServerOptions options;
        options.data_dir = folder;
        return options;
    }
    ServerOptions options() const { return in(first); }

    TempDir dir;
    fs::path first = dir.path() / "first";
    fs::path second = dir.path() / "second";
    fs::path backup = dir.path() / "backup.db";
    std::string id;
    std::string epoch;
    std::uint64_t seen = 0;  // by a client

    World() { fs::create_directory(first); }
    void begin(ApiClient& api) {
        id = api.create({{"agent", "echo"}})["id"];
        talk(api);
        epoch = api.get(id)["logEpoch"];
    }
    /// A turn more.
    void talk(ApiClient& api) {
        api.message(id, "hi");
        seen = api.get(id)["lastSeq"];
    }
    std::string cursor() const { return std::to_string(seen) + "-" + epoch; }
    std::string after(const std::string& cursor) const {
        return "/v1/conversations/" + id + "/events?after=" + cursor;
    }
};

/// The client's old cursor is refused, on each way, and from the beginning everything is there.
void check_replaced(const World& world, ApiClient& api) {
    const Json view = api.get(world.id);
    CHECK(view["logEpoch"] != world.epoch);
    const Json refused = api.call(410, "GET", world.after(world.cursor()));
    CHECK(refused["code"] == "log_replaced");
    CHECK(refused["logEpoch"] == view["logEpoch"]);
    CHECK(refused["firstSeq"] == view["firstSeq"]);
    HttpClient stream = api.connect();
    REQUIRE(stream
                .open_stream("GET", world.after("0"), "",
                             {{"Accept", "text/event-stream"}, {"Last-Event-ID", world.cursor()}})
                .status == 200);
    const Json last_word = Json::parse(stream.next_event()->data);
    CHECK(last_word["type"] == "stream_closed");
    CHECK(last_word["code"] == "log_replaced");
    WebSocketClient socket(api.connect(), "/v1/conversations/" + world.id + "/ws?after=" + world.cursor());
    CHECK(socket.await_close().close_code() == 4410);
    const auto events = api.events(world.id);
    CHECK(events.size() == view["lastSeq"]);
    CHECK(events[0]["data"]["logEpoch"] == view["logEpoch"]);
}

/// A log with its first turns, and a copy of the stopped server's data directory.
void begin_and_copy(World& world) {
    ServerProcess server(world.options());
    ApiClient api(server);
    world.begin(api);
    REQUIRE(server.stop() == 0);
    fs::copy(world.first, world.second, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

}  // namespace

TEST_CASE("A stop and a kill keep the epoch of a log, and cursors go on over them") {
    World world;
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        world.begin(api);
        REQUIRE(server.stop() == 0);
    }
    for (const bool is_killed : {true, false}) {
        ServerProcess server(world.options());
        ApiClient api(server);
        CHECK(api.get(world.id)["logEpoch"] == world.epoch);
        CHECK(server.log().find("evt=log_epoch_begun") == std::string::npos);
        const Json page = api.call(200, "GET", world.after(world.cursor()));
        CHECK(page["logEpoch"] == world.epoch);
        world.talk(api);
        if (is_killed)
            server.kill_hard();
        else
            REQUIRE(server.stop() == 0);
    }
    ServerProcess server(world.options());
    ApiClient api(server);
    CHECK(api.get(world.id)["logEpoch"] == world.epoch);
    api.call(200, "GET", world.after(world.cursor()));
}

TEST_CASE("A start that fails ends in order: what becomes of the host behind it begins no epoch") {
    World world;
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        world.begin(api);
        REQUIRE(server.stop() == 0);
    }
    // No address of this host (RFC 5737).
    const RunResult refused = run_server({"--data-dir", world.first.string(), "--listen", "192.0.2.1:8080"});
    INFO(refused.output);
    REQUIRE(refused.status == 1);
    REQUIRE(refused.output.find("Cannot listen on ") != std::string::npos);
    {
        // A server that was running when the host went down leaves the boot id of that boot.
        SQLite::Database database((world.first / "atoll.db").string(), SQLite::OPEN_READWRITE);
        database.exec("UPDATE log_epoch SET boot = 'another boot' WHERE boot <> ''");
    }
    ServerProcess server(world.options());
    ApiClient api(server);
    CHECK(api.get(world.id)["logEpoch"] == world.epoch);
    api.call(200, "GET", world.after(world.cursor()));
}

TEST_CASE(
    "A client that has seen more than a restored backup is told so, also once the log is as long again") {
    World world;
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        world.begin(api);
        REQUIRE(run_server({"backup", world.backup.string(), "--data-dir", world.first.string()}).status ==
                0);
        world.talk(api);
        REQUIRE(server.stop() == 0);
    }
    for (const char* file : {"atoll.db", "atoll.db-wal", "atoll.db-shm"})
        fs::remove(world.first / file);
    fs::rename(world.backup, world.first / "atoll.db");
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        CHECK(server.log().find("evt=log_epoch_begun") != std::string::npos);
        check_replaced(world, api);
        // A cursor without an epoch that lies beyond the end shows itself.
        CHECK(api.call(410, "GET", world.after(std::to_string(world.seen)))["code"] == "log_replaced");
        const std::uint64_t seen = world.seen;
        while (world.seen <= seen)
            world.talk(api);
        world.seen = seen;
        check_replaced(world, api);
        server.kill_hard();
    }
    ServerProcess server(world.options());
    ApiClient api(server);
    check_replaced(world, api);
}

TEST_CASE("The log in a copy of a data directory is another one, that of the original goes on") {
    World world;
    begin_and_copy(world);
    {
        ServerProcess server(world.in(world.second));
        ApiClient api(server);
        check_replaced(world, api);
    }
    ServerProcess server(world.options());
    ApiClient api(server);
    CHECK(api.get(world.id)["logEpoch"] == world.epoch);
    api.call(200, "GET", world.after(world.cursor()));
}

TEST_CASE("A database that is put back alone, over the file that is there, begins an epoch") {
    World world;
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        world.begin(api);
        REQUIRE(server.stop() == 0);
    }
    fs::copy_file(world.first / "atoll.db", world.backup);
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        world.talk(api);
        REQUIRE(server.stop() == 0);
    }
    fs::copy_file(world.backup, world.first / "atoll.db", fs::copy_options::overwrite_existing);
    ServerProcess server(world.options());
    ApiClient api(server);
    check_replaced(world, api);
}

TEST_CASE("A data directory that its own backup is written over, file by file, begins an epoch") {
    World world;
    begin_and_copy(world);
    {
        ServerProcess server(world.options());
        ApiClient api(server);
        CHECK(api.get(world.id)["logEpoch"] == world.epoch);
        world.talk(api);
        REQUIRE(server.stop() == 0);
    }
    for (const char* file : {"atoll.db", "node.db", "log-marker"})
        fs::copy_file(world.second / file, world.first / file, fs::copy_options::overwrite_existing);
    ServerProcess server(world.options());
    ApiClient api(server);
    check_replaced(world, api);
}

}  // namespace log_epoch_test
