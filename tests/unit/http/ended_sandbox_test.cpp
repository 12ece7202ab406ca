// The answers to a client about a sandbox that ends for its disk under its request, on every route that needs
// one to live.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/api_server.hpp"

namespace ended_sandbox_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr const char* k_cause = "its workspace holds 96 MB, more than the disk limit of 64 MB";
constexpr const char* k_crash = "the guest was killed";

struct Request {
    const char* method;
    std::string rest;  // below the sandbox
    std::string body;
    std::string type = "application/octet-stream";
    std::string more = "";  // header fields
};

const std::vector<Request>& requests() {
    static const std::string process = "processes/" + k_no_id + "/";
    static const std::string as_json = "application/json";
    static const std::string socket =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    static const std::vector<Request> all = {
        {"POST", "exec", R"({"command":"true"})", as_json},
        {"POST", "exec", R"({"command":"true"})", as_json, "Accept: text/event-stream\r\n"},
        {"GET", "files/f", ""},
        {"GET", "files/f?stat=1", ""},
        {"GET", "files/src?list=1", ""},
        {"PUT", "files/f", "content"},
        {"PUT", "files/f?inplace=1", "content"},
        {"DELETE", "files/f", ""},
        {"POST", "files/f", R"({"op":"move","to":"g"})", as_json},
        {"POST", "files/f", R"({"op":"copy","to":"g"})", as_json},
        {"POST", "files/f", R"({"op":"mkdir"})", as_json},
        {"GET", "archive", ""},
        {"PUT", "archive", "tar", "application/x-tar"},
        {"POST", "processes", R"({"command":"true"})", as_json},
        {"POST", process + "signal", R"({"signal":"SIGINT"})", as_json},
        {"POST", process + "resize", R"({"cols":80,"rows":24})", as_json},
        {"POST", process + "stdin", "input"},
        {"GET", process + "ws", "", as_json, socket},
    };
    return all;
}

/// A conversation whose sandbox is there for one request.
struct Scene {
    explicit Scene(ApiServer& in) : server(in) {
        const auto made = server.call_json("POST", "/v1/conversations", "{}");
        sandbox = made["sandboxId"];
        client.connect();
    }

    /// Sends it, and waits until the guest has been asked.
    void send(const Request& request) {
        const std::size_t before = server.on_loop([this] { return server.world.operations; });
        client.send_raw(std::string(request.method) + " " + request.rest +
                        " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + k_test_key + "\r\n" + request.more +
                        (request.body.empty() ? ""
                                              : "Content-Type: " + request.type + "\r\nContent-Length: " +
                                                    std::to_string(request.body.size()) + "\r\n") +
                        "\r\n" + request.body);
        REQUIRE(server.eventually([&] { return server.world.operations > before; }));
    }
    void end(sandbox::ExitClass exit_class, const char* detail) {
        server.on_loop([&] {
            for (const auto& [pid, process] : server.world.processes) {
                if (process->sandbox_id == sandbox)
                    return server.world.process_dies(process, {exit_class, 9, detail});
            }
        });
    }

    ApiServer& server;
    std::string sandbox;
    HttpClient client{server.address};
};

}  // namespace

TEST_CASE("A sandbox that ends for its disk says so to whatever request was under way") {
    ApiServer server;
    for (Request request : requests()) {
        Scene scene(server);
        INFO(request.method << " " << request.rest << " " << request.body);
        request.rest.insert(0, "/v1/sandboxes/" + scene.sandbox + "/");
        scene.send(request);
        scene.end(sandbox::ExitClass::disk_limit, k_cause);
        const HttpResponse answer = scene.client.read_response();
        INFO(answer.body);
        CHECK(server.checker().check(request.method, request.rest, answer) == "");
        CHECK(answer.status == 507);
        const json problem = json::parse(answer.body);
        CHECK(problem["code"] == "disk_full");
        CHECK(problem["detail"] == k_cause);
    }
}

TEST_CASE("A sandbox that ends for its disk or its memory is what a tool says, in both forms") {
    ApiServer server;
    for (const auto exit_class : {sandbox::ExitClass::disk_limit, sandbox::ExitClass::oom}) {
        for (const char* const accept : {"application/json", "text/event-stream"}) {
            Scene scene(server);
            const std::string body = R"({"sandboxId":")" + scene.sandbox + R"(","args":{"path":"."}})";
            scene.send({"POST", "/v1/tools/list_directory", body, "application/json",
                        std::string("Accept: ") + accept + "\r\n"});
            scene.end(exit_class, k_cause);
            const HttpResponse answer = scene.client.read_response();
            INFO(answer.body);
            CHECK(answer.status == 200);
            CHECK(answer.body.find(std::string("The sandbox is not available now: ") + k_cause) !=
                  std::string::npos);
            CHECK(answer.body.find("SANDBOX_UNAVAILABLE") != std::string::npos);
            CHECK(answer.body.find("context missing") == std::string::npos);
        }
    }
}

TEST_CASE(
    "Another end of a sandbox is told with its own cause, and a guest that broke alone is told as that") {
    ApiServer server;
    Scene scene(server);
    const Request get{"GET", "/v1/sandboxes/" + scene.sandbox + "/files/f", ""};
    scene.send(get);
    scene.end(sandbox::ExitClass::signalled, k_crash);
    const HttpResponse crashed = scene.client.read_response();
    CHECK(crashed.status == 409);
    CHECK(json::parse(crashed.body)["code"] == "sandbox_gone");
    CHECK(json::parse(crashed.body)["detail"] == k_crash);
    // The next one gets another generation, which goes on.
    server.time_passes = true;
    const auto broken = server.call("GET", get.rest);
    CHECK(broken.status == 502);
    CHECK(json::parse(broken.body)["code"] == "bridge_failed");
}

TEST_CASE(
    "An upload that does not fit is refused before the guest is asked, and one that fits is passed on") {
    ApiServer server;
    const auto made = server.call_json("POST", "/v1/conversations", "{}");
    const std::string url = "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/files/f";
    server.on_loop([&server] {
        server.world.disk_room = [](std::uint64_t bytes) {
            return bytes > 10 ? base::Result<void>(base::Error(base::Errc::disk_full, k_cause))
                              : base::Result<void>();
        };
    });
    const auto asked = [&server] { return server.on_loop([&server] { return server.world.operations; }); };
    const std::size_t before = asked();
    const HeaderList type = {{"Content-Type", "application/octet-stream"}};
    const auto refused = server.call("PUT", url, "eleven bytes", type);
    CHECK(refused.status == 507);
    CHECK(json::parse(refused.body)["code"] == "disk_full");
    CHECK(json::parse(refused.body)["detail"] == k_cause);
    CHECK(asked() == before);
    // The control. What it is replaced in place by takes no more room than it has itself.
    server.time_passes = true;
    for (const auto& [target, body] :
         {std::pair(url, "ten bytes."), std::pair(url + "?inplace=1", "eleven bytes")}) {
        const std::size_t so_far = asked();
        server.call("PUT", target, body, type);
        CHECK(asked() > so_far);
    }
}

TEST_CASE("Files of a paused conversation are read and deleted beyond the user's share, and none is added") {
    ApiServer server;
    const auto made = server.call_json("POST", "/v1/conversations", "{}");
    const std::string url = "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/files";
    server.call_json("POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause", "");
    server.on_loop([&server] {
        server.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    });
    const auto is_refused = [&](const char* method, const std::string& target, const std::string& body = {}) {
        const auto answer = server.call(method, target, body, {{"Content-Type", "application/octet-stream"}});
        return answer.status == 429 && json::parse(answer.body)["code"] == "user_share";
    };
    CHECK(is_refused("PUT", url + "/f", "text"));
    server.time_passes = true;
    CHECK_FALSE(is_refused("GET", url + "/f"));
    CHECK_FALSE(is_refused("DELETE", url + "/f"));
    // The same sandbox, while it is up for that.
    CHECK(is_refused("PUT", url + "/f", "text"));
    const HttpResponse moved = server.call("POST", url + "/f", R"({"op":"move","to":"g"})");
    CHECK(moved.status == 429);
}

}  // namespace ended_sandbox_test
