// Changes of files that stream their progress.
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/integration/tool_calls.hpp"

namespace file_progress_test {

using namespace atl::test;

namespace {

const HeaderList k_stream{{"Accept", "text/event-stream"}};

struct Lab {
    ServerProcess server;
    ApiClient api{server};
    std::string sandbox = api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    HttpClient client = api.connect();

    std::string path(const std::string& rest) const { return "/v1/sandboxes/" + sandbox + "/" + rest; }
    void make(const std::string& command) {
        api.call(200, "POST", path("exec"), Json{{"command", command}}.dump());
    }
    HttpResponse ask(const std::string& method, const std::string& rest, const std::string& body = "") {
        return client.request(method, path(rest), body, k_stream);
    }
    /// The last frame of an answer that streamed.
    Json result(const HttpResponse& answer) {
        INFO(answer.body);
        REQUIRE(answer.status == 200);
        REQUIRE(answer.header("content-type") == "text/event-stream");
        const auto all = frames(answer.body);
        REQUIRE_FALSE(all.empty());
        CHECK(all.back()["type"] == "file_result");
        return all.back();
    }
};

}  // namespace

TEST_CASE("A change of files that streams ends with the answer that it has without a stream") {
    Lab lab;
    lab.make("mkdir -p d/e; echo one > d/f");
    const Json copied = lab.result(lab.ask("POST", "files/d", R"({"op":"copy","to":"c"})"));
    CHECK(copied["op"] == "copy");
    CHECK(copied["status"] == 201);
    CHECK(copied["result"]["path"] == "c");
    const Json moved = lab.result(lab.ask("POST", "files/c", R"({"op":"move","to":"m"})"));
    CHECK(moved["status"] == 200);
    CHECK(moved["result"]["path"] == "m");
    const Json removed = lab.result(lab.ask("DELETE", "files/m?recursive=1"));
    CHECK(removed["op"] == "delete");
    CHECK(removed["status"] == 204);
    CHECK(removed["result"].is_null());
    const auto archive = lab.client.request("GET", lab.path("archive?path=d"));
    const Json unpacked = lab.result(lab.ask("PUT", "archive?path=u", archive.body));
    CHECK(unpacked["result"]["entries"] == 2);
    CHECK(lab.client.request("GET", lab.path("files/u/f")).body == "one\n");
    const Json written = lab.result(lab.ask("PUT", "files/w", "text"));
    CHECK(written["op"] == "write");
    CHECK(written["status"] == 201);
    CHECK(written["result"]["size"] == 4);
    const auto named = lab.ask("POST", "files/d?named=1", R"({"op":"mkdir"})");
    CHECK(named.body.starts_with("event: file_"));
}

TEST_CASE("A change of files that fails at once has its own status, also where a stream was asked for") {
    Lab lab;
    const auto missing = lab.ask("POST", "files/nothing", R"({"op":"copy","to":"c"})");
    CHECK(missing.status == 404);
    CHECK(code_of(missing) == "file_not_found");
    CHECK(lab.ask("DELETE", "files/nothing").status == 404);
    CHECK(lab.ask("DELETE", "files/nothing?named=2").status == 422);
    const auto broken = lab.ask("PUT", "archive", std::string(512, 'x'));
    CHECK(code_of(broken) == "invalid_archive");
}

TEST_CASE("An archive and a file that are long on their way tell how much of them has come") {
    Lab lab;
    lab.make("mkdir d; head -c 20000000 /dev/zero > d/f");
    const auto archive = lab.client.request("GET", lab.path("archive?path=d"));
    REQUIRE(archive.status == 200);
    const std::pair<const char*, const char*> uploads[] = {
        {"archive?path=u", "unpack"}, {"files/new", "write"}, {"files/d/f?inplace=1", "write"}};
    for (const auto& [path, op] : uploads) {
        HttpClient slow = lab.api.connect();
        slow.connect();
        slow.send_raw("PUT " + lab.path(path) + " HTTP/1.1\r\nHost: " + lab.server.address() +
                      "\r\nX-API-Key: " + lab.server.key() +
                      "\r\nAccept: text/event-stream\r\nContent-Length: " +
                      std::to_string(archive.body.size()) + "\r\n\r\n");
        std::string seen;
        // Progress comes between the pieces: byte by byte they are enough of them for it.
        for (std::size_t at = 0;
             at < archive.body.size() && seen.find("\n\n", seen.find("data: ")) == seen.npos; ++at) {
            slow.send_raw(archive.body.substr(at, 1));
            std::array<char, 4096> bytes;
            const ssize_t size = ::recv(slow.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (size > 0)
                seen.append(bytes.data(), static_cast<std::size_t>(size));
        }
        INFO(seen);
        CHECK(seen.starts_with("HTTP/1.1 200 "));
        CHECK(seen.find(R"(data: {"type":"file_progress","op":")" + std::string(op) + R"(","entries":)") !=
              std::string::npos);
    }
}

}  // namespace file_progress_test
