// What visits of a preview mean to its conversation: it stays awake for them, and only for them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/integration/preview_site.hpp"
#include "tests/support/websocket_client.hpp"

namespace preview_visits_test {

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

// Longer than anything that is done here takes on a slow machine.
constexpr int k_idle_seconds = 4;

struct Visited {
    explicit Visited(const Json& more = Json::object()) {
        Json request{{"agent", "shell"}};
        request.update(more);
        request.erase("idleSeconds");
        const Json made = lab.api().create(request);
        id = made["id"];
        sandbox = made["sandboxId"];
        lab.serve(sandbox, "one");
        // Until it serves nobody can visit it.
        if (more.contains("idleSeconds"))
            lab.api().call(200, "PATCH", "/v1/conversations/" + id,
                           Json{{"idleSeconds", more["idleSeconds"]}}.dump());
    }
    std::string status() { return lab.api().get(id)["status"]; }
    /// `visit` is repeated for twice the idle time; true if the conversation is active all the while. A host
    /// so slow that the idle time passes between two visits says nothing.
    template <class Visit>
    bool stays_active(Visit visit) {
        const auto idle = std::chrono::seconds(k_idle_seconds);
        const auto end = std::chrono::steady_clock::now() + 2 * idle;
        while (std::chrono::steady_clock::now() < end) {
            const auto before = std::chrono::steady_clock::now();
            visit();
            if (status() != "active")
                return std::chrono::steady_clock::now() - before >= idle;
        }
        return true;
    }

    PreviewLab lab;
    std::string id;
    std::string sandbox;
};

}  // namespace

TEST_CASE("A conversation whose preview is visited is not idle; without visits it is paused") {
    if (!is_root())
        SKIP("needs root");
    Visited it(Json{{"idleSeconds", k_idle_seconds}});
    SECTION("requests") {
        CHECK(it.stays_active([&] { CHECK(it.lab.get(it.sandbox).body == "hello from one"); }));
    }
    SECTION("a tunnel") {
        WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
        CHECK(it.stays_active([&] {
            socket.send_text("still there");
            CHECK(socket.next_text() == "still there");
        }));
    }
    SECTION("a tunnel that is silent is no visit") {
        WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
        CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
    }
    SECTION("a request that waits for its answer, until its visitor leaves") {
        const HttpClient waiting = it.lab.hang(it.sandbox);
        CHECK(it.stays_active([] {}));
    }
    SECTION("nor is a request that only looks whether somebody answers, and waits") {
        HttpClient waiting = it.lab.hang(it.sandbox, "HEAD");
        CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
        CHECK(waiting.read_response(HttpClient::Body::none).status == 503);
    }
    SECTION("nor is a request that only looks whether somebody answers") {
        // Those that come while the sandbox stands still, or begins to, are answered, too.
        HttpClient client = it.lab.connect(it.sandbox);
        const auto begun = std::chrono::steady_clock::now();
        while (it.status() == "active" && std::chrono::steady_clock::now() - begun < 60s) {
            client.send_raw("HEAD / HTTP/1.1\r\nHost: " + PreviewLab::host(it.sandbox) +
                            "\r\nConnection: close\r\n\r\n");
            CHECK_FALSE(client.read_until_close().empty());
            client = it.lab.connect(it.sandbox);
        }
    }
    CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
}

TEST_CASE("A request that waits for its answer is answered when its conversation is paused") {
    if (!is_root())
        SKIP("needs root");
    const std::string mode = GENERATE("warm", "cold");
    CAPTURE(mode);
    Visited it;
    HttpClient page = it.lab.hang(it.sandbox);
    HttpClient look = it.lab.hang(it.sandbox, "HEAD");
    WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
    it.lab.api().call(200, "POST", "/v1/conversations/" + it.id + "/pause", Json{{"mode", mode}}.dump());
    const HttpResponse told = page.read_response();
    CHECK(told.status == 503);
    CHECK(code_of(told) == "paused");
    CHECK(look.read_response(HttpClient::Body::none).status == 503);
    // The answer comes as soon as it begins to be frozen.
    Json now = it.lab.api().get(it.id);
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (now["sandboxStatus"] == "ready" && std::chrono::steady_clock::now() < until)
        now = it.lab.api().get(it.id);
    if (now["sandboxStatus"] == "frozen") {
        // A tunnel stands still, and goes on.
        it.lab.api().call(200, "POST", "/v1/conversations/" + it.id + "/resume");
        socket.send_text("hello");
        CHECK(socket.next_text() == "hello");
    } else {
        CHECK(socket.http().closes(30s));
    }
}

TEST_CASE("A request that waits for its answer is answered when its sandbox is deleted") {
    if (!is_root())
        SKIP("needs root");
    PreviewLab lab;
    const std::string id = lab.make_sandbox();
    lab.serve(id, "one");
    HttpClient waiting = lab.hang(id);
    lab.api().call(204, "DELETE", "/v1/sandboxes/" + id);
    const HttpResponse told = waiting.read_response();
    CHECK(told.status == 410);
    CHECK(code_of(told) == "preview_ended");
}

TEST_CASE("What is sent through a tunnel to a frozen sandbox wakes it where its preview says so") {
    if (!is_root())
        SKIP("needs root");
    const bool wakes = GENERATE(true, false);
    CAPTURE(wakes);
    Visited it(Json{{"preview", {{"wake", wakes}}}});
    WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
    socket.send_text("hello");
    CHECK(socket.next_text() == "hello");
    it.lab.api().call(200, "POST", "/v1/conversations/" + it.id + "/pause", R"({"mode":"warm"})");
    const auto begun = std::chrono::steady_clock::now();
    while (it.lab.api().get(it.id)["sandboxStatus"] != "frozen") {
        REQUIRE(std::chrono::steady_clock::now() - begun < 30s);
        // A visitor who goes on does not hold it up.
        if (!wakes)
            socket.send_text("still there");
    }
    if (wakes) {
        socket.send_text("wake up");
        CHECK(socket.next_text(60s) == "wake up");
        CHECK(it.status() == "active");
    } else {
        const auto frozen = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - frozen < 5s) {
            socket.send_text("still there");
            REQUIRE(it.lab.api().get(it.id)["sandboxStatus"] == "frozen");
        }
    }
}

}  // namespace preview_visits_test
