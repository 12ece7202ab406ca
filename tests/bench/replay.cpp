#include <algorithm>
#include <stdexcept>

#include "tests/bench/event_server.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/sleeper.hpp"

namespace atl::bench {
namespace {

// Events of 256 bytes, as they are in the log.
constexpr std::size_t k_log_bytes = 60'000'000;
constexpr double k_bytes_a_mb = 1e6;
constexpr std::size_t k_sample_events = 100;
constexpr std::size_t k_rounds = 9;
constexpr double k_min_mb_s = 200;
constexpr double k_replay_ms = 30'000;
constexpr std::size_t k_shown_bytes = 200;

struct Log {
    std::string id;
    std::uint64_t last_seq = 0;
    double json_mb = 0;  // of the events' objects, without any framing
};

/// Bytes of the objects up to `last`, each of them seen.
double replay_socket(const EventServer& server, const std::string& id, std::uint64_t last) {
    double bytes = 0;
    const std::string last_event = "{\"seq\":" + std::to_string(last) + ",";
    server.open_socket(id).await([&](std::string_view payload) {
        bytes += static_cast<double>(payload.size());
        return payload.starts_with(last_event);
    });
    return bytes;
}

void replay_sse(const EventServer& server, const Log& log) {
    WebSocket plain(server.server().port(), "", "");
    plain.send(server.server().request("GET", "/v1/conversations/" + log.id + "/events?after=0", {},
                                       Accept::event_stream));
    // The number of an event, and the epoch of its log.
    const std::string last_event = "\nid: " + std::to_string(log.last_seq) + "-";
    const Until until(k_replay_ms);
    // Two reads may cut the id between them.
    std::string seen;
    while (seen.find(last_event) == std::string::npos) {
        if (until.passed())
            throw std::runtime_error("the last event did not come over SSE, only: " +
                                     seen.substr(seen.size() - std::min(seen.size(), k_shown_bytes)));
        seen.erase(0, seen.size() - std::min(seen.size(), last_event.size()));
        seen += plain.receive_some();
    }
}

Log write_log(const EventServer& server) {
    Log log{.id = server.create_conversation()};
    WebSocket socket = server.open_socket(log.id, server.last_seq(log.id));
    EventServer::run_turn(socket, k_sample_events);
    const double sample_mb = replay_socket(server, log.id, server.last_seq(log.id)) / k_bytes_a_mb;
    const double left_mb = static_cast<double>(sized(k_log_bytes)) / k_bytes_a_mb - sample_mb;
    EventServer::run_turn(socket, static_cast<std::size_t>(left_mb / sample_mb * k_sample_events));
    log.last_seq = server.last_seq(log.id);
    log.json_mb = replay_socket(server, log.id, log.last_seq) / k_bytes_a_mb;
    return log;
}

}  // namespace

Result measure_replay() {
    Result result{.key = "replay_mb_s", .unit = "MB/s", .target = ">= 200", .better = Better::higher};
    const EventServer server;
    const Log log = write_log(server);
    double cpu_ms = 0;
    Samples sockets;
    Samples sse;
    const std::size_t rounds = sized(k_rounds);
    for (std::size_t round = 0; round < rounds; ++round) {
        auto began = Clock::now();
        const double cpu_before_ms = server.server().cpu_ms();
        replay_socket(server, log.id, log.last_seq);
        cpu_ms += server.server().cpu_ms() - cpu_before_ms;
        sockets.add(log.json_mb / ms_since(began) * 1000);
        began = Clock::now();
        replay_sse(server, log);
        sse.add(log.json_mb / ms_since(began) * 1000);
    }
    result.value = sockets.p50();
    result.reached = *result.value >= k_min_mb_s;
    result.more["server_cpu_mb_s"] = log.json_mb * static_cast<double>(rounds) / cpu_ms * 1000;
    result.more["log_mb"] = log.json_mb;
    result.more["events"] = static_cast<double>(log.last_seq);
    result.more["sse_mb_s"] = sse.p50();
    return result;
}

}  // namespace atl::bench
