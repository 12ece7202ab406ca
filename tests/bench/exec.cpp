#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "tests/bench/measures.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr std::string_view k_true = R"({"argv":["/bin/true"]})";
constexpr double k_budget_ms = 12'000;
constexpr std::size_t k_warm_up = 50;
constexpr std::size_t k_block = 25;
constexpr std::size_t k_blocks = 80;
constexpr double k_max_ratio = 2;

constexpr std::size_t k_sandboxes = 20;
constexpr double k_window_ms = 8'000;
constexpr double k_min_per_s = 1'000;

void check_exec(int status, const std::string& body) {
    if (status != 200 || body.find(R"("exitCode":0)") == std::string::npos)
        throw std::runtime_error("an exec answered " + std::to_string(status) + ": " + body);
}

/// The request that runs true in a new sandbox.
std::string exec_request(const Server& server, Connection& connection) {
    const Response made = connection.exchange(server.request("POST", "/v1/sandboxes", "{}"));
    const std::string id = Server::created_id(made.status, made.body);
    return server.request("POST", "/v1/sandboxes/" + id + "/exec", k_true);
}

/// The floor: a plain process on the host, and a round trip that does nothing.
struct SpawnFloor {
    explicit SpawnFloor(std::uint16_t port) : connection(port) {}

    void run(std::size_t count, Samples* samples) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto began = Clock::now();
            spawn_true();
            if (connection.exchange(request).status != 200)
                throw std::runtime_error("a round trip failed");
            if (samples)
                samples->add(ms_since(began));
        }
    }
    static void spawn_true() {
        char program[] = "/bin/true";
        char* argv[] = {program, nullptr};
        char* env[] = {nullptr};
        pid_t pid = -1;
        if (const int error = ::posix_spawn(&pid, program, nullptr, nullptr, argv, env); error != 0)
            throw std::system_error(error, std::generic_category(), program);
        int status = 0;
        if (::waitpid(pid, &status, 0) != pid || status != 0)
            throw std::runtime_error("true failed");
    }

    Connection connection;
    std::string request = request_text("GET", "/healthz", {}, {});
};

struct ExecProduct {
    explicit ExecProduct(const Server& server)
        : connection(server.port()), request(exec_request(server, connection)) {}

    void run(std::size_t count, Samples* samples) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto began = Clock::now();
            const Response response = connection.exchange(request);
            if (samples)
                samples->add(ms_since(began));
            check_exec(response.status, response.body);
        }
    }

    Connection connection;
    std::string request;
};

struct Pair {
    Samples floors;
    Samples products;
    double server_cpu_us = 0;  // of an exec, round trips of the floor included
};

Pair measure_pair(Scope scope) {
    const Server server;
    SpawnFloor floor(server.port());
    std::optional<ExecProduct> product;
    if (has_product(scope))
        product.emplace(server);
    floor.run(k_warm_up, nullptr);
    if (product)
        product->run(k_warm_up, nullptr);
    Pair pair;
    const double cpu_before_ms = server.cpu_ms();
    const auto began = Clock::now();
    for (std::size_t block = 0; block < sized(k_blocks) && ms_since(began) < k_budget_ms; ++block) {
        if (has_floor(scope))
            floor.run(k_block, &pair.floors);
        if (product)
            product->run(k_block, &pair.products);
    }
    if (product)
        pair.server_cpu_us =
            (server.cpu_ms() - cpu_before_ms) * 1000 / static_cast<double>(pair.products.size());
    return pair;
}

}  // namespace

// Runs on one CPU, as for messages, so that the ratio is of programs and not of the places where they run.
Result measure_exec(Scope scope) {
    Result result{.key = "exec_true_ms", .unit = "ms", .target = "ratio <= 2"};
    const Pair free = measure_pair(scope);
    const OneCpu confined;
    const Pair pair = measure_pair(scope);
    if (has_floor(scope)) {
        result.floor = pair.floors.p50();
        result.more["floor_p95"] = pair.floors.p95();
        result.more["free_floor"] = free.floors.p50();
    }
    if (!has_product(scope))
        return result;
    result.p50 = pair.products.p50();
    result.p95 = pair.products.p95();
    result.more["free_p50"] = free.products.p50();
    result.more["iterations"] = static_cast<double>(pair.products.size());
    result.more["server_cpu_us"] = pair.server_cpu_us;
    if (!has_floor(scope))
        return result;
    result.ratio = *result.p50 / *result.floor;
    result.more["free_ratio"] = free.products.p50() / free.floors.p50();
    result.reached = *result.ratio <= k_max_ratio;
    return result;
}

Result measure_exec_rate() {
    Result result{.key = "exec_per_s", .unit = "execs/s", .target = ">= 1,000", .better = Better::higher};
    const Server server;
    std::vector<Connection> connections;
    std::vector<std::string> requests;
    for (std::size_t i = 0; i < k_sandboxes; ++i) {
        connections.emplace_back(server.port());
        requests.push_back(exec_request(server, connections.back()));
        const Response response = connections.back().exchange(requests.back());
        check_exec(response.status, response.body);
    }
    Samples times;
    const double cpu_before_ms = server.cpu_ms();
    const auto began = Clock::now();
    const auto on_response = [&](std::size_t index, const Connection& connection) -> std::string_view {
        check_exec(connection.response().status(), connection.response().body());
        times.add(connection.ms());
        return ms_since(began) < sized(k_window_ms) ? std::string_view(requests[index]) : std::string_view();
    };
    const auto deadline = began + std::chrono::milliseconds(static_cast<int>(k_window_ms) + 5'000);
    if (drive(connections, requests, on_response, deadline) != 0)
        throw std::runtime_error("an exec was not answered within 5 s");
    const auto count = static_cast<double>(times.size());
    result.value = count / ms_since(began) * 1000;
    result.more["p50_ms"] = times.p50();
    result.more["p99_ms"] = times.percentile(0.99);
    result.more["server_cpu_us"] = (server.cpu_ms() - cpu_before_ms) * 1000 / count;
    result.reached = *result.value >= k_min_per_s;
    return result;
}

}  // namespace atl::bench
