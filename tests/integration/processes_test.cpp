// Processes that outlive the request that started them, over the real server: terminals, replay, ends.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <set>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace integration_processes_test {

using namespace atl;
using namespace atl::test;

namespace {

using std::chrono::seconds;

constexpr const char* k_shell =
    R"({"argv":["/bin/bash","--norc","--noprofile","-i"],"env":{"PS1":"$ "},"pty":{"cols":80,"rows":24}})";

/// Follows a process: what it wrote, and what the server said of it.
class Follower {
  public:
    Follower(HttpClient http, const std::string& path, std::uint64_t after = 0)
        : socket_(std::move(http), path + "/ws?after=" + std::to_string(after)) {}

    void type(std::string_view bytes) {
        socket_.send({0x82, std::string(1, '\0') + std::string(bytes), true});
    }
    void say(const Json& frame) { socket_.send_text(frame.dump()); }
    /// Takes in the next frame; false after a close frame, which it answers. Throws, with the end of what the
    /// process wrote, once only pings came for a minute.
    bool step() {
        const ServerFrame frame = socket_.next();
        if (frame.opcode != 0x9)
            heard_ = std::chrono::steady_clock::now();
        else if (std::chrono::steady_clock::now() - heard_ > k_client_deadline)
            throw std::runtime_error(
                "nothing new after: " +
                output.substr(output.size() - std::min<std::size_t>(output.size(), 400)));
        if (frame.opcode == 0x2 && frame.payload.at(0) == 1)
            output.append(frame.payload, 1);
        else if (frame.opcode == 0x2)
            error.append(frame.payload, 1);
        else if (frame.opcode == 0x1)
            said.push_back(Json::parse(frame.payload));
        else if (frame.opcode == 0x9)
            socket_.send({0x8A, frame.payload, true});
        else if (frame.opcode == 0x8)
            closed = frame;
        return !closed;
    }
    bool read_until(std::string_view text) {
        while (output.find(text) == std::string::npos)
            if (!step())
                return false;
        return true;
    }
    void finish() {
        while (step()) {
        }
    }
    /// The first frame of that type; null: none came.
    Json find(const std::string& wanted) const {
        for (const Json& frame : said)
            if (frame["type"] == wanted)
                return frame;
        return nullptr;
    }

    std::string output;
    std::string error;
    std::vector<Json> said;
    std::optional<ServerFrame> closed;

  private:
    WebSocketClient socket_;
    std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

/// A server with a sandbox that has no conversation.
struct Lab {
    std::string path() const { return "/v1/sandboxes/" + id + "/processes"; }
    Json start(const Json& request, int status = 201) {
        return api.call(status, "POST", path(), request.dump());
    }
    std::string start_id(const Json& request) { return start(request)["processId"]; }
    std::string of(const std::string& process) const { return path() + "/" + process; }
    Follower follow(const std::string& process, std::uint64_t after = 0) {
        return Follower(api.connect(), of(process), after);
    }
    Json await_end(const std::string& process) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        for (;;) {
            const Json shown = api.call(200, "GET", of(process));
            if (shown["status"] == "ended" || std::chrono::steady_clock::now() > until)
                return shown;
        }
    }
    Json exec(const std::string& command) {
        return api.call(200, "POST", "/v1/sandboxes/" + id + "/exec", Json{{"command", command}}.dump());
    }

    ServerProcess server;
    ApiClient api{server};
    std::string id = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
};

std::string all_bytes() {
    std::string all;
    for (int value = 0; value < 256; ++value)
        all += static_cast<char>(value);
    return all;
}

}  // namespace

TEST_CASE("A process outlives its request and is found, followed and ended") {
    Lab lab;
    const Json made = lab.start(
        {{"command", "echo one; echo two >&2; exec sleep 1000"}, {"tag", "server"}, {"cwd", "/tmp"}});
    const std::string process = made["processId"];
    CHECK(made["status"] == "running");
    CHECK(made["tag"] == "server");
    CHECK(made["pty"] == nullptr);
    CHECK(made["pid"] > 1);
    (void)lab.start({{"argv", {"true"}}});
    CHECK(lab.api.call(200, "GET", lab.path())["processes"].size() == 2);
    CHECK(lab.api.call(200, "GET", lab.path() + "?tag=server")["processes"].size() == 1);
    // The pid is the one that is seen inside.
    const std::string pid = std::to_string(made["pid"].get<int>());
    CHECK(lab.exec("kill -0 " + pid)["exitCode"] == 0);
    {
        Follower gone = lab.follow(process);
        CHECK(gone.read_until("one\n"));
    }
    Follower follower = lab.follow(process);
    CHECK(follower.read_until("one\n"));
    while (follower.error.size() < 4)
        REQUIRE(follower.step());
    lab.api.call(204, "POST", lab.of(process) + "/signal", R"({"signal":"SIGTERM"})");
    follower.finish();
    CHECK(follower.error == "two\n");
    CHECK(follower.find("started")["pid"] == made["pid"]);
    CHECK(follower.find("exit")["signal"] == "SIGTERM");
    CHECK(follower.find("exit")["exitCode"] == nullptr);
    CHECK(follower.find("exit")["after"] == 8);
    CHECK(follower.closed->close_code() == 1000);
    CHECK(lab.await_end(process)["signal"] == "SIGTERM");
    CHECK(lab.exec("kill -0 " + pid)["exitCode"] != 0);
    const Json late = lab.api.call(409, "POST", lab.of(process) + "/signal", R"({"signal":"SIGTERM"})");
    CHECK(late["code"] == "process_ended");
    CHECK(lab.api.call(409, "POST", lab.of(process) + "/stdin", "x")["code"] == "process_ended");
}

TEST_CASE("Output is replayed from any byte on, and what is not kept is told") {
    Lab lab;
    const std::string process = lab.start_id({{"command", "printf abc; sleep 0.05; printf def >&2; exit 7"}});
    (void)lab.await_end(process);
    for (std::uint64_t after = 0; after <= 7; ++after) {
        Follower follower = lab.follow(process, after);
        follower.finish();
        const std::string both = follower.output + follower.error;
        CHECK(both == std::string("abcdef").substr(std::min<std::uint64_t>(after, 6)));
        CHECK(follower.find("exit")["exitCode"] == 7);
    }
    const std::string much = lab.start_id({{"command", "head -c 3000000 /dev/zero; printf end"}});
    const Json shown = lab.await_end(much);
    CHECK(shown["endByte"] == 3'000'003);
    CHECK(shown["firstByte"] == 3'000'003 - 1024 * 1024);
    Follower follower = lab.follow(much, 5);
    follower.finish();
    CHECK(follower.find("dropped")["bytes"] == 3'000'003 - 1024 * 1024 - 5);
    CHECK(follower.output.size() == 1024 * 1024);
    CHECK(follower.output.ends_with("end"));
}

TEST_CASE("Output is read by pages, bounded, without loss and without waking anything") {
    Lab lab;
    const auto page = [&lab](const std::string& process, std::uint64_t after, int status = 200) {
        return lab.api.call(status, "GET", lab.of(process) + "/output?after=" + std::to_string(after));
    };
    const std::string process = lab.start_id({{"command", "echo one; echo two >&2; cat; exit 7"}});
    CHECK(eventually([&] { return page(process, 0)["next"] == 8; }));
    CHECK(page(process, 0) ==
          Json{{"after", 0}, {"next", 8}, {"dropped", 0}, {"stdout", "one\n"}, {"stderr", "two\n"}});
    // Half a character waits for its other half.
    lab.api.call(200, "POST", lab.of(process) + "/stdin", "\xC3");
    CHECK(eventually([&] { return lab.api.call(200, "GET", lab.of(process))["endByte"] == 9; }));
    CHECK(page(process, 8)["next"] == 8);
    lab.api.call(200, "POST", lab.of(process) + "/stdin?eof=1", "\xA4");
    (void)lab.await_end(process);
    CHECK(page(process, 8)["stdout"] == "\xC3\xA4");
    CHECK(page(process, 8)["exit"] == Json{{"exitCode", 7}, {"signal", nullptr}, {"timedOut", false}});
    CHECK(page(process, 1000)["after"] == 10);
    CHECK(page(std::string(20, 'a'), 0, 404)["code"] == "not_found");
    const std::string much =
        lab.start_id({{"command", "head -c 1200000 /dev/zero | tr '\\0' x; printf end"}});
    (void)lab.await_end(much);
    std::string text;
    Json last = page(much, 5);
    CHECK(last["dropped"] == 1'200'003 - 1024 * 1024 - 5);
    for (; !last.contains("exit"); last = page(much, last["next"]))
        text += last["stdout"].get<std::string>();
    text += last["stdout"].get<std::string>();
    CHECK(text.size() == 1024 * 1024);
    CHECK(text.ends_with("xend"));
    // A paused conversation has none, and stays paused.
    const Json made = lab.api.create();
    lab.id = made["sandboxId"];
    const std::string left = lab.start_id({{"command", "exec sleep 1000"}});
    CHECK(page(left, 0)["next"] == 0);
    lab.api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause",
                 R"({"mode":"cold"})");
    CHECK(page(left, 0, 404)["code"] == "not_found");
    CHECK(lab.api.get(made["id"])["sandboxStatus"] == "terminated");
}

TEST_CASE("Output is followed as Server-Sent Events to the exit, and taken up behind the last id") {
    Lab lab;
    const HeaderList stream{{"Accept", "text/event-stream"}};
    const std::string process = lab.start_id({{"command", "echo one; read -r line; echo $line >&2; exit 4"}});
    std::string id;
    {
        HttpClient reader = lab.api.connect();
        const auto head = reader.open_stream("GET", lab.of(process) + "/output", "", stream);
        CHECK(head.header("content-type") == "text/event-stream");
        CHECK(head.header("content-security-policy") == "sandbox; default-src 'none'");
        CHECK(Json::parse(reader.next_event()->data)["type"] == "started");
        const auto event = reader.next_event();
        CHECK(Json::parse(event->data) == Json{{"type", "stdout"}, {"text", "one\n"}});
        id = event->id;
    }
    CHECK(id == "4");
    HttpClient again = lab.api.connect();
    (void)again.open_stream("GET", lab.of(process) + "/output?after=1", "",
                            {{"Accept", "text/event-stream"}, {"Last-Event-ID", id}});
    CHECK(Json::parse(again.next_event()->data)["after"] == 4);
    lab.api.call(200, "POST", lab.of(process) + "/stdin", "two\n");
    const auto events = read_until(again, "exit");
    CHECK(events.front() == Json{{"type", "stderr"}, {"text", "two\n"}});
    CHECK(events.back() ==
          Json{{"type", "exit"}, {"exitCode", 4}, {"signal", nullptr}, {"timedOut", false}, {"after", 8}});
    CHECK_FALSE(again.next_event().has_value());
    CHECK(lab.api.connect()
              .request("GET", lab.of(process) + "/output", "", {stream[0], {"Last-Event-ID", "x"}})
              .status == 400);
    CHECK(lab.api.connect().request("GET", lab.of(std::string(20, 'a')) + "/output", "", stream).status ==
          404);
    // The end of the sandbox ends the stream, and is told.
    const std::string left = lab.start_id({{"command", "exec sleep 1000"}});
    HttpClient open = lab.api.connect();
    (void)open.open_stream("GET", lab.of(left) + "/output", "", stream);
    CHECK(Json::parse(open.next_event()->data)["type"] == "started");
    lab.api.call(204, "DELETE", "/v1/sandboxes/" + lab.id);
    CHECK(read_until(open, "stream_closed").back()["after"] == 0);
}

TEST_CASE("Bytes of all values pass both ways, over the WebSocket and by request") {
    Lab lab;
    const std::string all = all_bytes();
    const std::string process = lab.start_id({{"command", "tee /dev/stderr"}});
    Follower follower = lab.follow(process);
    follower.type(all);
    while (follower.output.size() < 256)
        REQUIRE(follower.step());
    const Json taken = lab.api.call(200, "POST", lab.of(process) + "/stdin", all);
    CHECK(taken["bytes"] == 256);
    CHECK(lab.api.call(200, "POST", lab.of(process) + "/stdin?eof=1", "")["bytes"] == 0);
    follower.finish();
    CHECK(follower.output == all + all);
    CHECK(follower.error == all + all);
    CHECK(follower.find("exit")["exitCode"] == 0);
    const std::string second = lab.start_id({{"command", "cat"}});
    Follower ender = lab.follow(second);
    ender.type("last words");
    ender.say({{"type", "eof"}});
    ender.finish();
    CHECK(ender.output == "last words");
    const std::string third = lab.start_id({{"command", "cat"}, {"stdin", "null"}});
    CHECK(lab.await_end(third)["exitCode"] == 0);
}

TEST_CASE("A shell in a terminal has job control, a size and a Ctrl-C") {
    Lab lab;
    const std::string process = lab.start_id(Json::parse(k_shell));
    Follower shell = lab.follow(process);
    const auto type = [&shell](std::string_view text, std::string_view expected) {
        shell.output.clear();
        shell.type(text);
        CHECK(shell.read_until(expected));
    };
    REQUIRE(shell.read_until("$ "));
    CHECK(shell.output.find("no job control") == std::string::npos);
    CHECK(shell.find("started")["pty"] == true);
    type("tty; echo $TERM; id -u\n", "1000\r\n");
    CHECK(shell.output.find("/dev/pts/") != std::string::npos);
    CHECK(shell.output.find("xterm-256color") != std::string::npos);
    type("sh -c 'echo ready; exec sleep 1000'\n", "ready\r\n");
    type("\x03", "$ ");
    type("echo status=$?\n", "status=130");
    type("sh -c 'echo ready; exec sleep 1000'\n", "ready\r\n");
    type("\x1a", "Stopped");
    type("bg\n", "sleep 1000' &");
    type("jobs\n", "Running");
    type("kill %1; wait; jobs; echo gone\n", "gone\r\n");
    type("stty size\n", "24 80");
    shell.say({{"type", "resize"}, {"cols", 132}, {"rows", 50}});
    type("stty size\n", "50 132");
    lab.api.call(204, "POST", lab.of(process) + "/resize", R"({"cols":40,"rows":10})");
    type("stty size\n", "10 40");
    CHECK(lab.api.call(200, "GET", lab.of(process))["pty"] == Json{{"cols", 40}, {"rows", 10}});
    // A Ctrl-D is an end only for who reads the terminal at that moment: the shell, once it prompts.
    while (shell.output.find("$ ", shell.output.find("10 40")) == std::string::npos && shell.step()) {
    }
    shell.say({{"type", "eof"}});
    shell.finish();
    CHECK(shell.find("exit")["exitCode"] == 0);
}

TEST_CASE("An editor in a terminal writes a file") {
    const bool has_vim = std::filesystem::exists("/usr/bin/vim");
    if (!has_vim && !std::filesystem::exists("/usr/bin/vi"))
        SKIP("neither vim nor vi is installed");
    Lab lab;
    const std::string editor = has_vim ? "vim -u NONE -n note.txt" : "vi note.txt";
    const std::string process = lab.start_id({{"command", editor}, {"pty", {{"cols", 80}, {"rows", 24}}}});
    Follower follower = lab.follow(process);
    REQUIRE(follower.read_until("note.txt"));
    follower.type("ihello from a terminal\x1b:wq\r");
    follower.finish();
    CHECK(follower.find("exit")["exitCode"] == 0);
    CHECK(lab.exec("cat /workspace/note.txt")["stdout"] == "hello from a terminal\n");
}

TEST_CASE("Much output of a terminal arrives whole at who reads it") {
    Lab lab;
    const std::size_t bytes = std::getenv("ATOLL_TEST_FULL") != nullptr ? 100'000'000 : 10'000'000;
    bool is_whole = false;
    // A reader that gets no processor for k_reader_patience is not waited for: then again.
    for (int tries = 0; tries < 3 && !is_whole; ++tries) {
        const std::string process =
            lab.start_id({{"command", "stty raw -echo; echo ready; read -r go; head -c " +
                                          std::to_string(bytes) + " /dev/zero | cat"},
                          {"pty", {{"cols", 80}, {"rows", 24}}}});
        Follower follower = lab.follow(process);
        REQUIRE(follower.read_until("ready"));
        follower.type("\n");
        std::size_t zeros = 0;
        bool is_open = true;
        while (is_open) {
            is_open = follower.step();
            zeros +=
                static_cast<std::size_t>(std::count(follower.output.begin(), follower.output.end(), '\0'));
            follower.output.clear();
        }
        CHECK(follower.find("exit")["exitCode"] == 0);
        is_whole = follower.find("dropped").is_null();
        if (is_whole)
            CHECK(zeros == bytes);
    }
    CHECK(is_whole);
}

TEST_CASE("A timeout ends the whole group of a process") {
    Lab lab;
    std::string child;
    // A timeout that came before the process was prepared is followed by a longer one.
    for (const int timeout_ms : {500, 3000, 30'000}) {
        const std::string process =
            lab.start_id({{"command", "trap '' TERM; sleep 1000 & echo $!; while :; do wait; done"},
                          {"timeoutMs", timeout_ms}});
        Follower follower = lab.follow(process);
        follower.finish();
        CHECK(follower.find("exit")["timedOut"] == true);
        child = follower.output;
        if (!child.empty()) {
            CHECK(follower.find("exit")["signal"] == "SIGKILL");
            break;
        }
    }
    REQUIRE_FALSE(child.empty());
    CHECK(eventually([&] { return lab.exec("kill -0 " + child)["exitCode"] != 0; }));
}

TEST_CASE("Processes end with their sandbox, and a paused conversation is not woken to say so") {
    Lab lab;
    const std::string process = lab.start_id({{"command", "exec sleep 1000"}});
    Follower follower = lab.follow(process);
    REQUIRE(follower.step());
    lab.api.call(204, "DELETE", "/v1/sandboxes/" + lab.id);
    follower.finish();
    CHECK(follower.find("exit").is_null());
    CHECK(follower.closed->close_reason().find("\"after\":0") != std::string::npos);
    const Json made = lab.api.create();
    const std::string id = made["id"];
    lab.id = made["sandboxId"];
    const std::string left = lab.start_id({{"command", "exec sleep 1000"}});
    lab.api.call(200, "POST", "/v1/conversations/" + id + "/pause", R"({"mode":"cold"})");
    CHECK(lab.api.call(200, "GET", lab.path())["processes"].empty());
    CHECK(lab.api.call(404, "GET", lab.of(left))["code"] == "not_found");
    CHECK(lab.api.get(id)["sandboxStatus"] == "terminated");
    // A start makes it active again.
    const std::string again = lab.start_id({{"command", "exec sleep 1000"}});
    CHECK(lab.api.get(id)["status"] == "active");
    CHECK(lab.api.call(200, "GET", lab.of(again))["status"] == "running");
    CHECK(lab.api.call(404, "GET", lab.of(left))["code"] == "not_found");
}

TEST_CASE("What cannot be started or asked is refused by name") {
    Lab lab;
    const auto code = [&lab](const Json& request, int status = 422) {
        return lab.start(request, status)["code"].get<std::string>();
    };
    CHECK(code({{"command", "true"}, {"restart", "always"}}) == "invalid_field");
    CHECK(code({{"command", "true"}, {"argv", {"true"}}}) == "invalid_field");
    CHECK(code(Json::object()) == "invalid_field");
    CHECK(code({{"command", "true"}, {"pty", {{"cols", 80}}}}) == "invalid_field");
    CHECK(code({{"command", "true"}, {"pty", {{"cols", 0}, {"rows", 1}}}}) == "invalid_field");
    CHECK(code({{"command", "true"}, {"stdin", "text"}}) == "invalid_field");
    CHECK(code({{"command", "true"}, {"cwd", "/nonexistent"}}) == "invalid_cwd");
    CHECK(code({{"argv", {"/nonexistent"}}}) == "invalid_field");
    CHECK(code({{"command", "true"}, {"env", {{"LD_PRELOAD", "x"}}}}) != "");
    CHECK(code({{"command", std::string(40'000, 'x')}}) == "invalid_field");
    const std::string nobody = lab.of(std::string(20, 'a'));
    CHECK(lab.api.call(404, "GET", nobody)["code"] == "not_found");
    CHECK(lab.api.call(404, "POST", nobody + "/signal", R"({"signal":"SIGTERM"})")["code"] == "not_found");
    CHECK(lab.api.call(404, "POST", nobody + "/stdin", "x")["code"] == "not_found");
    CHECK(lab.api.connect().request("GET", nobody + "/ws", "", k_websocket_headers).status == 404);
    const std::string process = lab.start_id({{"command", "exec sleep 1000"}});
    CHECK(lab.api.call(422, "POST", lab.of(process) + "/signal", R"({"signal":"NONE"})")["code"] ==
          "invalid_field");
    CHECK(lab.api.call(422, "POST", lab.of(process) + "/resize", R"({"cols":80,"rows":24})")["code"] ==
          "invalid_field");
    CHECK(lab.api.connect().request("GET", lab.of(process) + "/ws").status == 426);
    Follower follower = lab.follow(process);
    follower.say({{"type", "resize"}, {"cols", 80}, {"rows", 24}});
    follower.say({{"type", "dance"}});
    follower.say({{"type", "signal"}, {"signal", "SIGKILL"}});
    follower.finish();
    CHECK(std::count_if(follower.said.begin(), follower.said.end(),
                        [](const Json& frame) { return frame["type"] == "rejected"; }) == 2);
    CHECK(follower.find("exit")["signal"] == "SIGKILL");
}

TEST_CASE("Beyond the limit of processes a start is refused with the limit") {
    Lab lab;
    lab.id = lab.api.call(201, "POST", "/v1/sandboxes", R"({"limits":{"maxProcesses":16}})")["id"];
    std::set<std::string> ids;
    HttpResponse answer;
    for (int i = 0; i < 40 && answer.status != 503; ++i) {
        answer = lab.api.connect().request("POST", lab.path(), R"({"argv":["sleep","1000"]})");
        if (answer.status == 201)
            ids.insert(Json::parse(answer.body)["processId"]);
    }
    REQUIRE(answer.status == 503);
    CHECK(Json::parse(answer.body)["code"] == "too_many_processes");
    CHECK(Json::parse(answer.body)["detail"].get<std::string>().find("maxProcesses is 16") !=
          std::string::npos);
    CHECK(ids.size() >= 8);
}

}  // namespace integration_processes_test
