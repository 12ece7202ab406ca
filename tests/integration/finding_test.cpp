// Lists that find, and the removal of all that is kept of a user.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>

#include "tests/integration/route_walk.hpp"

namespace finding_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

std::set<std::string> found(ApiClient& api, const std::string& query) {
    std::set<std::string> ids;
    std::string cursor;
    do {
        const Json page = api.call(
            200, "GET", "/v1/conversations?limit=2&" + query + (cursor.empty() ? "" : "&cursor=" + cursor));
        for (const Json& one : page["conversations"])
            CHECK(ids.insert(one["id"].get<std::string>()).second);
        cursor = page["next"].is_null() ? "" : page["next"].get<std::string>();
    } while (!cursor.empty());
    return ids;
}

/// Each helper, so the one that reads from the database, too.
void kill_helpers(const ServerProcess& server) {
    std::size_t killed = 0;
    for (const pid_t pid : descendants(server.pid())) {
        std::error_code ignored;
        const auto program =
            std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", ignored).filename();
        if (program == "atoll-helper" && ::kill(pid, SIGKILL) == 0)
            ++killed;
    }
    REQUIRE(killed == 5);
}

/// Pauses a conversation, and waits until it is a row of the database and nothing else.
void put_away(ApiClient& api, const std::string& id) {
    api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (api.http().request("GET", "/metrics").body.find("\natoll_conversations_loaded 0\n") ==
           std::string::npos)
        REQUIRE(std::chrono::steady_clock::now() < until);
}

}  // namespace

TEST_CASE("Conversations are found by metadata, agent, status, sandbox and time, alone and together") {
    const ServerProcess server;
    ApiClient api(server);
    const Json first = api.create(
        {{"agent", "echo"}, {"metadata", {{"team", "a"}, {"ticket", 17}, {"open", true}, {"a.b", "dot"}}}});
    const Json second = api.create({{"metadata", {{"team", "a"}, {"ticket", "17"}}}, {"userId", "eve"}});
    const Json third = api.create({{"metadata", {{"team", "b"}}}, {"userId", "eve"}});
    const std::string one = first["id"], two = second["id"], three = third["id"];
    using Ids = std::set<std::string>;
    CHECK(found(api, "metadata.team=a") == Ids{one, two});
    CHECK(found(api, "metadata.ticket=17") == Ids{one, two});
    CHECK(found(api, "metadata.open=true&metadata.team=a") == Ids{one});
    CHECK(found(api, "metadata.a.b=dot") == Ids{one});
    CHECK(found(api, "metadata.team=a&agent=shell") == Ids{two});
    CHECK(found(api, "agent=echo") == Ids{one});
    CHECK(found(api, "userId=eve&metadata.team=b") == Ids{three});
    CHECK(found(api, "sandboxId=" + second["sandboxId"].get<std::string>()) == Ids{two});
    CHECK(found(api, "sandboxId=none").empty());
    CHECK(found(api, "createdAfter=" + second["createdAt"].get<std::string>()) == Ids{two, three});
    CHECK(found(api, "createdBefore=" + second["createdAt"].get<std::string>()) == Ids{one});
    CHECK(found(api, "createdAfter=" + second["createdAt"].get<std::string>() +
                         "&createdBefore=" + third["createdAt"].get<std::string>()) == Ids{two});

    // A changed conversation is found as it is now: at once, and after a pause, in the store.
    for (const bool is_stored : {false, true}) {
        api.call(200, "PATCH", "/v1/conversations/" + three, R"({"metadata":{"team":"c","x":null}})");
        if (is_stored)
            api.call(200, "POST", "/v1/conversations/" + three + "/pause");
        CHECK(found(api, "metadata.team=b").empty());
        CHECK(found(api, "metadata.team=c") == Ids{three});
        CHECK(found(api, "status=paused") == (is_stored ? Ids{three} : Ids{}));
        CHECK(found(api, "status=active&metadata.team=c") == (is_stored ? Ids{} : Ids{three}));
    }
    api.message(one, "hi");
    const std::string active = api.get(one)["lastActiveAt"];
    CHECK(found(api, "activeAfter=" + active) == Ids{one});
    CHECK(found(api, "activeBefore=" + active) == Ids{two, three});
    CHECK(found(api, "activeAfter=2100-01-01T00:00:00Z").empty());
    CHECK(found(api, "activeAfter=2020-01-01T00:00:00%2B01:00").size() == 3);

    // The newest first, and the oldest if that is asked for.
    CHECK(api.call(200, "GET", "/v1/conversations?agent=shell")["conversations"][0]["id"] == three);
    CHECK(api.call(200, "GET", "/v1/conversations?agent=shell&order=oldest")["conversations"][0]["id"] ==
          two);
    api.remove(three);
    CHECK(found(api, "metadata.team=c").empty());
}

TEST_CASE("Filters that mean nothing are refused by name") {
    const ServerProcess server;
    ApiClient api(server);
    for (const auto& [query, code] : std::vector<std::pair<std::string, std::string>>{
             {"metadata.=x", "unknown_field"},
             {"metadata=x", "unknown_field"},
             {"metdata.team=x", "unknown_field"},
             {"metadata.a=1&metadata.a=2", "invalid_request"},
             {"metadata.a=" + std::string(257, 'x'), "invalid_field"},
             {"metadata." + std::string(257, 'x') + "=x", "invalid_field"},
             {"metadata.1=x&metadata.2=x&metadata.3=x&metadata.4=x&metadata.5=x&metadata.6=x&metadata.7=x&"
              "metadata.8=x&metadata.9=x",
              "invalid_field"},
             {"createdAfter=yesterday", "invalid_field"},
             {"createdAfter=2026-02-30T00:00:00Z", "invalid_field"},
             {"activeBefore=2026-01-31", "invalid_field"},
             {"cursor=1", "invalid_request"},
             {"cursor=1-0", "invalid_request"},
             {"cursor=1--1", "invalid_request"},
             {"order=random", "invalid_field"}}) {
        INFO(query);
        const auto refused = api.http().request("GET", "/v1/conversations?" + query);
        CHECK(refused.status >= 400);
        CHECK(code_of(refused) == code);
    }
}

TEST_CASE("Lists survive the death of the helper that reads them") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"metadata", {{"team", "a"}}}})["id"];
    CHECK(found(api, "metadata.team=a") == std::set{id});
    kill_helpers(server);
    CHECK(found(api, "metadata.team=a") == std::set{id});
    api.remove(id);
}

// Each of the three times it takes a second until the conversation has left the memory.
TEST_CASE(
    "A paused conversation goes on with its next turn, also when the helper that reads its turns died") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}})["id"];
    const auto turn_of = [&](const std::string& content) {
        return api.message(id, content).events.back()["turn"];
    };
    CHECK(turn_of("one") == "t1");
    put_away(api, id);
    const std::uint64_t before = api.get(id)["lastSeq"];
    CHECK(api.call(200, "POST", "/v1/conversations/" + id + "/resume")["lastSeq"] > before);
    CHECK(turn_of("two") == "t2");
    put_away(api, id);
    kill_helpers(server);
    CHECK(turn_of("three") == "t3");
    put_away(api, id);
    api.remove(id);
    CHECK(api.http().request("GET", "/v1/conversations/" + id).status == 404);
}

TEST_CASE("A user is erased with one request, also by that user's own key") {
    const ServerProcess server;
    ApiClient api(server);
    const Json ended = api.create({{"userId", "eve"}, {"ttlSeconds", 1}});
    const std::string running = api.create({{"userId", "eve"}})["id"];
    const std::string kept = api.create({{"userId", "adam"}})["id"];
    api.call(201, "POST", "/v1/sandboxes", R"({"userId":"eve"})");
    api.call(202, "POST", "/v1/conversations/" + running + "/messages", R"({"content":"sleep 1000"})");
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (api.get(ended["id"])["status"] != "ended")
        REQUIRE(std::chrono::steady_clock::now() < until);

    CHECK(code_of(api.http().request("DELETE", "/v1/conversations")) == "invalid_field");
    CHECK(code_of(api.http().request("DELETE", "/v1/conversations?userId=")) == "invalid_field");
    const std::string alien = add_key(server, {"a", "--user-id", "adam"}).secret;
    const auto refused = client_with(server, alien).request("DELETE", "/v1/conversations?userId=eve");
    CHECK(refused.status == 403);
    CHECK(code_of(refused) == "user_not_allowed");
    CHECK(found(api, "userId=eve").size() == 2);

    const std::string own = add_key(server, {"b", "--user-id", "eve"}).secret;
    const auto erased = client_with(server, own).request("DELETE", "/v1/conversations?userId=eve");
    REQUIRE(erased.status == 200);
    CHECK(Json::parse(erased.body) == Json{{"conversations", 2}, {"sandboxes", 1}});
    CHECK(found(api, "userId=eve").empty());
    CHECK(api.call(200, "GET", "/v1/sandboxes?userId=eve")["sandboxes"].empty());
    CHECK(found(api, "") == std::set{kept});
    CHECK(api.call(200, "DELETE", "/v1/conversations?userId=eve") ==
          Json{{"conversations", 0}, {"sandboxes", 0}});
    CHECK_FALSE(
        std::filesystem::exists(server.data_dir() / "workspaces" / ended["sandboxId"].get<std::string>()));
}

}  // namespace finding_test
