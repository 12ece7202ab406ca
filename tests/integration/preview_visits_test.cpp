// The effect of a preview's visits on its conversation: it stays awake for them, and only for them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/integration/preview_site.hpp"
#include "tests/support/websocket_client.hpp"

namespace preview_visits_test {

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int k_idle_seconds = 2;

struct Visited {
    explicit Visited(const Json& more = Json::object()) {
        Json request{{"agent", "shell"}};
        request.update(more);
        const Json made = lab.api().create(request);
        id = made["id"];
        sandbox = made["sandboxId"];
        visited = Clock::now();
        lab.serve(sandbox, "one");
    }
    /// Once everything is there that visits need, however long that takes.
    void begin_idle() {
        lab.api().call(200, "PATCH", "/v1/conversations/" + id, Json{{"idleSeconds", k_idle_seconds}}.dump());
    }
    std::string status() { return lab.api().get(id)["status"]; }
    /// `visit`, which tells whether it was served, is repeated for twice the idle time; true if the
    /// conversation is active all the while. A host so slow that the idle time passes between two visits says
    /// nothing.
    template <class Visit>
    bool stays_active(Visit visit) {
        const auto idle = std::chrono::seconds(k_idle_seconds);
        for (const auto end = Clock::now() + 2 * idle; Clock::now() < end;) {
            const auto before = Clock::now();
            bool is_served = false;
            try {
                is_served = visit();
            } catch (const std::runtime_error&) {
                // A tunnel to a sandbox that stands still does not answer.
            }
            if (status() != "active")
                return Clock::now() - visited >= idle;
            if (!is_served)
                return false;
            visited = before;
        }
        return true;
    }

    PreviewLab lab;
    std::string id;
    std::string sandbox;
    Clock::time_point visited;  // no later than the last visit was seen
};

}  // namespace

// Over 5 s: each of six parts takes three times the idle time, and a server and a site of its own.
TEST_CASE("A conversation whose preview is visited is not idle; without visits it is paused") {
    if (!is_root())
        SKIP("needs root");
    Visited it;
    SECTION("requests") {
        it.begin_idle();
        CHECK(it.stays_active([&] { return it.lab.get(it.sandbox).body == "hello from one"; }));
    }
    SECTION("a tunnel") {
        WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
        it.begin_idle();
        CHECK(it.stays_active([&] {
            socket.send_text("still there");
            return socket.next_text() == "still there";
        }));
    }
    SECTION("a tunnel that is silent is no visit") {
        const WebSocketClient socket(it.lab.connect(it.sandbox), "/ws");
        it.begin_idle();
        CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
    }
    SECTION("a request that waits for its answer, until its visitor leaves") {
        const HttpClient waiting = it.lab.hang(it.sandbox);
        it.begin_idle();
        CHECK(it.stays_active([] { return true; }));
    }
    SECTION("nor is a request that only looks whether somebody answers, and waits") {
        HttpClient waiting = it.lab.hang(it.sandbox, "HEAD");
        it.begin_idle();
        CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
        CHECK(waiting.read_response(HttpClient::Body::none).status == 503);
    }
    SECTION("nor is a request that only looks whether somebody answers") {
        // Requests that come while the sandbox stands still, or begins to, are answered, too.
        HttpClient client = it.lab.connect(it.sandbox);
        it.begin_idle();
        const auto begun = Clock::now();
        while (it.status() == "active" && Clock::now() - begun < k_client_deadline) {
            client.send_raw("HEAD / HTTP/1.1\r\nHost: " + PreviewLab::host(it.sandbox) +
                            "\r\nConnection: close\r\n\r\n");
            CHECK_FALSE(client.read_until_close().empty());
            client = it.lab.connect(it.sandbox);
        }
    }
    CHECK(it.lab.api().await_status(it.id, "paused")["statusReason"] == "idle");
}

// Over 5 s: two parts, each with a server and a site of its own.
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
    const auto until = Clock::now() + k_client_deadline;
    while (now["sandboxStatus"] == "ready" && Clock::now() < until)
        now = it.lab.api().get(it.id);
    if (now["sandboxStatus"] == "frozen") {
        // A tunnel stands still, and goes on.
        it.lab.api().call(200, "POST", "/v1/conversations/" + it.id + "/resume");
        socket.send_text("hello");
        CHECK(socket.next_text() == "hello");
    } else {
        CHECK(socket.http().closes());
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

// Over 5 s: two parts, each with a server and a site of its own; one looks for 2 s whether it stays frozen.
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
    const auto begun = Clock::now();
    while (it.lab.api().get(it.id)["sandboxStatus"] != "frozen") {
        REQUIRE(Clock::now() - begun < k_client_deadline);
        // A visitor who goes on does not hold it up.
        if (!wakes)
            socket.send_text("still there");
    }
    if (wakes) {
        socket.send_text("wake up");
        CHECK(socket.next_text() == "wake up");
        CHECK(it.status() == "active");
    } else {
        const auto frozen = Clock::now();
        while (Clock::now() - frozen < 2s) {
            socket.send_text("still there");
            REQUIRE(it.lab.api().get(it.id)["sandboxStatus"] == "frozen");
        }
    }
}

}  // namespace preview_visits_test
