#include <sys/resource.h>

#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr double k_create_budget_ms = 25'000;
constexpr double k_answer_budget_ms = 8'000;
constexpr double k_min_sandboxes = 1'000;

/// For this program's own connections, once the server runs: it has to raise its limit by itself.
void allow_open_files() {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

Result measure_concurrent(std::size_t sandboxes) {
    Result result{.key = "concurrent_sandboxes", .unit = "sandboxes", .target = ">= 1,000"};
    Server server;
    Samples creates;
    std::vector<std::string> requests;
    {
        Connection connection(server.port());
        const auto began = Clock::now();
        while (requests.size() < sandboxes && ms_since(began) < k_create_budget_ms) {
            const auto one = Clock::now();
            requests.push_back(server.message_request(server.create_conversation(connection, "echo")));
            creates.add(ms_since(one));
        }
        result.more["created_in_s"] = ms_since(began) / 1000;
    }
    allow_open_files();
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
    result.reached = *result.value >= k_min_sandboxes;
    const auto stopping = Clock::now();
    server.stop();
    result.more["stopped_in_s"] = ms_since(stopping) / 1000;
    return result;
}

}  // namespace atl::bench
