#include "tests/bench/good_client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/own_priority.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/shared.hpp"

namespace atl::bench {
namespace {

constexpr double k_message_every_ms = 5;
constexpr int k_nice = -10;  // the server's default

/// The times that a client measured, for the process that started it (shared.hpp).
struct Times {
    std::array<double, 16'384> ms;
    std::size_t count = 0;

    double p99() const {
        Samples samples;
        for (std::size_t i = 0; i < count; ++i)
            samples.add(ms[i]);
        return samples.percentile(0.99);
    }
};

/// Calls `exchange`, which returns how long it took, until the time is over. The client has the server's
/// priority, where it may: a user's browser is on another machine and waits for no processor of this one.
template <class Exchange>
void keep_talking(double for_ms, Times& times, Exchange exchange) {
    base::set_own_priority(k_nice);
    const auto began = Clock::now();
    while (ms_since(began) < for_ms && times.count < times.ms.size()) {
        const auto sent = Clock::now();
        times.ms[times.count++] = exchange();
        ::poll(nullptr, 0, static_cast<int>(std::max(0.0, k_message_every_ms - ms_since(sent))));
    }
}

void talk(const EventServer& server, const std::string& id, double for_ms, Times& times) {
    WebSocket socket = server.open_socket(id, server.last_seq(id));
    keep_talking(for_ms, times, [&] {
        const auto sent = Clock::now();
        bool done = false;
        const auto look = [&](std::string_view payload) {
            done = done || payload.find(R"("type":"done")") != std::string_view::npos;
            return true;
        };
        socket.send_text(R"({"type":"message","content":"hello"})");
        socket.await(look);
        const double ms = ms_since(sent);
        while (!done)
            socket.await(look);
        return ms;
    });
}

void talk_bare(std::uint16_t port, double for_ms, Times& times) {
    Connection connection(port);
    const std::string request = request_text("POST", "/", {}, R"({"content":"hello"})", Accept::event_stream);
    keep_talking(for_ms, times, [&] {
        const auto sent = Clock::now();
        connection.exchange(request);
        return ms_since(sent);
    });
}

}  // namespace

GoodClients::GoodClients(const EventServer& server, std::string id)
    : server_(server), id_(std::move(id)), bare_(1, Persist::nothing, k_nice) {}

P99 GoodClients::talk_for(double for_ms, const std::function<void()>& meanwhile) {
    const Shared<Times> times;
    const Shared<Times> bare_times;
    Child good([&] { talk(server_, id_, for_ms, *times); });
    Child bare([&] { talk_bare(bare_.port(), for_ms, *bare_times); });
    while (!good.has_ended() || !bare.has_ended()) {
        if (meanwhile)
            meanwhile();
        ::poll(nullptr, 0, static_cast<int>(for_ms / 100));
    }
    good.wait();
    bare.wait();
    return {times->p99(), bare_times->p99()};
}

}  // namespace atl::bench
