#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bench/measures.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_runs = 10;
constexpr double k_budget_ms = 40'000;
constexpr double k_mb = 1024.0 * 1024;
constexpr double k_limit_mb = 256;
constexpr double k_max_percent = 10;
constexpr double k_max_mb = 64;
// File after file, since a single one ends at the limit by itself.
constexpr const char* k_fill =
    "for ((i=0; ; i++)); do dd if=/dev/zero of=f$i bs=1M count=100 2>/dev/null; done";

double allocated_mb(const fs::path& folder) {
    double bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        struct stat about {};
        if (::lstat(entry.path().c_str(), &about) == 0)
            bytes += static_cast<double>(about.st_blocks) * 512;
    }
    return bytes / k_mb;
}

}  // namespace

Result measure_disk() {
    Result result{.key = "disk_overshoot_pct", .unit = "%", .target = "<= 10 % or 64 MiB"};
    const Server server;
    Connection connection(server.port());
    Samples overshoots;
    const auto began = Clock::now();
    while (overshoots.size() < sized(k_runs) && ms_since(began) < k_budget_ms) {
        const Response made = connection.exchange(
            server.request("POST", "/v1/conversations", R"({"agent":"shell","limits":{"diskMb":256}})"));
        const std::string id = Server::created_id(made.status, made.body);
        const nlohmann::json message{{"content", k_fill}};
        const Response turn = connection.exchange(server.request(
            "POST", "/v1/conversations/" + id + "/messages", message.dump(), Accept::event_stream));
        if (turn.body.find("disk_limit") == std::string::npos)
            throw std::runtime_error("the turn did not end for the disk: " + turn.body);
        const std::string sandbox = nlohmann::json::parse(made.body).at("sandboxId");
        const double mb = allocated_mb(server.data_dir() / "workspaces" / sandbox);
        overshoots.add(std::max(0.0, mb - k_limit_mb) / k_limit_mb * 100);
        server.remove_conversation(connection, id);
    }
    // The worst counts.
    result.value = overshoots.percentile(1);
    result.reached = *result.value <= std::max(k_max_percent, k_max_mb / k_limit_mb * 100);
    result.more["median"] = overshoots.p50();
    result.more["runs"] = static_cast<double>(overshoots.size());
    return result;
}

}  // namespace atl::bench
