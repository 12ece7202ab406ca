#include <nlohmann/json.hpp>
#include <optional>

#include "tests/bench/child.hpp"
#include "tests/bench/event_server.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/shared.hpp"
#include "tests/bench/sleeper.hpp"

namespace atl::bench {
namespace {

constexpr double k_run_ms = 20'000;
constexpr std::size_t k_log_events = 175'000;  // about 60 MB
constexpr std::size_t k_stream_events = 50'000;
constexpr std::size_t k_subscribers = 1000;
constexpr double k_max_more_ms = 1;
constexpr double k_us_a_ms = 1000;

void stream(const EventServer& server, const std::string& id, const Until& until) {
    WebSocket socket = server.open_socket(id, server.last_seq(id));
    while (!until.passed())
        EventServer::run_turn(socket, sized(k_stream_events));
}

void replay(const EventServer& server, const std::string& id, const Until& until) {
    const std::string last_event = "{\"seq\":" + std::to_string(server.last_seq(id)) + ",";
    while (!until.passed())
        server.open_socket(id).await(
            [&](std::string_view payload) { return payload.starts_with(last_event); });
}

/// Turns of one event to 1,000 WebSockets, each as soon as the last of them has seen the turn before.
void fan_out(const EventServer& server, const std::string& id, const Until& until) {
    std::vector<WebSocket> sockets;
    const std::uint64_t after = server.last_seq(id);
    for (std::size_t i = 0; i < sized(k_subscribers); ++i)
        sockets.push_back(server.open_socket(id, after));
    while (!until.passed()) {
        sockets.front().send_text(R"({"type":"message","content":"hello"})");
        await_all_done(sockets);
    }
}

void exchange(const EventServer& server, const std::string& id, const Until& until) {
    Connection connection(server.server().port());
    const std::string request = server.server().message_request(id);
    while (!until.passed()) {
        const Response response = connection.exchange(request);
        Server::check_turn(response.status, response.body);
    }
}

struct Conversations {
    explicit Conversations(const EventServer& server) {
        Connection connection(server.server().port());
        streaming = server.create_conversation();
        logged = server.create_conversation();
        shared = server.server().create_conversation(connection, "echo");
        talking = server.server().create_conversation(connection, "echo");
        WebSocket socket = server.open_socket(logged, server.last_seq(logged));
        EventServer::run_turn(socket, sized(k_log_events));
    }
    std::string streaming;
    std::string logged;
    std::string shared;
    std::string talking;
};

nlohmann::json loop_of(const EventServer& server) {
    Connection connection(server.server().port());
    const Response response = connection.exchange(server.server().request("GET", "/v1/system"));
    return nlohmann::json::parse(response.body).at("loop");
}

void run_load(const EventServer& server, const Conversations& with, Lateness* lateness) {
    const Until until(sized(k_run_ms));
    std::vector<Child> children;
    if (lateness != nullptr)
        children.emplace_back([&] { sleep_only(*lateness, until); });
    children.emplace_back([&] { stream(server, with.streaming, until); });
    children.emplace_back([&] { replay(server, with.logged, until); });
    children.emplace_back([&] { fan_out(server, with.shared, until); });
    children.emplace_back([&] { exchange(server, with.talking, until); });
    for (Child& child : children)
        child.wait();
}

}  // namespace

Result measure_lateness() {
    Result result{.key = "reactor_lateness_ms", .unit = "ms", .target = "floor + 1 ms"};
    allow_open_files(k_subscribers + 100);
    const EventServer server({"--measure-loop"});
    const Conversations with(server);
    const Shared<Lateness> floor;
    run_load(server, with, &*floor);
    const auto loop = loop_of(server);
    const auto ms = [&](const char* histogram, const char* what) {
        return loop.at(histogram).at(what).get<double>() / k_us_a_ms;
    };
    result.floor = floor->percentile(0.999);
    result.value = ms("latenessUs", "p999");
    result.reached = *result.value <= *result.floor + k_max_more_ms;
    result.more["floor_p50"] = floor->percentile(0.5);
    result.more["lateness_p50"] = ms("latenessUs", "p50");
    result.more["lateness_p99"] = ms("latenessUs", "p99");
    result.more["lateness_max"] = ms("latenessUs", "max");
    result.more["handler_cpu_p99"] = ms("handlerCpuUs", "p99");
    result.more["handler_cpu_p999"] = ms("handlerCpuUs", "p999");
    result.more["handler_cpu_max"] = ms("handlerCpuUs", "max");
    result.more["ticks"] = loop.at("latenessUs").at("count").get<double>();
    return result;
}

}  // namespace atl::bench
