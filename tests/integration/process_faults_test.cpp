// Processes that outlive their request, over the real server, where something is wrong: nobody reads their
// input, the sandbox dies under a request, a client that only looks.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace process_faults_test {

using namespace atl;
using namespace atl::test;

namespace {

std::string processes_of(const std::string& sandbox) {
    return "/v1/sandboxes/" + sandbox + "/processes";
}

std::string start(ApiClient& api, const std::string& sandbox, const Json& request) {
    return processes_of(sandbox) + "/" +
           api.call(201, "POST", processes_of(sandbox), request.dump())["processId"].get<std::string>();
}

/// Process 1 of each sandbox, as the host sees it.
std::vector<pid_t> guests_of(const ServerProcess& server) {
    std::vector<pid_t> guests;
    for (const pid_t pid : descendants(server.pid())) {
        std::ifstream status("/proc/" + std::to_string(pid) + "/status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("NSpid:") && line.ends_with("\t1"))
                guests.push_back(pid);
    }
    return guests;
}

}  // namespace

TEST_CASE("Input for a process that cannot take any is refused, with the reason") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const auto code = [&api](int status, const std::string& path, const std::string& body) {
        return api.call(status, "POST", path, body)["code"].get<std::string>();
    };
    const std::string without = start(api, sandbox, {{"command", "exec sleep 1000"}, {"stdin", "null"}});
    CHECK(code(422, without + "/stdin", "x") == "invalid_field");
    CHECK(code(422, without + "/stdin", "") == "invalid_field");
    const std::string with = start(api, sandbox, {{"command", "exec sleep 1000"}});
    CHECK(api.call(200, "POST", with + "/stdin", "x")["bytes"] == 1);
    CHECK(api.call(200, "POST", with + "/stdin?eof=1", "")["bytes"] == 0);
    CHECK(code(422, with + "/stdin", "x") == "invalid_field");
    api.call(204, "POST", with + "/signal", R"({"signal":"SIGKILL"})");
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (api.call(200, "GET", with)["status"] != "ended" && std::chrono::steady_clock::now() < until) {
    }
    CHECK(code(409, with + "/stdin", "x") == "process_ended");
    CHECK(code(409, with + "/stdin", "") == "process_ended");
}

TEST_CASE("A client that polls the processes of a conversation does not keep it from its idle pause") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"idleSeconds", 2}});
    const std::string sandbox = made["sandboxId"];
    const std::string process = start(api, sandbox, {{"command", "exec sleep 1000"}});
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    std::size_t seen = 0;
    Json now;
    do {
        seen += api.call(200, "GET", processes_of(sandbox))["processes"].size();
        const HttpResponse one = api.connect().request("GET", process);
        INFO(one.body);
        REQUIRE((one.status == 200 || one.status == 404));
        now = api.get(made["id"]);
    } while (now["status"] == "active" && std::chrono::steady_clock::now() < until);
    CHECK(now["status"] == "paused");
    CHECK(now["statusReason"] == "idle");
    CHECK(seen > 0);
}

TEST_CASE("A request about a process says so where its sandbox dies under it") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string sandbox = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const std::string process = start(api, sandbox, {{"command", "exec sleep 1000"}});
    struct Asked {
        std::string head;
        std::string body;
        HttpClient client;
    };
    // Its input has been asked for, and it stands still.
    Asked still{"POST " + process + "/stdin", "", api.connect()};
    still.client.connect();
    still.client.send_raw(still.head + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + server.key() +
                          "\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    REQUIRE(still.client.read_response(HttpClient::Body::none).status == 100);
    REQUIRE_FALSE(guests_of(server).empty());
    for (const pid_t guest : guests_of(server))
        REQUIRE(::kill(guest, SIGSTOP) == 0);
    std::vector<Asked> asked;
    const auto ask = [&](const std::string& line, const std::string& body, const HeaderList& more = {}) {
        asked.push_back({line, body, api.connect()});
        std::string bytes = line + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + server.key() + "\r\n";
        for (const auto& [name, value] : more)
            bytes += name + ": " + value + "\r\n";
        if (more.empty())
            bytes +=
                "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
        asked.back().client.connect();
        asked.back().client.send_raw(bytes + "\r\n" + body);
    };
    ask("POST " + processes_of(sandbox), R"({"command":"true"})");
    ask("POST " + process + "/signal", R"({"signal":"SIGTERM"})");
    ask("POST " + process + "/resize", R"({"cols":80,"rows":24})");
    ask("POST " + process + "/stdin", "x");
    ask("GET " + process + "/ws", "", k_websocket_headers);
    asked.push_back(std::move(still));
    // All are with the guest, which does not answer.
    for (int i = 0; i < 5; ++i)
        api.call(200, "GET", "/v1/sandboxes/" + sandbox);
    for (const pid_t guest : guests_of(server))
        REQUIRE(::kill(guest, SIGKILL) == 0);
    for (Asked& one : asked) {
        const HttpResponse answer = one.client.read_response();
        INFO(one.head << ": " << answer.body);
        CHECK(answer.status == 409);
        CHECK(Json::parse(answer.body)["code"] == "sandbox_gone");
    }
    CHECK(api.call(200, "GET", processes_of(sandbox))["processes"].empty());
}

}  // namespace process_faults_test
