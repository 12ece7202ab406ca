#include "tests/bench/good_client.hpp"

#include <poll.h>

#include <algorithm>

namespace atl::bench {
namespace {

constexpr double k_message_every_ms = 5;

}  // namespace

double Times::p99() const {
    Samples samples;
    for (std::size_t i = 0; i < count; ++i)
        samples.add(ms[i]);
    return samples.percentile(0.99);
}

void talk(const EventServer& server, const std::string& id, double for_ms, Times& times) {
    WebSocket socket = server.open_socket(id, server.last_seq(id));
    const auto began = Clock::now();
    while (ms_since(began) < for_ms && times.count < times.ms.size()) {
        const auto sent = Clock::now();
        bool done = false;
        const auto look = [&](std::string_view payload) {
            done = done || payload.find(R"("type":"done")") != std::string_view::npos;
            return true;
        };
        socket.send_text(R"({"type":"message","content":"hello"})");
        socket.await(look);
        times.ms[times.count++] = ms_since(sent);
        while (!done)
            socket.await(look);
        ::poll(nullptr, 0, static_cast<int>(std::max(0.0, k_message_every_ms - ms_since(sent))));
    }
}

}  // namespace atl::bench
