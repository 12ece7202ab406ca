#include "tests/bench/measures.hpp"
#include "tests/bench/memory.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_conversations = 50;
// MemAvailable moves with everything that runs on the host, and what an earlier round gave back late makes
// a round look cheaper than it is: the dearest of several rounds counts.
constexpr std::size_t k_rounds = 5;
constexpr double k_budget_ms = 30'000;
constexpr double k_max_pss_kb = 512;
constexpr double k_max_memavail_kb = 1536;

Result single(const char* key, const char* target, double value, double limit) {
    Result result{.key = key, .unit = "KB", .target = target};
    result.value = value;
    result.reached = value <= limit;
    return result;
}

}  // namespace

std::vector<Result> measure_idle() {
    Server server;
    Connection connection(server.port());
    Samples pss;
    Samples available;
    std::size_t processes = 0;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < sized(k_rounds) && ms_since(began) < k_budget_ms; ++round) {
        const double before_kb = settled_mem_available_kb();
        std::vector<std::string> ids;
        for (std::size_t i = 0; i < k_conversations; ++i)
            ids.push_back(server.create_conversation(connection, "shell"));
        available.add((before_kb - settled_mem_available_kb()) / k_conversations);
        const std::vector<pid_t> found = sandbox_processes(server.pid());
        processes = found.size();
        pss.add(pss_kb(found) / k_conversations);
        for (const std::string& id : ids)
            server.remove_conversation(connection, id);
    }
    Result idle = single("idle_sandbox_pss_kb", "<= 512", pss.p50(), k_max_pss_kb);
    idle.more["processes"] = static_cast<double>(processes) / k_conversations;
    return {idle, single("idle_sandbox_memavail_kb", "<= 1,536", available.percentile(1), k_max_memavail_kb)};
}

}  // namespace atl::bench
