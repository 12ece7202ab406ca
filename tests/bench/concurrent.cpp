#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr double k_create_budget_ms = 32'000;
constexpr double k_answer_budget_ms = 6'000;
constexpr std::size_t k_creators = 2;
constexpr double k_min_sandboxes = 1'000;

/// How many the server lets live, as many as it has descriptors for.
std::size_t most_of(const Server& server) {
    Connection connection(server.port());
    const Response response = connection.exchange(server.request("GET", "/v1/system"));
    return nlohmann::json::parse(response.body).at("capacity").at("maxSandboxes");
}

/// Creates conversations, two at a time: one for each processor of the machine that the target names.
void create(const Server& server, std::size_t count, std::vector<std::string>& messages, Samples& creates) {
    std::vector<Connection> connections;
    for (std::size_t i = 0; i < k_creators; ++i)
        connections.emplace_back(server.port());
    const std::vector<std::string> first(k_creators,
                                         server.request("POST", "/v1/conversations", R"({"agent":"echo"})"));
    const auto began = Clock::now();
    std::size_t asked = k_creators;
    const auto on_response = [&](std::size_t index, const Connection& connection) -> std::string_view {
        creates.add(connection.ms());
        const std::string id =
            Server::created_id(connection.response().status(), connection.response().body());
        messages.push_back(server.message_request(id));
        if (asked >= count || ms_since(began) > k_create_budget_ms)
            return {};
        ++asked;
        return first[index];
    };
    drive(connections, first, on_response,
          began + std::chrono::milliseconds(static_cast<int>(k_create_budget_ms) + 5'000));
}

}  // namespace

Result measure_concurrent(std::size_t sandboxes) {
    Result result{
        .key = "concurrent_sandboxes", .unit = "sandboxes", .target = ">= 1,000", .better = Better::higher};
    Server server({"--user-share", "100"});
    const std::size_t most = most_of(server);
    const std::size_t count = std::min(sized(sandboxes), most);
    Samples creates;
    std::vector<std::string> requests;
    const auto creating = Clock::now();
    create(server, count, requests, creates);
    result.more["created_in_s"] = ms_since(creating) / 1000;
    // Only now: the server has to raise its limit by itself.
    allow_open_files(count + 100);
    // A message to each of them at the same time, on a connection of its own.
    std::vector<Connection> connections;
    for (std::size_t i = 0; i < requests.size(); ++i)
        connections.emplace_back(server.port());
    std::size_t answered = 0;
    const auto began = Clock::now();
    const auto on_response = [&](std::size_t, const Connection& connection) -> std::string_view {
        Server::check_turn(connection.response().status(), connection.response().body());
        ++answered;
        return {};
    };
    drive(connections, requests, on_response,
          began + std::chrono::milliseconds(static_cast<int>(k_answer_budget_ms)));
    result.more["answered_in_s"] = ms_since(began) / 1000;
    result.value = static_cast<double>(answered);
    result.more["create_p50_ms"] = creates.p50();
    result.more["create_p95_ms"] = creates.p95();
    result.more["server_max"] = static_cast<double>(most);
    // A host that gives the server too few descriptors is no fault of the server.
    if (most >= k_min_sandboxes)
        result.reached = *result.value >= k_min_sandboxes;
    const auto stopping = Clock::now();
    server.stop();
    result.more["stopped_in_s"] = ms_since(stopping) / 1000;
    return result;
}

}  // namespace atl::bench
