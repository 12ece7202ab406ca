// Processes with `restart: "generation"`, over the real server: after a pause, after `kill -9` of the server,
// and after their own end.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace integration_kept_processes_test {

using namespace atl::test;

namespace {

/// A conversation's sandbox on a server that can be killed and started again.
struct Lab {
    Lab() { server.emplace(options()), begin(); }

    ServerOptions options() const {
        ServerOptions options;
        options.data_dir = folder.path() / "data";
        std::filesystem::create_directories(options.data_dir);
        return options;
    }
    void begin() {
        api.emplace(*server);
        const Json made = api->create();
        id = made["id"];
        sandbox = made["sandboxId"];
    }
    void crash() {
        server->kill_hard();
        server.emplace(options());
        api.emplace(*server);
    }
    void pause() { api->call(200, "POST", "/v1/conversations/" + id + "/pause", R"({"mode":"cold"})"); }
    void resume() { api->call(200, "POST", "/v1/conversations/" + id + "/resume"); }
    std::string path() const { return "/v1/sandboxes/" + sandbox + "/processes"; }
    Json start(Json request, int status = 201) {
        request["restart"] = "generation";
        return api->call(status, "POST", path(), request.dump());
    }
    Json tagged(const std::string& tag) { return api->call(200, "GET", path() + "?tag=" + tag)["processes"]; }
    /// The one process of that tag, once it has that status.
    Json await(const std::string& tag, const std::string& status) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        for (;;) {
            const Json found = tagged(tag);
            const bool is_so = found.size() == 1 && found[0]["status"] == status;
            if (is_so || std::chrono::steady_clock::now() > until) {
                INFO(found.dump());
                REQUIRE(is_so);
                return found[0];
            }
        }
    }
    void signal(const std::string& process, const std::string& name, int status = 204) {
        api->call(status, "POST", path() + "/" + process + "/signal", Json{{"signal", name}}.dump());
    }
    /// The output of a process, from its first byte to the first line end.
    std::string first_line(const std::string& process) {
        WebSocketClient socket(api->connect(), path() + "/" + process + "/ws");
        std::string output;
        while (output.find('\n') == std::string::npos) {
            const ServerFrame frame = socket.next();
            if (frame.opcode == 0x2)
                output.append(frame.payload, 1);
            REQUIRE(frame.opcode != 0x8);
        }
        return output.substr(0, output.find_first_of("\r\n"));
    }

    TempDir folder;
    std::optional<ServerProcess> server;
    std::optional<ApiClient> api;
    std::string id;
    std::string sandbox;
};

constexpr const char* k_server = "echo \"$PWD $PORT $(stty size)\"; exec sleep 1000";

}  // namespace

TEST_CASE("A server inside is up again after a pause, and after kill -9 of the server, as another process") {
    Lab lab;
    lab.api->message(lab.id, "mkdir app");
    const Json made = lab.start({{"command", k_server},
                                 {"tag", "dev"},
                                 {"cwd", "/workspace/app"},
                                 {"env", {{"PORT", "value-of-env"}}},
                                 {"pty", {{"cols", 99}, {"rows", 33}}}});
    CHECK(made["restart"] == "generation");
    CHECK(made["status"] == "running");
    CHECK(lab.first_line(made["processId"]) == "/workspace/app value-of-env 33 99");
    (void)lab.api->call(201, "POST", lab.path(), R"({"command":"exec sleep 1000","tag":"once"})");
    CHECK(lab.tagged("once")[0]["restart"] == "never");
    std::string last = made["processId"];
    for (int round = 0; round < 3; ++round) {
        // Twice with a pause, once without: then the server's death is what ends the generation.
        if (round != 1)
            lab.pause();
        if (round != 0)
            lab.crash();
        const Json waits = lab.await("dev", "stopped");
        CHECK(waits["processId"] == last);
        CHECK(waits["pid"] == nullptr);
        CHECK(lab.api->get(lab.id)["sandboxStatus"] == "terminated");
        lab.resume();
        const Json again = lab.await("dev", "running");
        CHECK(again["processId"] != last);
        CHECK(again["restart"] == "generation");
        CHECK(again["cwd"] == "/workspace/app");
        CHECK(again["pty"] == made["pty"]);
        CHECK(lab.first_line(again["processId"]) == "/workspace/app value-of-env 33 99");
        CHECK(lab.api->call(404, "GET", lab.path() + "/" + last)["code"] == "not_found");
        CHECK(lab.tagged("once").empty());
        last = again["processId"];
    }
    // A message resumes, too.
    lab.pause();
    CHECK(lab.api->message(lab.id, "echo hello").output == "hello\n");
    CHECK(lab.await("dev", "running")["processId"] != last);
    // The value is nowhere to be read.
    CHECK(lab.server->log().find("value-of-env") == std::string::npos);
}

TEST_CASE("A request for a file of a paused conversation starts no process") {
    Lab lab;
    lab.start({{"command", "echo started >> starts; exec sleep 1000"}, {"tag", "dev"}});
    CHECK(lab.await("dev", "running")["status"] == "running");
    CHECK(lab.api->message(lab.id, "until [ -s starts ]; do :; done; cat starts").output == "started\n");
    lab.pause();
    const std::string file = "/v1/sandboxes/" + lab.sandbox + "/files/starts";
    CHECK(lab.api->connect().request("GET", file).body == "started\n");
    CHECK(lab.tagged("dev")[0]["status"] == "stopped");
    CHECK(lab.api->connect().request("GET", file).body == "started\n");
    lab.resume();
    lab.await("dev", "running");
    CHECK(lab.api->message(lab.id, "until [ $(wc -l < starts) = 2 ]; do :; done; cat starts").output ==
          "started\nstarted\n");
}

TEST_CASE("A process that was ended here stays away, one that ended by itself comes back") {
    Lab lab;
    const auto started = [&lab](const char* tag, const char* command = "exec sleep 1000") {
        return lab.start({{"command", command}, {"tag", tag}})["processId"].get<std::string>();
    };
    const std::string killed = started("killed");
    const std::string asked = started("asked");
    const std::string socket = started("socket");
    const std::string interrupted = started("interrupted");
    (void)started("exits", "exit 3");
    const std::string gone = started("gone", "exit 4");
    lab.signal(killed, "SIGKILL");
    lab.signal(asked, "SIGTERM");
    lab.signal(interrupted, "SIGINT");
    {
        WebSocketClient client(lab.api->connect(), lab.path() + "/" + socket + "/ws");
        client.send_text(R"({"type":"signal","signal":"SIGKILL"})");
        client.await_close();
    }
    CHECK(lab.await("killed", "ended")["restart"] == "never");
    CHECK(lab.await("asked", "ended")["restart"] == "never");
    CHECK(lab.await("socket", "ended")["restart"] == "never");
    CHECK(lab.await("interrupted", "ended")["restart"] == "generation");
    CHECK(lab.await("exits", "ended")["exitCode"] == 3);
    CHECK(lab.await("exits", "ended")["restart"] == "generation");
    // SIGTERM makes the server forget a process that has ended, too; a second SIGTERM is refused.
    lab.await("gone", "ended");
    lab.signal(gone, "SIGTERM");
    lab.signal(gone, "SIGTERM", 409);
    lab.crash();
    lab.resume();
    CHECK(lab.await("interrupted", "running")["restart"] == "generation");
    CHECK(lab.await("exits", "ended")["exitCode"] == 3);
    for (const char* tag : {"killed", "asked", "socket", "gone"})
        CHECK(lab.tagged(tag).empty());
    // Also while nothing runs.
    lab.pause();
    const Json waits = lab.await("interrupted", "stopped");
    lab.signal(waits["processId"], "SIGINT", 404);
    lab.signal(waits["processId"], "SIGTERM");
    lab.signal(waits["processId"], "SIGTERM", 404);
    CHECK(lab.tagged("interrupted").empty());
    CHECK(lab.api->get(lab.id)["sandboxStatus"] == "terminated");
    lab.resume();
    lab.await("exits", "ended");
    CHECK(lab.tagged("interrupted").empty());
}

TEST_CASE("The ninth process that is to start again is refused, and so is one of a lone sandbox") {
    Lab lab;
    const Json sleep = {{"command", "exec sleep 1000"}};
    const std::string first = lab.start(sleep)["processId"];
    for (int i = 1; i < 8; ++i)
        lab.start(sleep);
    const Json refused = lab.start(sleep, 409);
    CHECK(refused["code"] == "too_many_kept_processes");
    CHECK(refused["detail"].get<std::string>().find("8 processes") != std::string::npos);
    CHECK(lab.api->call(200, "GET", lab.path())["processes"].size() == 8);
    (void)lab.api->call(201, "POST", lab.path(), sleep.dump());
    lab.signal(first, "SIGKILL");
    lab.start(sleep);
    lab.start(sleep, 409);
    const Json missing = {{"argv", {"/nonexistent"}}};
    lab.signal(lab.api->call(200, "GET", lab.path())["processes"].back()["processId"], "SIGKILL");
    CHECK(lab.start(missing, 422)["code"] == "invalid_field");
    lab.start(sleep);
    lab.sandbox = lab.api->call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const Json alone = lab.start(sleep, 422);
    CHECK(alone["code"] == "invalid_field");
    CHECK(alone["pointer"] == "/restart");
}

TEST_CASE("One that cannot start again is said in the sandbox's log, and the conversation goes on") {
    Lab lab;
    lab.api->message(lab.id, "mkdir app");
    lab.start({{"command", "exec sleep 1000"}, {"tag", "lost"}, {"cwd", "app"}});
    lab.start({{"command", "exec sleep 1000"}, {"tag", "fine"}});
    lab.api->message(lab.id, "rmdir app");
    lab.pause();
    lab.resume();
    lab.await("fine", "running");
    CHECK(lab.api->message(lab.id, "echo here").output == "here\n");
    const Json lost = lab.await("lost", "stopped");
    const Json log = lab.api->call(200, "GET", "/v1/sandboxes/" + lab.sandbox + "/logs?stream=system");
    const std::string note =
        "process " + lost["processId"].get<std::string>() + " (lost) was not started again";
    CHECK(std::ranges::any_of(log["entries"], [&](const Json& entry) {
        return entry["text"].get<std::string>().starts_with(note);
    }));
    CHECK(lab.server->log().find("evt=process_not_restarted") != std::string::npos);
    lab.signal(lost["processId"], "SIGTERM");
    CHECK(lab.tagged("lost").empty());
}

}  // namespace integration_kept_processes_test
