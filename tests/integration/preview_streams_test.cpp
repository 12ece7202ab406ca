// Long answers, event streams and WebSockets through previews, and dev servers that mean ill.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/integration/preview_site.hpp"
#include "tests/support/websocket_client.hpp"

namespace preview_streams_test {

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

std::string get_request(const std::string& sandbox, const std::string& target) {
    return "GET " + target + " HTTP/1.1\r\nHost: " + PreviewLab::host(sandbox) + "\r\n\r\n";
}

}  // namespace

TEST_CASE("A preview passes each event of a stream on before the next one is made") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    HttpClient stream = lab.connect(id);
    CHECK(stream.open_stream("GET", "/events").header("content-type") == "text/event-stream");
    for (int number = 0; number < 5; ++number) {
        const auto event = stream.next_event();
        REQUIRE(event.has_value());
        CHECK(event->data == std::to_string(number));
        CHECK(lab.get(id, "/tick").status == 204);
    }
}

TEST_CASE("What a visitor says of its address and its host counts only through a trusted proxy") {
    if (!is_root())
        SKIP("needs root");
    const bool is_trusted = GENERATE(false, true);
    const auto arguments =
        is_trusted ? std::vector<std::string>{"--trusted-proxy", "127.0.0.0/8"} : std::vector<std::string>{};
    PreviewLab lab(arguments);
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    const HttpResponse answer = lab.get(id, "/head",
                                        {{"X-Forwarded-For", "198.51.100.1, 203.0.113.9"},
                                         {"X-Forwarded-Proto", "https"},
                                         {"X-Forwarded-Host", "evil.example"},
                                         {"X-Real-IP", "198.51.100.1"},
                                         {"Forwarded", "for=198.51.100.1"}});
    const auto said = [&](const std::string& line) {
        return answer.body.find("\r\n" + line + "\r\n") != std::string::npos;
    };
    INFO(answer.body);
    CHECK(said("Host: localhost:5173"));
    CHECK(said(is_trusted ? "X-Forwarded-For: 203.0.113.9" : "X-Forwarded-For: 127.0.0.1"));
    CHECK(said(is_trusted ? "X-Forwarded-Proto: https" : "X-Forwarded-Proto: http"));
    CHECK(said("X-Forwarded-Host: " + PreviewLab::host(id)));
    CHECK(answer.body.find("198.51.100.1") == std::string::npos);
    CHECK(answer.body.find("evil.example") == std::string::npos);
    CHECK(answer.header("location") == (is_trusted ? "https://" : "http://") + PreviewLab::host(id) + "/");
}

TEST_CASE("Keys of the API stay out of the sandbox, whatever field they come in") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string sandbox = lab.make_sandbox();
    lab.serve(sandbox, "A");
    const std::string key = lab.server().key();
    REQUIRE(lab.get(sandbox, "/head", {{"X-Token", "another"}}).body.find("X-Token: another") !=
            std::string::npos);
    const std::string seen =
        lab.get(sandbox, "/head", {{"X-Token", "k:" + key}, {"Cookie", "a=1; k=" + key}, {"X-API-Key", key}})
            .body;
    CHECK(seen.find(key) == std::string::npos);
    CHECK(seen.find("Cookie: a=1\r\n") != std::string::npos);
}

// [serial]: the server's memory, whose bound is --full's.
TEST_CASE("A long download through a preview takes no memory of the server", "[serial]") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    const std::size_t bytes = (is_full_test() ? 2048UL : 64UL) * 1024 * 1024;
    HttpClient client = lab.connect(id);
    client.send_raw(get_request(id, "/big?" + std::to_string(bytes)));
    // The buffers of a connection are there once the first piece has come.
    const auto head = client.read_raw(std::string("HTTP/1.1 200 OK\r\n").size());
    CHECK(head == "HTTP/1.1 200 OK\r\n");
    std::string rest = client.read_raw(4096);
    const auto body_at = rest.find("\r\n\r\n");
    REQUIRE(body_at != std::string::npos);
    std::size_t got = rest.size() - body_at - 4;
    const long before = lab.resident_kb();
    long most = before;
    while (got < bytes) {
        const std::string piece = client.read_raw(std::min<std::size_t>(bytes - got, 1024UL * 1024));
        got += piece.size();
        CHECK(piece.find_first_not_of('x') == std::string::npos);
        most = std::max(most, lab.resident_kb());
    }
    if (is_full_test())
        CHECK(most < before + k_growth_kb);
    // It ends there, and the connection goes on.
    client.send_raw(get_request(id, "/"));
    CHECK(client.read_response().body == "hello from one");
}

// Over 5 s: each part has a server and a site of its own; one is idle for 3 s.
TEST_CASE("A WebSocket through a preview is the dev server's own: compression, long frames, an idle hour") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    SECTION("plain") {
        WebSocketClient socket(lab.connect(id), "/ws");
        CHECK(socket.extensions().empty());
        socket.send_text("hello");
        CHECK(socket.next_text() == "hello");
        const std::string megabyte(1024UL * 1024, 'm');
        for (int i = 0; i < 4; ++i) {
            socket.send_text(megabyte);
            CHECK(socket.next_text() == megabyte);
        }
        socket.send_raw(close_frame_bytes(1000));
        CHECK(socket.next().close_code() == 1000);
        CHECK(socket.http().closes());
    }
    SECTION("compressed") {
        WebSocketClient socket(lab.connect(id), "/ws", Offer::deflate);
        CHECK(socket.extensions().starts_with("permessage-deflate"));
        const std::string hello("\xf2\x48\xcd\xc9\xc9\x07\x00", 7);  // RFC 7692 section 7.2.3.1
        socket.send({.first = 0xc1, .payload = hello});
        CHECK(socket.http().read_raw(2 + hello.size()) == "\xc1\x07" + hello);
    }
    SECTION("idle") {
        WebSocketClient socket(lab.connect(id), "/ws");
        CHECK_THROWS(socket.next(is_full_test() ? 60s : 3s));
        socket.send_text("still there");
        CHECK(socket.next_text() == "still there");
    }
}

TEST_CASE("A WebSocket through a preview ends with its dev server, and with the sandbox") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    WebSocketClient socket(lab.connect(id), "/ws");
    socket.send_text("hello");
    CHECK(socket.next_text() == "hello");
    lab.api().call(204, "DELETE", "/v1/sandboxes/" + id);
    CHECK(socket.http().closes());
}

TEST_CASE("A dev server that breaks HTTP gets its visitors an error, and nothing else") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string hostile = lab.make_sandbox();
    const std::string other = lab.make_sandbox();
    lab.serve(hostile, "hostile");
    lab.serve(other, "other");
    for (const char* const path : {"/endless-head", "/endless-interim", "/garbage"}) {
        CAPTURE(path);
        HttpClient client = lab.connect(hostile);
        client.send_raw(get_request(hostile, path));
        HttpResponse refused = client.read_response();
        while (refused.status == 102)
            refused = client.read_response();
        CHECK(refused.status == 502);
        CHECK(code_of(refused) == "upstream_failed");
    }
    for (const char* const path : {"/bad-chunk", "/endless-trailers", "/endless-chunk-line"}) {
        CAPTURE(path);
        HttpClient client = lab.connect(hostile);
        client.send_raw("GET " + std::string(path) + " HTTP/1.1\r\nHost: " + PreviewLab::host(hostile) +
                        "\r\nConnection: close\r\n\r\n");
        // It breaks off, or is refused: the end of a chunked body never comes.
        CHECK_FALSE(client.read_until_close().ends_with("0\r\n\r\n"));
    }
    HttpClient client = lab.connect(hostile);
    client.send_raw(get_request(hostile, "/unasked"));
    CHECK(client.read_response().body == "ok");
    client.send_raw(get_request(hostile, "/"));
    CHECK(client.read_response().body == "hello from hostile");
    CHECK(lab.get(other).body == "hello from other");
}

// [serial]: the server's memory under load, whose bound is --full's.
TEST_CASE("A preview that is flooded, or never ends what it says, leaves the others and the API alone",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    constexpr std::size_t k_bound = 64;
    constexpr std::string_view k_ok = "HTTP/1.1 200 OK\r\n";
    // Each is a descriptor of this process, too.
    rlimit files{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    const std::size_t clients = is_full_test() ? std::min<rlim_t>(10'000, files.rlim_cur - 200) : 100;
    PreviewLab lab({"--preview-connections", std::to_string(k_bound), "--max-connections-per-address", "0"});
    const std::string hostile = lab.make_sandbox();
    const std::string other = lab.make_sandbox();
    lab.serve(hostile, "hostile");
    lab.serve(other, "other");
    const long before = lab.resident_kb();
    const bool is_silent = GENERATE(true, false);
    std::vector<HttpClient> flood;
    std::size_t refused = 0;
    for (std::size_t i = 0; i < clients; ++i) {
        flood.push_back(lab.connect(hostile));
        flood.back().send_raw(get_request(hostile, is_silent ? "/silent" : "/endless-body"));
        if (i < k_bound) {
            // It has its connection inside.
            CHECK(flood.back().read_raw(k_ok.size()) == k_ok);
            continue;
        }
        const HttpResponse answer = flood.back().read_response();
        refused +=
            answer.status == 503 && code_of(answer) == "capacity" && !answer.header("retry-after").empty()
                ? 1
                : 0;
    }
    CHECK(refused == clients - k_bound);
    for (int i = 0; i < 20; ++i) {
        CHECK(lab.get(other).body == "hello from other");
        CHECK(lab.api().call(200, "GET", "/v1/sandboxes/" + other)["id"] == other);
    }
    // Nobody reads what is said without end: a piece and a buffer of each lie here.
    if (is_full_test())
        CHECK(lab.resident_kb() <
              before + k_growth_kb + static_cast<long>(k_bound) * 512 + static_cast<long>(clients) * 32);
    flood.clear();
    lab.await(hostile, "hostile");
}

}  // namespace preview_streams_test
