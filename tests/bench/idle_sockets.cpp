#include "tests/bench/measures.hpp"
#include "tests/bench/memory.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_sockets = 10'000;
constexpr double k_max_kb = 12;

}  // namespace

Result measure_idle_sockets() {
    Result result{.key = "idle_ws_kb", .unit = "KB", .target = "<= 12"};
    const std::size_t count = sized(k_sockets);
    allow_open_files(count + 100);
    const Server server;
    Connection connection(server.port());
    const std::string id = server.create_conversation(connection, "echo");
    const std::string target = "/v1/conversations/" + id + "/ws";
    // Its own costs, and what the first WebSocket loads, are not of one more.
    const WebSocket first(server.port(), target, server.key());
    const double before_kb = rss_kb(server.pid());
    std::vector<WebSocket> sockets;
    for (std::size_t i = 0; i < count; ++i)
        sockets.emplace_back(server.port(), target, server.key());
    result.value = (rss_kb(server.pid()) - before_kb) / static_cast<double>(count);
    result.more["sockets"] = static_cast<double>(count);
    result.reached = *result.value <= k_max_kb;
    // All of them are alive: a turn reaches each.
    sockets.front().send_text(R"({"type":"message","content":"hello"})");
    await_all_done(sockets);
    return result;
}

}  // namespace atl::bench
