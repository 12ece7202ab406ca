// Previews where the server can make no sockets inside a sandbox: the guest connects for it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/integration/preview_site.hpp"
#include "tests/support/websocket_client.hpp"

namespace preview_dial_test {

using namespace atl::test;

// [serial]: the server's memory, whose bound is --full's.
TEST_CASE("A server that can make no sockets inside shows previews through the guest", "[serial]") {
    if (!is_root())
        SKIP("needs root, to start a server that is not");
    // Not root, it needs this helper to make them.
    PreviewLab lab({"--zygote", "/bin/false"}, Privilege::rootless);
    const std::string id = lab.make_sandbox();
    CHECK(code_of(lab.get(id)) == "no_listener");
    lab.serve(id, "one");
    for (int i = 0; i < 20; ++i)
        CHECK(lab.get(id).body == "hello from one");
    CHECK(code_of(lab.get(id, "/garbage")) == "upstream_failed");

    HttpClient events = lab.connect(id);
    CHECK(events.open_stream("GET", "/events").header("content-type") == "text/event-stream");
    for (int number = 0; number < 3; ++number) {
        const auto event = events.next_event();
        REQUIRE(event.has_value());
        CHECK(event->data == std::to_string(number));
        CHECK(lab.get(id, "/tick").status == 204);
    }

    // More than all buffers on the way hold, in each direction, and read late.
    constexpr std::size_t k_bytes = 32UL * 1024 * 1024;
    const long before = lab.resident_kb();
    HttpClient reader = lab.connect(id);
    reader.send_raw("GET /big?" + std::to_string(k_bytes) + " HTTP/1.1\r\nHost: " + PreviewLab::host(id) +
                    "\r\nConnection: close\r\n\r\n");
    const std::string first = reader.read_raw(4096);
    const auto body_at = first.find("\r\n\r\n");
    REQUIRE(body_at != std::string::npos);
    std::size_t got = first.size() - body_at - 4;
    CHECK(lab.get(id).body == "hello from one");
    long most = lab.resident_kb();
    while (got < k_bytes) {
        const std::string piece = reader.read_raw(std::min<std::size_t>(k_bytes - got, 256UL * 1024));
        got += piece.size();
        CHECK(piece.find_first_not_of('x') == std::string::npos);
        // Others are served meanwhile, which leaves the download the time to run ahead.
        if (got % (4UL * 1024 * 1024) < piece.size())
            CHECK(lab.get(id).body == "hello from one");
        most = std::max(most, lab.resident_kb());
    }
    if (is_full_test())
        CHECK(most < before + k_growth_kb);
    CHECK(reader.closes());
    WebSocketClient socket(lab.connect(id), "/ws");
    const std::string megabyte(1024UL * 1024, 'm');
    for (int i = 0; i < 4; ++i) {
        socket.send_text(megabyte);
        CHECK(socket.next_text() == megabyte);
    }
    socket.send_raw(close_frame_bytes(1000));
    CHECK(socket.next().close_code() == 1000);
    CHECK(socket.http().closes());

    HttpClient waiting = lab.hang(id);
    lab.api().call(204, "DELETE", "/v1/sandboxes/" + id);
    CHECK(waiting.read_response().status == 410);
}

}  // namespace preview_dial_test
