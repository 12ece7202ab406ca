#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/measures.hpp"
#include "tests/bench/memory.hpp"
#include "tests/bench/seed.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_conversations = 1'000'000;
constexpr std::size_t k_events = 2;
constexpr std::size_t k_event_bytes = 240;
constexpr std::size_t k_alive = 50;
constexpr double k_max_rss_kb = 25'600;
constexpr double k_max_list_ms = 5;
constexpr std::size_t k_warm_up = 2;
constexpr std::size_t k_lists = 60;  // of each filter
constexpr std::size_t k_least_lists = 20;
constexpr double k_filter_budget_ms = 300;
constexpr double k_lateness_ms = 10'000;
constexpr double k_us_a_ms = 1000;
constexpr double k_ms_a_s = 1000;
constexpr int k_look_ms = 500;
// The server looks every 10 s whether it has memory to give back (app/memory_trim.hpp).
constexpr std::size_t k_still_looks = 24;
constexpr std::size_t k_most_looks = 80;

/// Once it stands still for longer than the server takes to give memory back.
double settled_rss_kb(pid_t pid) {
    double last = rss_kb(pid);
    std::size_t still = 0;
    for (std::size_t look = 0; look < sized(k_most_looks) && still < sized(k_still_looks); ++look) {
        ::poll(nullptr, 0, k_look_ms);
        const double now = rss_kb(pid);
        still = now == last ? still + 1 : 0;
        last = now;
    }
    return last;
}

/// Each filter alone, and each pair.
std::vector<std::string> queries(const Seeded& seeded) {
    const std::vector<std::string> filters{
        "metadata.team=a",
        "metadata.plan=pro",
        "metadata.project=p77",
        "metadata.team=nobody",
        "agent=auditor",
        "agent=nobody",
        "status=paused",
        "status=ended",
        "status=error",
        "status=active",
        std::string("userId=") + k_seeded_user,
        "userId=nobody",
        "sandboxId=" + seeded.sandbox_id,
        "createdAfter=" + seeded.middle,
        "createdBefore=" + seeded.middle,
        "activeAfter=" + seeded.middle,
        "activeBefore=" + seeded.middle,
    };
    const auto name_of = [](const std::string& filter) { return filter.substr(0, filter.find('=')); };
    std::vector<std::string> all{""};
    for (std::size_t i = 0; i < filters.size(); ++i) {
        all.push_back(filters[i]);
        for (std::size_t j = i + 1; j < filters.size(); ++j) {
            if (name_of(filters[i]) != name_of(filters[j]))
                all.push_back(filters[i] + "&" + filters[j]);
        }
    }
    std::vector<std::string> ordered;
    for (const std::string& filter : all) {
        for (const char* order : {"newest", "oldest"})
            ordered.push_back(filter + (filter.empty() ? "" : "&") + "order=" + order);
    }
    return ordered;
}

class Lister {
  public:
    explicit Lister(const Server& server) : server_(server), connection_(server.port()) {}

    double list_ms(const std::string& query) {
        const auto began = Clock::now();
        const Response response = connection_.exchange(server_.request("GET", "/v1/conversations?" + query));
        const double ms = ms_since(began);
        if (response.status != 200)
            throw std::runtime_error("a list with " + query + " was answered " +
                                     std::to_string(response.status) + " " + response.body);
        return ms;
    }
    Samples sample(const std::string& query) {
        Samples samples;
        for (std::size_t i = 0; i < k_warm_up; ++i)
            list_ms(query);
        const auto began = Clock::now();
        while (samples.size() < sized(k_least_lists) ||
               (samples.size() < sized(k_lists) && ms_since(began) < k_filter_budget_ms))
            samples.add(list_ms(query));
        return samples;
    }

  private:
    const Server& server_;
    Connection connection_;
};

struct Worst {
    std::string query;
    double p95_ms = 0;
};

/// The slowest of all; `result` gets its numbers.
Worst worst_of(Lister& lister, const std::vector<std::string>& all, Result& result) {
    Worst worst;
    Samples everything;
    for (const std::string& query : all) {
        const Samples samples = lister.sample(query);
        everything.add(samples.p95());
        if (samples.p95() <= worst.p95_ms)
            continue;
        worst = {query, samples.p95()};
        result.p50 = samples.p50();
        result.p95 = samples.p95();
    }
    result.more["filters"] = static_cast<double>(all.size());
    result.more["p95_of_the_median_filter"] = everything.p50();
    return worst;
}

double lateness_p99_ms(const Server& server) {
    Connection connection(server.port());
    const Response response = connection.exchange(server.request("GET", "/v1/system"));
    return nlohmann::json::parse(response.body).at("loop").at("latenessUs").at("p99").get<double>() /
           k_us_a_ms;
}

/// p99 of the server's timer while one client lists without a pause, or while nobody does anything.
double lateness_beside(const Server& server, const std::vector<std::string>& lists) {
    Lister lister(server);
    const auto began = Clock::now();
    for (std::size_t at = 0; ms_since(began) < sized(k_lateness_ms); ++at) {
        if (lists.empty())
            ::poll(nullptr, 0, k_look_ms);
        else
            lister.list_ms(lists[at % lists.size()]);
    }
    return lateness_p99_ms(server);
}

Result judge_rss(const Server& server, double settled_kb, double at_start_kb) {
    Result rss{.key = "server_rss_kb", .unit = "KB", .target = "<= 25,600"};
    rss.more["after_start_kb"] = at_start_kb;
    rss.more["before_lists_kb"] = settled_kb;
    rss.value = std::max(settled_kb, settled_rss_kb(server.pid()));
    rss.reached = *rss.value <= k_max_rss_kb;
    return rss;
}

}  // namespace

std::vector<Result> measure_resting() {
    const TempDir dir;
    const std::filesystem::path data_dir = dir.path() / "data";
    auto began = Clock::now();
    const Seed rows{sized(k_conversations), k_events, k_event_bytes};
    const Seeded seeded = seed(data_dir, rows);
    const double seeding_s = ms_since(began) / k_ms_a_s;
    auto options = seeded_options();
    options.emplace_back("--measure-loop");
    Result list{.key = "list_ms", .unit = "ms", .target = "p95 of the worst filter <= 5 ms"};
    list.more["conversations"] = static_cast<double>(rows.conversations);
    const std::vector<std::string> all = queries(seeded);
    Worst worst;
    Result rss;
    began = Clock::now();
    {
        const Server server(options, data_dir);
        list.more["start_s"] = ms_since(began) / k_ms_a_s;
        const double at_start_kb = rss_kb(server.pid());
        Connection connection(server.port());
        for (std::size_t i = 0; i < k_alive; ++i)
            server.create_conversation(connection, "shell");
        const double settled_kb = settled_rss_kb(server.pid());
        Lister lister(server);
        worst = worst_of(lister, all, list);
        rss = judge_rss(server, settled_kb, at_start_kb);
    }
    rss.more["conversations"] = list.more["conversations"];
    rss.more["seeding_s"] = seeding_s;
    std::fprintf(stderr, "bench: the slowest list: %s\n", worst.query.c_str());
    list.reached = *list.p95 <= k_max_list_ms;
    // A server counts how late its loop was from its start on, so each number has a server of its own.
    list.more["quiet_lateness_p99"] = lateness_beside(Server(options, data_dir), {});
    list.more["lateness_p99"] = lateness_beside(Server(options, data_dir), all);
    list.more["lateness_p99_of_the_worst"] = lateness_beside(Server(options, data_dir), {worst.query});
    return {rss, list};
}

}  // namespace atl::bench
