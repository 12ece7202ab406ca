// Paused conversations and the requests of their previews: who wakes, who does not, and who pays for it.
#include <catch2/catch_test_macros.hpp>

#include "tests/integration/preview_site.hpp"

namespace preview_wake_test {

using namespace atl::test;

namespace {

struct Lab : PreviewLab {
    using PreviewLab::PreviewLab;

    struct Conversation {
        std::string id;
        std::string sandbox;
    };
    Conversation make(const Json& preview = Json::object()) {
        const Json made = api().create({{"agent", "shell"}, {"preview", preview}});
        return {made["id"], made["sandboxId"]};
    }
    void pause(const Conversation& it, const std::string& mode = "cold") {
        api().call(200, "POST", "/v1/conversations/" + it.id + "/pause", Json{{"mode", mode}}.dump());
    }
    /// After a warm pause: the last visit holds it up for a moment.
    bool freezes(const Conversation& it) {
        const auto end = std::chrono::steady_clock::now() + k_client_deadline;
        Json now = api().get(it.id);
        while (now["sandboxStatus"] == "ready" && std::chrono::steady_clock::now() < end)
            now = api().get(it.id);
        return now["sandboxStatus"] == "frozen";
    }
    std::string status(const Conversation& it) { return api().get(it.id)["status"]; }
    int generation(const Conversation& it) { return api().get(it.id)["generation"]; }
};

const HeaderList k_navigation{{"Accept", "text/html,*/*"}, {"Sec-Fetch-Mode", "navigate"}};

}  // namespace

// Over 5 s: each part has a server and a site of its own.
TEST_CASE("A request wakes the conversation of a preview that says so, once however many ask") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const auto it = lab.make({{"wake", true}});
    lab.serve(it.sandbox, "awake", "generation");
    SECTION("cold") {
        lab.pause(it);
        const int before = lab.generation(it);
        std::vector<HttpClient> visitors;
        for (int i = 0; i < 20; ++i) {
            visitors.push_back(lab.connect(it.sandbox));
            visitors.back().send_raw("GET / HTTP/1.1\r\nHost: " + PreviewLab::host(it.sandbox) + "\r\n\r\n");
        }
        for (HttpClient& visitor : visitors) {
            const HttpResponse answer = visitor.read_response();
            // The site needs a moment to start.
            const std::string what = answer.status == 200 ? answer.body : code_of(answer);
            CHECK((what == "hello from awake" || what == "no_listener"));
        }
        lab.await(it.sandbox, "awake");
        CHECK(lab.generation(it) == before + 1);
    }
    SECTION("warm: what was frozen answers") {
        lab.pause(it, "warm");
        if (!lab.freezes(it))
            SKIP("this host cannot freeze");
        const int before = lab.generation(it);
        CHECK(lab.get(it.sandbox).body == "hello from awake");
        CHECK(lab.generation(it) == before);
    }
    CHECK(lab.status(it) == "active");
}

TEST_CASE("A browser gets a page while a conversation wakes, and then what it asked for") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const auto it = lab.make({{"wake", true}});
    lab.serve(it.sandbox, "awake", "generation");
    lab.pause(it);
    const HttpResponse page = lab.get(it.sandbox, "/", k_navigation);
    if (page.status == 503) {
        CHECK(page.header("content-type").starts_with("text/html"));
        CHECK(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'sha256-"));
        CHECK_FALSE(page.header("x-atoll-preview").empty());
    }
    lab.await(it.sandbox, "awake");
    CHECK(lab.get(it.sandbox, "/", k_navigation).body == "hello from awake");
}

TEST_CASE("Looking ahead, HEAD and the waiting page wake nobody, nor does anything where it is not set") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const auto willing = lab.make({{"wake", true}});
    const auto unwilling = lab.make();
    for (const auto& it : {willing, unwilling})
        lab.pause(it);
    const auto is_paused = [&](const Lab::Conversation& it, const HttpResponse& answer) {
        CHECK(answer.status == 503);
        CHECK(answer.header("x-atoll-preview") == "paused");
        CHECK(lab.status(it) == "paused");
    };
    is_paused(willing, lab.get(willing.sandbox, "/", {}, "HEAD"));
    is_paused(willing, lab.get(willing.sandbox, "/", {{"Sec-Purpose", "prefetch;prerender"}}));
    is_paused(willing, lab.get(willing.sandbox, "/", {{"Purpose", "prefetch"}, {"Accept", "text/html"}}));
    is_paused(unwilling, lab.get(unwilling.sandbox));
    is_paused(unwilling, lab.get(unwilling.sandbox, "/", k_navigation));
    const HttpResponse refused = lab.get(unwilling.sandbox);
    CHECK(code_of(refused) == "paused");
}

TEST_CASE("A frozen preview stays frozen unless it may be woken") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const auto it = lab.make();
    lab.serve(it.sandbox, "awake", "generation");
    lab.pause(it, "warm");
    if (!lab.freezes(it))
        SKIP("this host cannot freeze");
    for (int i = 0; i < 3; ++i)
        CHECK(code_of(lab.get(it.sandbox)) == "paused");
    CHECK(lab.api().get(it.id)["sandboxStatus"] == "frozen");
    lab.api().call(200, "PATCH", "/v1/conversations/" + it.id, R"({"preview":{"wake":true}})");
    CHECK(lab.get(it.sandbox).body == "hello from awake");
}

// [serial]: on a slow host the limits in time are not seen.
TEST_CASE("A conversation is woken in no one's place, once in ten seconds, and so many in a minute",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    SECTION("no room") {
        Lab lab({"--max-sandboxes", "2"});
        const auto sleeper = lab.make({{"wake", true}});
        lab.pause(sleeper);
        const auto active = lab.make();
        const auto frozen = lab.make();
        lab.pause(frozen, "warm");
        const std::string before = lab.api().get(frozen.id)["sandboxStatus"];
        if (before != "frozen")
            SKIP("this host cannot freeze");
        const HttpResponse refused = lab.get(sleeper.sandbox);
        CHECK(refused.status == 503);
        CHECK(code_of(refused) == "capacity");
        CHECK_FALSE(refused.header("retry-after").empty());
        CHECK(lab.status(sleeper) == "paused");
        CHECK(lab.status(active) == "active");
        CHECK(lab.api().get(frozen.id)["sandboxStatus"] == "frozen");
        // A browser sees a page that says so.
        const HttpResponse page = lab.get(sleeper.sandbox, "/", k_navigation);
        CHECK(page.status == 503);
        CHECK(page.header("content-type").starts_with("text/html"));
    }
    SECTION("once in ten seconds") {
        Lab lab;
        const auto it = lab.make({{"wake", true}});
        lab.pause(it);
        CHECK(code_of(lab.get(it.sandbox)) == "no_listener");
        const auto woken = std::chrono::steady_clock::now();
        lab.pause(it);
        const HttpResponse again = lab.get(it.sandbox);
        // Unless this host was as slow as that.
        if (std::chrono::steady_clock::now() - woken < std::chrono::seconds(9)) {
            CHECK(code_of(again) == "paused");
            CHECK_FALSE(again.header("retry-after").empty());
            CHECK(lab.status(it) == "paused");
        }
    }
    SECTION("so many in a minute") {
        Lab lab({"--preview-wakes-per-minute", "1"});
        const auto first = lab.make({{"wake", true}});
        const auto second = lab.make({{"wake", true}});
        lab.pause(first);
        lab.pause(second);
        const auto began = std::chrono::steady_clock::now();
        CHECK(code_of(lab.get(first.sandbox)) == "no_listener");
        const HttpResponse refused = lab.get(second.sandbox);
        if (std::chrono::steady_clock::now() - began < std::chrono::seconds(55)) {
            CHECK(code_of(refused) == "capacity");
            CHECK_FALSE(refused.header("retry-after").empty());
            CHECK(lab.status(second) == "paused");
        }
    }
}

TEST_CASE("A crawler over the public names of paused conversations starts nothing and evicts nobody") {
    if (!is_root())
        SKIP("needs root");
    const std::size_t count = is_full_test() ? 1000 : 100;
    Lab lab({"--max-sandboxes", "3", "--max-conversations", "2000", "--max-conversations-per-user", "2000"});
    std::vector<Lab::Conversation> active{lab.make(), lab.make()};
    std::vector<Lab::Conversation> paused;
    for (std::size_t i = 0; i < count; ++i) {
        paused.push_back(lab.make());
        lab.pause(paused.back());
    }
    active.push_back(lab.make());
    const auto crawl = [&](const std::string& method, const HeaderList& headers) {
        std::size_t refused = 0;
        for (const auto& it : paused)
            refused += lab.get(it.sandbox, "/", headers, method).status == 503 ? 1 : 0;
        CHECK(refused == count);
    };
    crawl("GET", {});
    crawl("GET", k_navigation);
    crawl("HEAD", {});
    for (const auto& it : active) {
        CHECK(lab.status(it) == "active");
        CHECK(lab.generation(it) == 1);
    }
    std::size_t still = 0;
    for (const auto& it : paused)
        still += lab.status(it) == "paused" && lab.generation(it) == 1 ? 1 : 0;
    CHECK(still == count);
}

}  // namespace preview_wake_test
