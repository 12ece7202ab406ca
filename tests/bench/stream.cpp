#include "tests/bench/bare_stream.hpp"
#include "tests/bench/event_server.hpp"
#include "tests/bench/measures.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_events = 200'000;
constexpr std::size_t k_warm_up = 20'000;
constexpr std::size_t k_windows = 5;
constexpr double k_min_events_per_s = 50'000;

double per_second(std::size_t events, double ms) {
    return static_cast<double>(events) / ms * 1000;
}

}  // namespace

Result measure_stream(Scope scope) {
    Result result{
        .key = "stream_events_per_s", .unit = "events/s", .target = ">= 50,000", .better = Better::higher};
    const std::size_t events = sized(k_events);
    BareStream floor;
    std::optional<EventServer> product;
    std::optional<WebSocket> socket;
    floor.run(k_warm_up);
    if (has_product(scope)) {
        product.emplace();
        const std::string id = product->create_conversation();
        socket.emplace(product->open_socket(id, product->last_seq(id)));
        EventServer::run_turn(*socket, k_warm_up);
    }
    const double cpu_before_ms = product ? product->server().cpu_ms() : 0;
    Samples floors;
    Samples products;
    for (std::size_t window = 0; window < k_windows; ++window) {
        if (has_floor(scope))
            floors.add(per_second(events, floor.run(events)));
        if (product)
            products.add(per_second(events, EventServer::run_turn(*socket, events)));
    }
    if (has_floor(scope))
        result.floor = floors.p50();
    result.more["windows"] = static_cast<double>(k_windows);
    if (product) {
        // The CPU time of all windows gives a number that other load on the machine changes little.
        result.more["server_cpu_us"] =
            (product->server().cpu_ms() - cpu_before_ms) * 1000 / static_cast<double>(k_windows * events);
        result.value = products.p50();
        if (result.floor)
            result.ratio = *result.value / *result.floor;
        result.reached = *result.value >= k_min_events_per_s;
    }
    return result;
}

}  // namespace atl::bench
