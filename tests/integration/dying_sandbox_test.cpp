// A sandbox that dies while every route of files and every tool is at work in it, and special files that the
// same routes meet: each caller gets a clear answer, nothing is half-written or opened, nobody else waits.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <deque>

#include "tests/integration/guest_processes.hpp"
#include "tests/support/api_client.hpp"

namespace dying_sandbox_test {

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

struct Lab {
    ServerProcess server;
    ApiClient api{server};
    Json conversation = api.create();
    std::string id = conversation["id"];
    std::string sandbox = conversation["sandboxId"];

    std::string path(const std::string& rest) const { return "/v1/sandboxes/" + sandbox + "/" + rest; }
    Json exec(const std::string& command) {
        return api.call(200, "POST", path("exec"), Json{{"command", command}}.dump());
    }
    std::string shown(const std::string& command) { return exec(command)["stdout"]; }
};

/// A call that is under way on a connection of its own.
struct Pending {
    Pending(const Lab& lab, std::string in_name, const std::string& method, const std::string& target,
            const std::string& body = "", const std::string& fields = "")
        : name(std::move(in_name)), client(lab.api.connect()) {
        client.connect();
        client.send_raw(method + " " + target + " HTTP/1.1\r\nHost: " + lab.server.address() +
                        "\r\nX-API-Key: " + lab.server.key() + "\r\n" + fields +
                        (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") +
                        "\r\n" + body);
    }
    bool is_silent() const {
        pollfd waited{client.fd(), POLLIN, 0};
        return poll(&waited, 1, 0) == 0;
    }

    std::string name;
    HttpClient client;
};

struct Call {
    std::string name;
    std::string method;
    std::string rest;  // of a tool: its arguments
    std::string body;
};

const std::vector<Call>& short_calls() {
    static const std::vector<Call> calls = {
        {"get", "GET", "files/f", ""},
        {"range", "GET", "files/f?inline=1", ""},
        {"stat", "GET", "files/f?stat=1", ""},
        {"list", "GET", "files/?list=1&depth=9", ""},
        {"put", "PUT", "files/made/new", "new"},
        {"put in place", "PUT", "files/f?inplace=1", "new"},
        {"delete", "DELETE", "files/g", ""},
        {"delete tree", "DELETE", "files/tree?recursive=1", ""},
        {"mkdir", "POST", "files/folder", R"({"op":"mkdir"})"},
        {"move", "POST", "files/g", R"({"op":"move","to":"moved"})"},
        {"copy", "POST", "files/tree", R"({"op":"copy","to":"copied"})"},
        {"tar out", "GET", "archive", ""},
    };
    return calls;
}

const std::vector<std::pair<std::string, Json>>& tool_calls() {
    static const std::vector<std::pair<std::string, Json>> calls = {
        {"list_directory", {{"path", "."}}},
        {"read_file", {{"path", "f"}}},
        {"write_file", {{"path", "f"}, {"content", "new"}, {"allow_overwrite", true}}},
        {"replace", {{"file_path", "g"}, {"old_string", "old"}, {"new_string", "new"}}},
        {"search_file_content", {{"pattern", "old"}}},
        {"glob", {{"pattern", "**"}}},
    };
    return calls;
}

/// Every byte of the workspace, and every name, hidden ones too.
constexpr const char* k_all = "find . -exec stat -c '%n %F %s %a %Y' {} + | sort; cat f g tree/*/* | md5sum";

}  // namespace

TEST_CASE("A sandbox that dies in the middle of every call answers each, and no file is half-written") {
    Lab lab;
    lab.exec(
        "printf old > f; printf old > g; mkdir -p tree/a tree/b; for i in $(seq 50); do echo $i > tree/a/$i; "
        "done; "
        "truncate -s 200M big");
    const std::string before = lab.shown(k_all);
    const std::vector<pid_t> victims = guests(lab.server);
    REQUIRE(victims.size() == 1);
    const std::string other = lab.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];

    // These are half-way, as far as the guest goes.
    const std::string expect = "Expect: 100-continue\r\nContent-Length: 1000000\r\n";
    Pending put(lab, "put", "PUT", lab.path("files/f"), "", expect);
    Pending unpack(lab, "tar in", "PUT", lab.path("archive?path=into"), "", expect);
    for (Pending* each : {&put, &unpack}) {
        REQUIRE(each->client.read_response(HttpClient::Body::none).status == 100);
        each->client.send_raw(std::string(each == &put ? 500'000 : 300, 'x'));
    }
    Pending big(lab, "get", "GET", lab.path("files/big"));
    Pending pack(lab, "tar out", "GET", lab.path("archive"));
    for (Pending* each : {&big, &pack})
        REQUIRE(each->client.read_raw(100).starts_with("HTTP/1.1 200 "));

    // The rest has been asked for and cannot be answered.
    REQUIRE(::kill(victims[0], SIGSTOP) == 0);
    std::deque<Pending> files;
    for (const Call& call : short_calls())
        files.emplace_back(lab, call.name, call.method, lab.path(call.rest), call.body,
                           call.method == "POST" ? "Content-Type: application/json\r\n" : "");
    std::deque<Pending> tools;
    for (const auto& [name, arguments] : tool_calls())
        for (const char* const accept : {"application/json", "text/event-stream"})
            tools.emplace_back(lab, name + " as " + accept, "POST", "/v1/tools/" + name,
                               Json{{"sandboxId", lab.sandbox}, {"args", arguments}}.dump(),
                               std::string("Content-Type: application/json\r\nAccept: ") + accept + "\r\n");
    // Nobody else waits for it.
    for (int i = 0; i < 20; ++i) {
        CHECK(lab.api.http().request("PUT", "/v1/sandboxes/" + other + "/files/x", "x").status < 300);
        CHECK(lab.api.http().request("GET", "/healthz").status == 200);
    }
    for (const Pending& each : files) {
        INFO(each.name);
        CHECK(each.is_silent());  // the control: it was in the middle
    }
    REQUIRE(::kill(victims[0], SIGKILL) == 0);

    for (Pending* each : {&put, &unpack}) {
        INFO(each->name);
        // It hears of it while it stands still, before its time for the body ends.
        const HttpResponse answer = each->client.read_response();
        INFO(answer.body);
        CHECK(answer.status >= 400);
        const std::string code = Json::parse(answer.body)["code"];
        CHECK_FALSE(code.empty());
        CHECK(code != "request_timeout");
    }
    CHECK(big.client.read_until_close().size() < 200UL * 1024 * 1024);
    CHECK_FALSE(pack.client.read_until_close().ends_with("0\r\n\r\n"));
    for (Pending& each : files) {
        const HttpResponse answer = each.client.read_response();
        INFO(each.name << ": " << answer.status << " " << answer.body);
        CHECK(answer.status == 409);
        const Json problem = Json::parse(answer.body);
        CHECK(problem["code"] == "sandbox_gone");
        CHECK_FALSE(problem["detail"].get<std::string>().empty());
    }
    for (Pending& each : tools) {
        const HttpResponse answer = each.client.read_response();
        INFO(each.name << ": " << answer.status << " " << answer.body);
        CHECK(answer.status == 200);
        CHECK(answer.body.find("\"errorCode\":\"SANDBOX_UNAVAILABLE\"") != std::string::npos);
    }
    lab.api.await_status(lab.id, "paused");
    CHECK(lab.shown(k_all) == before);
    CHECK(lab.shown("ls -A | grep -c '^.atoll-write-' || true") == "0\n");
}

TEST_CASE("Special files are said to be what they are, and nobody who waits at one is woken") {
    Lab lab;
    lab.exec(
        "mkfifo read written; mkdir d; mkfifo d/fifo; ln -s /dev/zero zero; ln -s read to_read; "
        "perl -e 'socket(S, 1, 1, 0) && bind(S, pack(\"Sa*\", 1, \"socket\\0\")) || die'");
    // The controls: no device can be made here, and those of /dev can be read through a link.
    CHECK(lab.exec("mknod null c 1 3")["exitCode"] != 0);
    CHECK(lab.shown("head -c 3 zero | wc -c") == "3\n");
    const auto start = [&lab](const std::string& command) {
        return lab.api
            .call(201, "POST", lab.path("processes"), Json{{"command", command}}.dump())["processId"]
            .get<std::string>();
    };
    const auto status = [&lab](const std::string& process) {
        return lab.api.call(200, "GET", lab.path("processes/" + process))["status"].get<std::string>();
    };
    // A program that opened the other end of a fifo would end these two processes.
    const std::string writer = start("echo x > read");
    const std::string reader = start("cat < written");
    HttpClient http = lab.api.connect();
    const auto code = [&](const std::string& method, const std::string& rest, const std::string& body = "") {
        const HeaderList type = {{"Content-Type", "application/octet-stream"}};
        const auto answer = http.request(method, lab.path(rest), body, method == "PUT" ? type : HeaderList());
        INFO(method << " " << rest << ": " << answer.status << " " << answer.body);
        CHECK(answer.status >= 400);
        return answer.status >= 400 ? Json::parse(answer.body)["code"].get<std::string>() : std::string();
    };
    const auto tool_code = [&](const std::string& tool, const Json& arguments) {
        const Json body = {{"sandboxId", lab.sandbox}, {"args", arguments}};
        const Json result = lab.api.call(200, "POST", "/v1/tools/" + tool, body.dump());
        INFO(result.dump());
        CHECK(result["success"] == false);
        return result["technicalDetails"]["errorCode"].get<std::string>();
    };
    struct Special {
        std::string path;
        std::string type;
        std::string code;
        std::string tool_code;
    };
    const Special specials[] = {{"read", "fifo", "not_a_file", "NOT_A_FILE"},
                                {"written", "fifo", "not_a_file", "NOT_A_FILE"},
                                {"d/fifo", "fifo", "not_a_file", "NOT_A_FILE"},
                                {"socket", "socket", "not_a_file", "NOT_A_FILE"},
                                {"to_read", "symlink", "not_a_file", "NOT_A_FILE"},
                                {"zero", "symlink", "outside_workspace", "OUTSIDE_WORKSPACE"}};
    for (const Special& each : specials) {
        INFO(each.path);
        const std::string file = "files/" + each.path;
        CHECK(lab.api.call(200, "GET", lab.path(file + "?stat=1"))["type"] == each.type);
        CHECK(code("GET", file) == each.code);
        CHECK(code("PUT", file, "x") == each.code);
        CHECK(code("PUT", file + "?inplace=1", "x") == each.code);
        CHECK(code("GET", "archive?path=" + each.path) == each.code);
        if (each.type != "symlink")
            CHECK(code("POST", file, R"({"op":"copy","to":"copy"})") == "not_a_file");
        CHECK(tool_code("read_file", {{"path", each.path}}) == each.tool_code);
        CHECK(tool_code("write_file", {{"path", each.path}, {"content", "x"}, {"allow_overwrite", true}}) ==
              each.tool_code);
        CHECK(tool_code("replace", {{"file_path", each.path}, {"old_string", "x"}, {"new_string", "y"}}) ==
              each.tool_code);
        CHECK(tool_code("search_file_content", {{"pattern", "x"}, {"path", each.path}}) == each.tool_code);
    }
    CHECK(code("POST", "files/d", R"({"op":"copy","to":"d2"})") == "not_a_file");
    const HttpResponse all = http.request("GET", lab.path("archive"));
    CHECK(all.status == 200);
    CHECK(all.body.find("fifo") == std::string::npos);
    const Json searched = lab.api.call(200, "POST", "/v1/tools/search_file_content",
                                       Json{{"sandboxId", lab.sandbox}, {"args", {{"pattern", "x"}}}}.dump());
    CHECK(searched["data"]["matchCount"] == 0);
    CHECK(status(writer) == "running");
    CHECK(status(reader) == "running");
    // The controls: an open does end them.
    CHECK(lab.shown("cat read; echo y > written") == "x\n");
    const auto until = Clock::now() + k_client_deadline;
    while ((status(writer) != "ended" || status(reader) != "ended") && Clock::now() < until) {
    }
    CHECK(status(writer) == "ended");
    CHECK(status(reader) == "ended");
    // Their names are changed and removed as others are.
    lab.api.call(200, "POST", lab.path("files/read"), R"({"op":"move","to":"d/moved"})");
    lab.api.call(204, "DELETE", lab.path("files/d?recursive=1"));
}

TEST_CASE("A SIGKILL from outside is told as such, a pause as the server's own end") {
    Lab lab;
    const auto last_end = [&lab] {
        Json end;
        for (const Json& event : lab.api.events(lab.id))
            if (event["type"] == "sandbox_terminated")
                end = event["data"];
        return end;
    };
    for (const bool in_turn : {false, true}) {
        INFO("in a turn: " << in_turn);
        lab.api.message(lab.id, "true");
        const std::string path = "/v1/conversations/" + lab.id;
        if (in_turn)
            lab.api.call(202, "POST", path + "/messages", R"({"content":"sleep 1000"})");
        const std::vector<pid_t> victims = guests(lab.server);
        REQUIRE(victims.size() == 1);
        REQUIRE(::kill(victims[0], SIGKILL) == 0);
        CHECK(lab.api.await_status(lab.id, "paused")["statusReason"] == "crash");
        CHECK(last_end()["class"] == "signalled");
        CHECK(last_end()["code"] == 9);
    }
    lab.api.message(lab.id, "true");
    lab.api.call(200, "POST", "/v1/conversations/" + lab.id + "/pause");
    CHECK(last_end()["class"] == "stopped");
}

}  // namespace dying_sandbox_test
