// kill -9 of the server while conversations stream: no process survives the next start, and a client that
// reconnects with its last number gets every event that it had not seen, once.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <random>
#include <thread>

#include "tests/support/api_client.hpp"

using namespace atl::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t k_conversations = 20;
constexpr int k_rounds = 5;
// Counts up, a number a line, in bursts that overlap whatever the server is doing.
constexpr const char* k_counter = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); echo $i; done";

/// A client that follows one conversation for good and checks what it is told.
struct Follower {
    std::string id;
    std::uint64_t seen = 0;
    std::string partial;        // of a line that an event cut
    std::uint64_t counted = 0;  // the last whole number of the open turn
    std::string fault;

    void take(const Json& event) {
        if (event["seq"] != ++seen)
            fault = "event " + event["seq"].dump() + " came after " + std::to_string(seen - 1);
        if (event["type"] == "done") {
            ++dones;
            counted = 0;
            partial.clear();
        }
        if (event["type"] != "text_delta")
            return;
        partial += event["data"]["delta"].get<std::string>();
        for (std::size_t end = partial.find('\n'); end != std::string::npos; end = partial.find('\n')) {
            if (partial.substr(0, end) != std::to_string(++counted))
                fault = "read " + partial.substr(0, end) + " where " + std::to_string(counted) + " was due";
            partial.erase(0, end + 1);
        }
    }

    /// Reads until the connection ends or `until` events more were seen.
    void follow(const ApiClient& api, std::uint64_t until) {
        HttpClient client = api.connect();
        try {
            client.open_stream("GET", "/v1/conversations/" + id + "/events", "",
                               {{"Accept", "text/event-stream"}, {"Last-Event-ID", std::to_string(seen)}});
            for (const std::uint64_t end = seen + until; seen < end && fault.empty();) {
                const auto event = client.next_event();
                if (!event)
                    return;
                take(Json::parse(event->data));
            }
        } catch (const std::runtime_error&) {
            // The server was killed under it.
        }
    }

    int dones = 0;
};

}  // namespace

TEST_CASE("No event is lost or doubled and no process is left by the next start when the server is killed") {
    const TempDir data;
    std::vector<Follower> followers(k_conversations);
    std::mt19937 random(20240229);
    std::vector<atl::base::UniqueFd> killed;
    for (int round = 0; round < k_rounds; ++round) {
        INFO("round " << round);
        ServerOptions options;
        options.data_dir = data.path();
        ServerProcess server(options);
        ApiClient api(server);
        // A sandbox that was just being made may wait for its bwrap for ever (core/isolation/README.md): this
        // start has ended it.
        CHECK(await_gone(killed, 10s));
        for (auto& follower : followers) {
            if (follower.id.empty())
                follower.id = api.create()["id"];
            const Json now = api.get(follower.id);
            CHECK(now["status"] == (round == 0 ? "active" : "paused"));
            if (round > 0)
                CHECK(now["statusReason"] == "server_restart");
            api.call(202, "POST", "/v1/conversations/" + follower.id + "/messages",
                     Json{{"content", k_counter}}.dump());
        }
        std::vector<std::thread> threads;
        for (auto& follower : followers)
            threads.emplace_back([&] { follower.follow(api, 1'000'000); });
        // The first follower decides when: after so many events of its own, once all sandboxes are there.
        Follower clockwork;
        clockwork.id = followers[0].id;
        clockwork.follow(api, 20 + random() % 200);
        std::vector<pid_t> below = descendants(server.pid());
        for (int i = 0; below.size() < 2 * k_conversations && i < 1000; ++i) {
            clockwork.follow(api, 1);
            below = descendants(server.pid());
        }
        CHECK(below.size() >= 2 * k_conversations);
        killed = open_pidfds(below);
        server.kill_hard();
        for (auto& thread : threads)
            thread.join();
    }
    ServerOptions options;
    options.data_dir = data.path();
    ServerProcess server(options);
    ApiClient api(server);
    CHECK(await_gone(killed, 10s));
    for (auto& follower : followers) {
        INFO(follower.id);
        const auto last = api.get(follower.id)["lastSeq"].get<std::uint64_t>();
        follower.follow(api, last - follower.seen);
        CHECK(follower.fault == "");
        CHECK(follower.seen == last);
        CHECK(follower.dones == k_rounds);
        CHECK(api.message(follower.id, "echo alive").output == "alive\n");
    }
}
