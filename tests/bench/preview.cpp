// Previews, beside nginx as a proxy to the same process in the same sandbox (preview_lab.hpp).
#include "tests/bench/bodies.hpp"
#include "tests/bench/in_net_of.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/memory.hpp"
#include "tests/bench/preview_lab.hpp"
#include "tests/bench/websocket.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_body_bytes = 100'000'000;  // as the upstream sends
constexpr double k_bytes_a_mb = 1e6;
constexpr int k_wait_seconds = 30;

constexpr std::size_t k_rps_rounds = 5;
constexpr std::size_t k_rps_seconds = 3;  // wrk takes whole ones
constexpr std::size_t k_rps_connections = 50;
// Else the proxies are not what is measured.
constexpr double k_least_upstream = 2;

constexpr std::size_t k_exchanges_a_round = 500;
constexpr std::size_t k_latency_rounds = 20;
constexpr double k_most_of_latency = 1.2;

constexpr std::size_t k_body_rounds = 8;
constexpr double k_least_of_mb_s = 0.9;

constexpr std::size_t k_tunnels = 5'000;
constexpr std::size_t k_tunnel_sandboxes = 2;
constexpr double k_max_tunnel_kb = 24;
constexpr std::string_view k_echoed = "a hundred bytes of what a hot reload may say: {\"type\":\"update\"}";

base::UniqueFd connect_to_front(const Front& front) {
    const InNetOf inside(front.net_of);
    return connect_to(front.port, k_wait_seconds);
}

WebSocket open_tunnel(const Front& front) {
    const InNetOf inside(front.net_of);
    return {front.port, "/echo", "", front.host};
}

void echo(WebSocket& socket) {
    socket.send_text(k_echoed);
    socket.await([](std::string_view payload) { return payload == k_echoed; });
}

/// Milliseconds of `once` on a connection of its own to each proxy, which stays; also with all on one
/// processor.
template <class Open, class Once>
Result measure_round_trips(std::string key, Scope scope, Open open, Once once) {
    Result result{.key = std::move(key), .unit = "ms", .target = "ratio <= 1.2"};
    PreviewLab lab;
    const auto measure = [&] {
        Compared pair;
        auto product = open(lab.product());
        auto nginx = open(has_floor(scope) ? lab.nginx() : lab.product());
        const auto sample = [&](auto& connection, Samples& into) {
            for (std::size_t i = 0; i < k_exchanges_a_round; ++i) {
                const auto began = Clock::now();
                once(connection);
                into.add(ms_since(began));
            }
        };
        for (std::size_t round = 0; round < sized(k_latency_rounds); ++round) {
            sample(product, pair.product);
            if (has_floor(scope))
                sample(nginx, pair.floor);
        }
        return pair;
    };
    compare(result, measure());
    lab.use_one_cpu();
    const Compared on_one = measure();
    result.more["one_cpu_p50"] = on_one.product.p50();
    if (has_floor(scope)) {
        result.more["one_cpu_ratio"] = on_one.product.p50() / on_one.floor.p50();
        result.reached = *result.ratio <= k_most_of_latency;
    }
    return result;
}

double mb_s_down(const Front& front) {
    const base::UniqueFd fd = connect_to_front(front);
    const std::string head = preview_request(front, "GET", "/big");
    const auto began = Clock::now();
    send_all(fd.get(), head.data(), head.size());
    receive_head(fd.get(), "200");
    receive_bytes(fd.get(), k_body_bytes);
    return k_body_bytes / k_bytes_a_mb / ms_since(began) * 1000;
}

double mb_s_up(const Front& front) {
    const base::UniqueFd fd = connect_to_front(front);
    const std::string head =
        preview_request(front, "PUT", "/big", "Content-Length: " + std::to_string(k_body_bytes) + "\r\n");
    const auto began = Clock::now();
    send_all(fd.get(), head.data(), head.size());
    send_bytes(fd.get(), k_body_bytes);
    receive_head(fd.get(), "200");
    return k_body_bytes / k_bytes_a_mb / ms_since(began) * 1000;
}

}  // namespace

Result measure_preview_rps(Scope scope) {
    Result result{.key = "preview_rps", .unit = "requests/s", .target = "ratio >= 1.0"};
    result.better = Better::higher;
    const std::size_t rounds = sized(k_rps_rounds);
    const std::size_t seconds = sized(k_rps_seconds);
    PreviewLab lab;
    Compared pair;
    double requests = 0;
    const double cpu_ms = lab.server().cpu_ms();
    for (std::size_t round = 0; round < rounds; ++round) {
        pair.product.add(run_wrk(lab.product(), k_rps_connections, seconds));
        requests += pair.product.p50() * static_cast<double>(seconds);
        if (has_floor(scope))
            pair.floor.add(run_wrk(lab.nginx(), k_rps_connections, seconds));
    }
    compare(result, pair);
    result.more["server_cpu_us"] = (lab.server().cpu_ms() - cpu_ms) * 1000 / requests;
    // The share of its processor that the proxy used: near 1 unless another program is the bottleneck.
    result.more["server_busy"] =
        (lab.server().cpu_ms() - cpu_ms) / 1000 / static_cast<double>(rounds * seconds);
    if (!has_floor(scope))
        return result;
    // Its client has the proxies' processor.
    const OneCpu other(Cpu::first);
    const double direct = run_wrk(lab.upstream(), k_rps_connections, seconds);
    result.more["upstream_rps"] = direct;
    result.more["upstream_ratio"] = direct / std::max(*result.value, *result.floor);
    if (result.more["upstream_ratio"] < k_least_upstream && !is_short_run())
        throw std::runtime_error("what answers is less than twice as fast as the proxies: " +
                                 std::to_string(direct) + " requests/s");
    result.reached = *result.ratio >= 1;
    return result;
}

Result measure_preview_latency(Scope scope) {
    struct Visitor {
        explicit Visitor(const Front& front)
            : connection(front.port), request(preview_request(front, "GET", "/")) {}
        Connection connection;
        std::string request;
    };
    return measure_round_trips(
        "preview_latency_ms", scope,
        [](const Front& front) {
            const InNetOf inside(front.net_of);
            return Visitor(front);
        },
        [](Visitor& visitor) {
            if (visitor.connection.exchange(visitor.request).status != 200)
                throw std::runtime_error("a preview did not answer");
        });
}

Result measure_preview_bodies(Scope scope) {
    Result result{.key = "preview_mb_s", .unit = "MB/s", .target = "ratio >= 0.9, both ways"};
    result.better = Better::higher;
    PreviewLab lab;
    Compared down;
    Compared up;
    for (std::size_t round = 0; round < sized(k_body_rounds); ++round) {
        down.product.add(mb_s_down(lab.product()));
        up.product.add(mb_s_up(lab.product()));
        if (!has_floor(scope))
            continue;
        down.floor.add(mb_s_down(lab.nginx()));
        up.floor.add(mb_s_up(lab.nginx()));
    }
    compare(result, down);
    result.more["up_mb_s"] = up.product.p50();
    if (!has_floor(scope))
        return result;
    result.more["up_nginx_mb_s"] = up.floor.p50();
    result.more["up_ratio"] = up.product.p50() / up.floor.p50();
    result.reached = std::min(*result.ratio, result.more["up_ratio"]) >= k_least_of_mb_s;
    return result;
}

Result measure_preview_sockets(Scope scope) {
    return measure_round_trips("preview_ws_ms", scope, open_tunnel, echo);
}

Result measure_preview_connections() {
    Result result{.key = "preview_conns", .unit = "KB each", .target = ">= 5,000, <= 24 KB each"};
    const std::size_t count = sized(k_tunnels);
    allow_open_files(count + 100);
    const PreviewLab lab(k_tunnel_sandboxes);
    std::vector<WebSocket> tunnels;
    // The first tunnel of each sandbox loads what the later ones share, so it is not counted.
    for (std::size_t i = 0; i < k_tunnel_sandboxes; ++i)
        tunnels.push_back(open_tunnel(lab.product(i)));
    const double before_kb = rss_kb(lab.server().pid());
    for (std::size_t i = 0; i < count; ++i)
        tunnels.push_back(open_tunnel(lab.product(i % k_tunnel_sandboxes)));
    const double each_kb = (rss_kb(lab.server().pid()) - before_kb) / static_cast<double>(count);
    // All of them are alive, and cost no more afterwards.
    for (WebSocket& tunnel : tunnels)
        echo(tunnel);
    result.value = std::max(each_kb, (rss_kb(lab.server().pid()) - before_kb) / static_cast<double>(count));
    result.more["sockets"] = static_cast<double>(count);
    result.more["untouched_kb"] = each_kb;
    result.reached = *result.value <= k_max_tunnel_kb;
    return result;
}

}  // namespace atl::bench
