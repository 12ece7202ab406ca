// Bounds on conversations, on the limits that a key may ask for, and on sandboxes by descriptors.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.hpp"
#include "tests/support/api_client.hpp"

namespace integration_bounds_test {

using namespace atl::test;

namespace {

std::string add_bounded_key(const ServerProcess& server, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"keys", "add"});
    arguments.insert(arguments.end(), {"--data-dir", server.data_dir().string()});
    const RunResult made = run_server(arguments);
    INFO(made.output);
    std::smatch found;
    REQUIRE(made.status == 0);
    REQUIRE(std::regex_search(made.output, found, std::regex("\n(atoll_[a-z0-9]{60})\n")));
    return found[1];
}

HttpClient bounded_client(const ServerProcess& server, const std::string& key) {
    return HttpClient("127.0.0.1:" + std::to_string(server.port()), {{"Authorization", "Bearer " + key}});
}

void check_refusal(const HttpResponse& response, int status, const std::string& code) {
    INFO(response.body);
    CHECK(response.status == status);
    CHECK(Json::parse(response.body)["code"] == code);
}

/// The names of the server's descriptors, without the numbers that tell two of a kind apart.
std::multiset<std::string> descriptors_of(pid_t pid) {
    std::multiset<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
        std::error_code was_closed;
        const std::string name = std::filesystem::read_symlink(entry.path(), was_closed);
        all.insert(std::regex_replace(name, std::regex(":\\[[0-9]+\\]$"), ""));
    }
    return all;
}

/// How many groups the server holds that it made ahead, and how many in all. Those have numbers for names.
std::pair<std::size_t, std::size_t> groups_among(const std::multiset<std::string>& descriptors) {
    std::set<std::string> names;
    std::smatch found;
    for (const std::string& name : descriptors) {
        if (std::regex_search(name, found, std::regex("/atoll-[a-z0-9]{20}/([^/]+)")))
            names.insert(found[1]);
    }
    const auto numbers = std::count_if(names.begin(), names.end(), [](const std::string& name) {
        return name.find('-') == std::string::npos;
    });
    return {static_cast<std::size_t>(numbers), names.size()};
}

/// The descriptors once all groups are there that the server makes ahead where it needs them: it makes each
/// some milliseconds after a start has taken one, and a start that took one shows that it needs them.
std::multiset<std::string> descriptors_at_rest(ApiClient& api, pid_t pid, std::size_t sandboxes) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (true) {
        std::multiset<std::string> all = descriptors_of(pid);
        const auto [numbers, groups] = groups_among(all);
        if (numbers == 0 || groups == sandboxes + atl::base::k_groups_made_ahead)
            return all;
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        api.call(200, "GET", "/v1/system");
    }
}

}  // namespace

TEST_CASE("Conversations are bounded in all and by user, also after a restart") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path() / "data";
    std::filesystem::create_directory(options.data_dir);
    options.arguments = {"--max-conversations", "4", "--max-conversations-per-user", "2"};
    std::string first;
    {
        ServerProcess server(options);
        ApiClient api(server);
        first = api.create({{"agent", "echo"}, {"userId", "ann"}})["id"];
        api.create({{"agent", "echo"}, {"userId", "ann"}});
        HttpClient ann = bounded_client(server, add_bounded_key(server, {"web", "--user-id", "ann"}));
        const auto refused = ann.request("POST", "/v1/conversations", R"({"agent":"echo"})");
        check_refusal(refused, 429, "too_many_conversations");
        CHECK_FALSE(refused.header("retry-after").empty());
        api.create({{"agent", "echo"}, {"userId", "ben"}});
        api.call(201, "POST", "/v1/sandboxes", "{}");
        check_refusal(api.http().request("POST", "/v1/conversations", "{}"), 503, "capacity");
        check_refusal(api.http().request("POST", "/v1/sandboxes", "{}"), 503, "capacity");
        const Json capacity = api.call(200, "GET", "/v1/system")["capacity"];
        CHECK(capacity["conversations"] == 4);
        CHECK(capacity["maxConversations"] == 4);
        CHECK(capacity["maxConversationsPerUser"] == 2);
        server.kill_hard();
    }
    const ServerProcess server(options);
    ApiClient api(server);
    check_refusal(api.http().request("POST", "/v1/conversations", "{}"), 503, "capacity");
    api.remove(first);
    api.create({{"agent", "echo"}, {"userId", "ann"}});
}

TEST_CASE("A conversation whose time is over is told for --keep-ended and then gone from the disk, too") {
    ServerOptions options;
    options.arguments = {"--keep-ended", "4", "--max-conversations", "1"};
    const ServerProcess server(options);
    ApiClient api(server);
    const std::string id = api.create({{"agent", "echo"}, {"ttlSeconds", 1}})["id"];
    api.await_status(id, "ended");
    CHECK_FALSE(api.events(id).empty());
    // It counts no more.
    const std::string next = api.create({{"agent", "echo"}})["id"];
    HttpClient client = api.connect();
    client.open_stream("GET", "/v1/conversations/" + id + "/events?after=0", "",
                       {{"Accept", "text/event-stream"}});
    // The stream ends when it is forgotten.
    while (client.next_event()) {
    }
    check_refusal(api.http().request("GET", "/v1/conversations/" + id), 404, "not_found");
    CHECK(api.get(next)["status"] == "active");
}

TEST_CASE("A key asks for no limit above its ceiling, and a user's key never for the host's network") {
    ServerOptions options;
    options.arguments = {"--allow-host-network", "--max-disk-mb-per-sandbox", "5000"};
    const ServerProcess server(options);
    ApiClient api(server);
    HttpClient user = bounded_client(server, add_bounded_key(server, {"web", "--user-id", "ann"}));
    HttpClient small = bounded_client(
        server, add_bounded_key(server, {"web", "--user-id", "ben", "--max-memory-mb", "256"}));
    HttpClient plain = bounded_client(server, add_bounded_key(server, {"ops"}));
    const auto create = [](HttpClient& client, const std::string& body) {
        return client.request("POST", "/v1/conversations", body);
    };
    // The same is allowed to a key that nothing holds.
    const std::string huge = R"({"agent":"echo","limits":{"memoryMb":1048576}})";
    CHECK(create(plain, huge).status == 201);
    check_refusal(create(user, huge), 403, "limit_not_allowed");
    check_refusal(create(small, R"({"agent":"echo","limits":{"memoryMb":257}})"), 403, "limit_not_allowed");
    check_refusal(create(plain, R"({"agent":"echo","limits":{"diskMb":5001}})"), 403, "limit_not_allowed");
    const auto made = create(small, R"({"agent":"echo"})");
    REQUIRE(made.status == 201);
    const Json conversation = Json::parse(made.body);
    CHECK(conversation["limits"]["memoryMb"] == 256);
    const std::string target = "/v1/conversations/" + conversation["id"].get<std::string>();
    check_refusal(small.request("PATCH", target, R"({"limits":{"memoryMb":300}})"), 403, "limit_not_allowed");
    // The operator may give more than the key may ask for; the key keeps it.
    api.call(200, "PATCH", target, R"({"limits":{"memoryMb":300}})");
    const auto changed = small.request("PATCH", target, R"({"limits":{"maxProcesses":50}})");
    CHECK(changed.status == 200);
    CHECK(Json::parse(changed.body)["limits"]["memoryMb"] == 300);
    CHECK(Json::parse(small.request("GET", "/v1/system").body)["limitCeilings"]["memoryMb"] == 256);
    // A run of code mode, too.
    check_refusal(small.request("POST", "/v1/execute", R"({"code":"return 1","memoryMb":257})"), 403,
                  "limit_not_allowed");
    CHECK(api.call(200, "GET", "/v1/system")["limitCeilings"]["memoryMb"].is_null());

    const std::string host = R"({"agent":"echo","network":"host"})";
    check_refusal(create(user, host), 403, "network_not_allowed");
    CHECK(create(plain, host).status == 201);
}

TEST_CASE("A living sandbox takes no more descriptors of the server than are reckoned") {
    const ServerProcess server;
    ApiClient api(server);
    const auto live = [&](const std::string& agent) {
        const std::string id = api.create({{"agent", agent}})["id"];
        api.message(id, "true");
    };
    live("shell");
    const auto before = descriptors_at_rest(api, server.pid(), 1);
    constexpr std::size_t k_count = 8;
    for (std::size_t at = 0; at < k_count; ++at)
        live("shell");
    const auto after = descriptors_at_rest(api, server.pid(), 1 + k_count);
    const std::size_t each = (after.size() - before.size() + k_count - 1) / k_count;
    std::vector<std::string> more;
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(more));
    CAPTURE(more);
    CHECK(each >= 2);
    CHECK(each <= atl::base::k_descriptors_per_sandbox);
}

TEST_CASE("With few descriptors the server takes fewer sandboxes than asked for, and says so") {
    if (!is_root())
        SKIP("needs root to raise its own limit again");
    ServerOptions options;
    options.environment = {{"ATOLL_TEST_DESCRIPTORS", "512"}};
    options.arguments = {"--max-sandboxes", "1000"};
    const ServerProcess server(options);
    ApiClient api(server);
    const std::size_t most = api.call(200, "GET", "/v1/system")["capacity"]["maxSandboxes"];
    CHECK(most == (512 - 512 / 8 * 5 - atl::base::k_own_descriptors) / atl::base::k_descriptors_per_sandbox);
    CHECK(server.log().find("evt=sandboxes_bounded") != std::string::npos);
    CHECK(server.log().find("asked=1000") != std::string::npos);
    // That many really live, each with a turn, and the next is refused and not failed.
    for (std::size_t at = 0; at < most; ++at)
        CHECK(api.message(api.create()["id"], "echo hi").output == "hi\n");
    check_refusal(api.http().request("POST", "/v1/conversations", "{}"), 503, "capacity");
}

}  // namespace integration_bounds_test
