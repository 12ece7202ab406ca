// The watch of a sandbox's files over HTTP: what it tells, and what it must not do to the sandbox.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <set>

#include "tests/support/api_client.hpp"
#include "tests/support/resident_memory.hpp"

namespace watch_test {

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

/// An open watch, and what it told: "created a/b", "renamed a > b", or the type of a frame.
struct Watch {
    Watch(const ApiClient& api, const std::string& sandbox, const std::string& query = "")
        : client(api.connect()) {
        head = client.open_stream("GET", "/v1/sandboxes/" + sandbox + "/watch" + query, "",
                                  {{"Accept", "text/event-stream"}});
    }
    /// Reads until `word` was told once more; false at the end of the stream.
    bool tells(const std::string& word) {
        for (;;) {
            if (const auto found = std::find(told.begin(), told.end(), word); found != told.end()) {
                told.erase(found);
                return true;
            }
            const auto event = client.next_event();
            if (!event)
                return false;
            take(Json::parse(event->data));
        }
    }
    void take(const Json& frame) {
        last = frame;
        all.insert(frame["type"]);
        if (frame["type"] != "changes")
            return told.push_back(frame["type"]);
        for (const Json& change : frame["changes"]) {
            std::string word = change["change"].get<std::string>() + ' ' + change["path"].get<std::string>();
            hrefs.insert(change["href"]);
            if (change.contains("to")) {
                word += " > " + change["to"].get<std::string>();
                hrefs.insert(change["toHref"]);
            }
            all.insert(word);
            told.push_back(std::move(word));
        }
    }

    HttpClient client;
    HttpResponse head;
    std::vector<std::string> told;
    std::set<std::string> all;
    std::set<std::string> hrefs;  // of what changed
    Json last;
};

struct WatchLab {
    ServerProcess server;
    ApiClient api{server};
    Json conversation;
    std::string id;
    std::string sandbox;

    WatchLab() : conversation(api.create()), id(conversation["id"]), sandbox(conversation["sandboxId"]) {}
    Watch watch(const std::string& query = "") const { return Watch(api, sandbox, query); }
    std::string run(const std::string& command) { return api.message(id, command).output; }
    int put(const std::string& path, const std::string& text = "x") {
        return api.connect()
            .request("PUT", "/v1/sandboxes/" + sandbox + "/files/" + path, text,
                     {{"Content-Type", "application/octet-stream"}})
            .status;
    }
    /// True if the watch tells of a new file, after any number of rescans.
    bool sees_marker(Watch& watch) {
        for (;;) {
            const std::string name = "marker" + std::to_string(markers++);
            put(name);
            do {
                const auto event = watch.client.next_event();
                if (!event)
                    return false;
                watch.take(Json::parse(event->data));
                if (watch.all.contains("created " + name))
                    return true;
            } while (watch.last["type"] != "rescan");
        }
    }
    int markers = 0;
    Json pause(const std::string& mode) {
        return api.call(200, "POST", "/v1/conversations/" + id + "/pause", Json{{"mode", mode}}.dump());
    }
    void resume() { api.call(200, "POST", "/v1/conversations/" + id + "/resume"); }
};

/// Kills every sandbox of the server, as the host could.
void kill_sandboxes(const ServerProcess& server) {
    for (const pid_t pid : descendants(server.pid())) {
        std::string name;
        std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> name;
        if (name == "bwrap")
            ::kill(pid, SIGKILL);
    }
}

}  // namespace

TEST_CASE("A watch tells what commands, requests and tools change, under the paths that routes take",
          "[watch]") {
    WatchLab lab;
    Watch watch = lab.watch();
    CHECK(watch.head.status == 200);
    CHECK(watch.head.header("content-type") == "text/event-stream");
    CHECK(watch.head.header("x-content-type-options") == "nosniff");
    REQUIRE(watch.tells("started"));
    lab.run("mkdir -p deep/er/still; echo x > deep/er/still/f; printf x > $'odd\\xff'");
    CHECK(watch.tells("created deep/er/still/f"));
    CHECK(watch.tells("created odd\xef\xbf\xbd"));
    lab.run("mv $'odd\\xff' 50%20off");
    CHECK(watch.tells("renamed odd\xef\xbf\xbd > 50%20off"));
    CHECK(watch.hrefs.contains("odd%FF"));
    CHECK(watch.hrefs.contains("50%2520off"));
    CHECK(lab.put("deep/er/g") == 201);
    CHECK(watch.tells("created deep/er/g"));
    lab.run("echo more >> deep/er/g; mv deep/er moved; rm moved/g");
    CHECK(watch.tells("modified deep/er/g"));
    CHECK(watch.tells("renamed deep/er > moved"));
    CHECK(watch.tells("deleted moved/g"));
    lab.api.call(200, "POST", "/v1/tools/write_file",
                 Json{{"sandboxId", lab.sandbox}, {"args", {{"path", "moved/t"}, {"content", "x"}}}}.dump());
    CHECK(watch.tells("created moved/t"));
    for (const std::string& word : watch.all)
        CHECK(word.find(".atoll-write-") == std::string::npos);
}

TEST_CASE("A watch may be of one directory, and several watches of a sandbox are told the same", "[watch]") {
    WatchLab lab;
    Watch all = lab.watch();
    Watch below = lab.watch("?path=/workspace/./src/");
    Watch entries = lab.watch("?path=src&recursive=0&named=1");
    for (Watch* watch : {&all, &below, &entries})
        REQUIRE(watch->tells("started"));
    lab.run("mkdir -p src/a; echo x > src/a/f; echo x > other");
    CHECK(all.tells("created other"));
    CHECK(all.tells("created src/a/f"));
    CHECK(below.tells("created src/a/f"));
    lab.run("echo x > src/last");
    for (Watch* watch : {&all, &below, &entries})
        CHECK(watch->tells("created src/last"));
    CHECK_FALSE(below.all.contains("created other"));
    CHECK_FALSE(entries.all.contains("created src/a/f"));
    CHECK(lab.api.call(422, "GET", "/v1/sandboxes/" + lab.sandbox + "/watch?recursive=2")["code"] ==
          "invalid_field");
    CHECK(lab.api.call(422, "GET", "/v1/sandboxes/" + lab.sandbox + "/watch?path=src/../..")["code"] ==
          "invalid_field");
    CHECK(lab.api.call(404, "GET", "/v1/sandboxes/" + std::string(20, 'a') + "/watch")["code"] ==
          "not_found");
}

TEST_CASE("A watch of a paused conversation starts nothing; it says rescan after each start, and goes on",
          "[watch]") {
    WatchLab lab;
    Watch watch = lab.watch();
    REQUIRE(watch.tells("started"));
    lab.pause("cold");
    CHECK(watch.tells("paused"));
    Watch late = lab.watch();
    CHECK(late.tells("paused"));
    CHECK(lab.api.get(lab.id)["generation"] == 1);
    CHECK(lab.api.get(lab.id)["status"] == "paused");
    // A request brings the sandbox up, and its grace takes it down again in spite of the watches.
    CHECK(lab.put("while-paused") == 201);
    CHECK(watch.tells("rescan"));
    CHECK(late.tells("started"));
    CHECK(watch.tells("paused"));
    CHECK(lab.api.get(lab.id)["status"] == "paused");
    lab.resume();
    CHECK(watch.tells("rescan"));
    lab.run("echo x > again");
    CHECK(watch.tells("created again"));
    CHECK(lab.api.get(lab.id)["generation"] == 3);
}

TEST_CASE("A watch goes on in a generation that was frozen and thawed", "[watch]") {
    WatchLab lab;
    if (lab.api.call(200, "GET", "/v1/system")["warmPause"] == "none")
        SKIP("no cgroup freezer on this host that this user may write to");
    Watch watch = lab.watch();
    REQUIRE(watch.tells("started"));
    CHECK(lab.pause("warm")["sandboxStatus"] == "frozen");
    CHECK(watch.tells("paused"));
    lab.resume();
    CHECK(watch.tells("rescan"));
    lab.run("echo x > thawed");
    CHECK(watch.tells("created thawed"));
    CHECK(lab.api.get(lab.id)["generation"] == 1);
}

TEST_CASE("A watch that is told of many changes does not keep a conversation from its idle pause",
          "[watch]") {
    WatchLab lab;
    Watch watch = lab.watch();
    REQUIRE(watch.tells("started"));
    lab.run("(while :; do echo x > busy; rm busy; done) > /dev/null 2>&1 &");
    CHECK(watch.tells("created busy"));
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, R"({"idleSeconds":1})");
    CHECK(watch.tells("paused"));
    CHECK(lab.api.await_status(lab.id, "paused")["statusReason"] == "idle");
}

TEST_CASE("A watch ends with a word when its sandbox is removed, and waits when it is killed", "[watch]") {
    WatchLab lab;
    Watch watch = lab.watch();
    const std::string alone = lab.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    Watch of_alone(lab.api, alone);
    REQUIRE(watch.tells("started"));
    REQUIRE(of_alone.tells("started"));
    kill_sandboxes(lab.server);
    CHECK(watch.tells("paused"));
    // A sandbox without a conversation does not come back.
    CHECK(of_alone.tells("stream_closed"));
    CHECK(of_alone.last["code"] == "sandbox_gone");
    CHECK_FALSE(of_alone.client.next_event());
    CHECK(lab.api.call(409, "GET", "/v1/sandboxes/" + alone + "/watch")["code"] == "sandbox_gone");
    lab.api.await_status(lab.id, "paused");
    lab.run("echo x > back");
    CHECK(watch.tells("rescan"));
    lab.api.remove(lab.id);
    CHECK(watch.tells("stream_closed"));
    CHECK(watch.last["code"] == "sandbox_gone");
}

// [serial]: the server's memory, whose bound is --full's.
TEST_CASE("A slow client of a watch takes no memory, is told to look again, and holds up nobody",
          "[watch][serial]") {
    WatchLab lab;
    Watch slow = lab.watch();
    Watch quick = lab.watch();
    REQUIRE(slow.tells("started"));
    REQUIRE(quick.tells("started"));
    const long before = resident_kb(lab.server.pid());
    // More text than the buffers of a connection hold.
    lab.run(
        "n=$(printf 'n%.0s' $(seq 200)); d=$n/$n/$n; mkdir -p $d; cd $d; for i in $(seq 15000); do : > $i; "
        "done");
    CHECK(lab.sees_marker(quick));
    if (checks_bounds())
        CHECK(resident_kb(lab.server.pid()) < before + k_growth_kb);
    CHECK(lab.sees_marker(slow));
    CHECK(slow.all.contains("rescan"));
}

// Over 5 s on a slow disk, which makes them.
TEST_CASE("Two thousand directories are watched, and links out of the workspace are not followed",
          "[watch]") {
    WatchLab lab;
    lab.run("mkdir -p $(seq -f 'd%g/e/f' 700); ln -s /tmp out; mkdir -p /tmp/there");
    Watch watch = lab.watch();
    REQUIRE(watch.tells("started"));
    lab.run("echo x > /tmp/seen; echo x > /tmp/there/seen; echo x > d700/e/f/seen");
    CHECK(watch.tells("created d700/e/f/seen"));
    CHECK_FALSE(watch.all.contains("created out/seen"));
    CHECK_FALSE(watch.all.contains("incomplete"));
}

}  // namespace watch_test
