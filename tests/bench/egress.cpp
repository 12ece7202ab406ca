// The way out of a sandbox: tunnels beside tinyproxy, a route beside nginx, and a neighbour's messages while
// a sandbox downloads (egress_lab.hpp).
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/bodies.hpp"
#include "tests/bench/egress_lab.hpp"
#include "tests/bench/good_client.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/shared.hpp"
#include "tests/bench/tls.hpp"

namespace atl::bench {
namespace {

// A sandbox may begin 20 requests a second, with a reserve of 64: beyond that they wait.
constexpr double k_every_ms = 60;
constexpr std::size_t k_requests = 300;
constexpr int k_wait_seconds = 30;
constexpr double k_most_of_connect = 1.2;
constexpr double k_most_of_first_byte = 1.3;

constexpr std::size_t k_body_bytes = 100'000'000;
constexpr std::size_t k_body_rounds = 8;
constexpr double k_bytes_a_mb = 1e6;

constexpr std::size_t k_neighbour_rounds = 4;
constexpr double k_neighbour_ms = 5000;
constexpr double k_download_begins_ms = 10'000;
constexpr double k_most_of_alone = 3;

double connect_ms(const Way& way, std::uint16_t upstream, const TlsClient& tls) {
    const InNetOf inside(way.net_of);
    const auto began = Clock::now();
    const base::UniqueFd fd = open_tunnel(way, upstream);
    tls.shake_hands(fd.get(), "localhost");
    return ms_since(began);
}

double mb_s(const Way& way, std::uint16_t upstream) {
    const InNetOf inside(way.net_of);
    const base::UniqueFd fd = open_tunnel(way, upstream);
    const auto began = Clock::now();
    send_all(fd.get(), "\r\n\r\n", 4);
    receive_bytes(fd.get(), k_body_bytes);
    return k_body_bytes / k_bytes_a_mb / ms_since(began) * 1000;
}

/// From the connection to the first event, of a stream that then says no more.
double first_byte_ms(const Way& way) {
    const InNetOf inside(way.net_of);
    constexpr std::string_view k_request =
        "GET /bench/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n";
    const auto began = Clock::now();
    const base::UniqueFd fd = connect_to(way.port, k_wait_seconds);
    send_all(fd.get(), k_request.data(), k_request.size());
    std::string answer;
    for (char piece[4096]; answer.find("\ndata:") == std::string::npos;) {
        const ssize_t got = ::recv(fd.get(), piece, sizeof piece, 0);
        if (got <= 0)
            throw std::runtime_error("a stream did not begin: " + answer.substr(0, 200));
        answer.append(piece, static_cast<std::size_t>(got));
    }
    return ms_since(began);
}

void begin_stream(int fd) {
    receive_request(fd);
    constexpr std::string_view k_answer =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n";
    send_all(fd, k_answer.data(), k_answer.size());
    char end = 0;
    ::recv(fd, &end, 1, 0);
}

/// Adds how many milliseconds a request took, and waits until the next one may begin.
template <class Ask>
void add_paced(Samples& samples, double every_ms, Ask ask) {
    const auto began = Clock::now();
    samples.add(ask());
    ::poll(nullptr, 0, static_cast<int>(std::max(0.0, every_ms - ms_since(began))));
}

/// Milliseconds of requests to both, in turns, as often as a sandbox may begin one. Each has the same pause
/// before it: right behind another one it would find the caches of clients, upstreams and the kernel warm.
template <class Product, class Floor>
void measure_requests(Result& result, double most, Scope scope, Product product, Floor floor) {
    Compared compared;
    const double every_ms = has_floor(scope) ? k_every_ms / 2 : k_every_ms;
    for (std::size_t i = 0; i < sized(k_requests); ++i) {
        add_paced(compared.product, every_ms, product);
        if (has_floor(scope))
            add_paced(compared.floor, every_ms, floor);
    }
    compare(result, compared);
    if (!result.ratio)
        return;
    result.more["floor_p95"] = compared.floor.p95();
    result.reached = *result.ratio <= most;
}

/// Shared with the upstream of the download.
struct Flow {
    std::atomic<bool> flows{false};
    std::atomic<std::size_t> bytes{0};
};

void send_flow(int fd, Flow& flow) {
    receive_request(fd);
    constexpr std::string_view k_head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    send_all(fd, k_head.data(), k_head.size());
    for (;;) {
        if (!flow.flows) {
            ::poll(nullptr, 0, 1);
            continue;
        }
        send_bytes(fd, k_body_piece_bytes);
        flow.bytes += k_body_piece_bytes;
    }
}

void start_download(const Server& server, const std::string& sandbox, std::uint16_t port) {
    const nlohmann::json process{
        {"argv",
         {"curl", "-s", "-p", "--noproxy", "none.invalid", "-x", "http://127.0.0.1:3128", "-o", "/dev/null",
          "http://localhost:" + std::to_string(port) + "/"}}};
    Connection connection(server.port());
    const Response started = connection.exchange(
        server.request("POST", "/v1/sandboxes/" + sandbox + "/processes", process.dump()));
    if (started.status != 201)
        throw std::runtime_error("the download did not start: " + started.body);
}

void await_bytes(const Flow& flow) {
    for (const auto began = Clock::now(); flow.bytes == 0; ::poll(nullptr, 0, 1)) {
        if (ms_since(began) > k_download_begins_ms)
            throw std::runtime_error("nothing is downloaded");
    }
}

}  // namespace

Result measure_egress_connect(Scope scope) {
    Result result{.key = "egress_connect_ms", .unit = "ms", .target = "ratio <= 1.2"};
    const TlsServer tls_server("localhost");
    const TlsClient tls;
    EgressLab lab([&](int fd) { tls_server.shake_hands(fd); }, "");
    const std::uint16_t upstream = lab.upstream();
    measure_requests(
        result, k_most_of_connect, scope, [&] { return connect_ms(lab.product(), upstream, tls); },
        [&] { return connect_ms(lab.tinyproxy(), upstream, tls); });
    return result;
}

Result measure_egress_bodies(Scope scope) {
    Result result{.key = "egress_mb_s", .unit = "MB/s", .target = "ratio >= 1.0", .better = Better::higher};
    const auto send_body = [](int fd) {
        receive_request(fd);
        send_bytes(fd, k_body_bytes);
    };
    EgressLab lab(send_body, "/tcp");
    Compared compared;
    for (std::size_t round = 0; round < sized(k_body_rounds); ++round) {
        compared.product.add(mb_s(lab.product(), lab.upstream()));
        if (has_floor(scope))
            compared.floor.add(mb_s(lab.tinyproxy(), lab.upstream()));
    }
    compare(result, compared);
    if (result.ratio)
        result.reached = *result.ratio >= 1;
    return result;
}

Result measure_route(Scope scope) {
    Result result{.key = "route_first_byte_ms", .unit = "ms", .target = "ratio <= 1.3"};
    EgressLab lab(begin_stream, "/tcp");
    measure_requests(
        result, k_most_of_first_byte, scope, [&] { return first_byte_ms(lab.routes()); },
        [&] { return first_byte_ms(lab.nginx()); });
    return result;
}

Result measure_egress_neighbour() {
    Result result{.key = "egress_message_ms", .unit = "ms", .target = "p99 <= 3 x alone"};
    const Shared<Flow> flow;
    const Upstream source([&](int fd) { send_flow(fd, *flow); });
    const EventServer server(egress_flags(source.port()));
    Connection connection(server.server().port());
    GoodClients neighbour(server, server.server().create_conversation(connection, "echo"));
    const std::string rule = "localhost:" + std::to_string(source.port()) + "/tcp";
    start_download(server.server(), create_egress_sandbox(server.server(), rule), source.port());
    flow->flows = true;
    await_bytes(*flow);
    Compared compared;
    Compared bare;
    Samples speeds;
    for (std::size_t round = 0; round < sized(k_neighbour_rounds); ++round) {
        flow->flows = false;
        const P99 alone = neighbour.talk_for(sized(k_neighbour_ms));
        const std::size_t before = flow->bytes;
        flow->flows = true;
        const auto began = Clock::now();
        const P99 beside = neighbour.talk_for(sized(k_neighbour_ms));
        const double bytes = static_cast<double>(flow->bytes - before);
        if (bytes == 0)
            throw std::runtime_error("the download has ended");
        speeds.add(bytes / k_bytes_a_mb / ms_since(began) * 1000);
        compared.floor.add(alone.ms);
        compared.product.add(beside.ms);
        bare.floor.add(alone.bare_ms);
        bare.product.add(beside.bare_ms);
    }
    result.value = compared.product.p50();
    result.floor = compared.floor.p50();
    result.ratio = *result.value / *result.floor;
    result.reached = *result.ratio <= k_most_of_alone;
    result.more["download_mb_s"] = speeds.p50();
    result.more["bare_p99"] = bare.product.p50();
    result.more["bare_alone_p99"] = bare.floor.p50();
    return result;
}

}  // namespace atl::bench
