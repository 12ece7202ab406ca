// atoll-bench: the numbers that docs/benchmarks.md promises, measured on this machine against floors of this
// machine.
#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>

#include "tests/bench/bounded_run.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/paired_runs.hpp"
#include "tests/bench/sample.hpp"

namespace {

using namespace atl::bench;

struct Options {
    std::vector<std::string> only;
    std::string json;
    std::string markdown;
    Scope scope = Scope::product_and_floor;
    std::size_t sandboxes = 1000;
    bool must_reach = false;
    std::vector<std::string> paired;  // two folders, or none
    std::size_t pairs = 10;
};

// Most take less than 50 s, and with seeded rows less than 5 minutes: a deadline only ends what hangs.
constexpr std::chrono::seconds k_deadline{120};
constexpr std::chrono::seconds k_long_deadline{600};

/// A measurement that fills in one key or several.
struct Measure {
    std::vector<std::string> keys;
    bool has_floor;
    std::function<std::vector<Result>(const Options&)> run;
    std::chrono::seconds deadline = k_deadline;
};

std::vector<Measure> measures() {
    const auto one = [](Result result) { return std::vector<Result>{std::move(result)}; };
    return {
        {{"create_cold_ms"}, true, [=](const Options& o) { return one(measure_create(o.scope)); }},
        {{"create_warm_ms"}, false, [=](const Options& o) { return one(measure_create_warm(o.scope)); }},
        {{"resume_cold_ms"}, true, [=](const Options& o) { return one(measure_resume_cold(o.scope)); }},
        {{"resume_warm_ms"}, false, [=](const Options&) { return one(measure_resume_warm()); }},
        {{"message_ms"}, true, [=](const Options& o) { return one(measure_message(o.scope)); }},
        {{"ws_message_ms", "ws_message_to_beast"},
         true,
         [](const Options& o) { return measure_socket_message(o.scope); }},
        {{"fanout_ms", "fanout_to_beast"}, true, [](const Options& o) { return measure_fanout(o.scope); }},
        {{"stream_events_per_s"}, true, [=](const Options& o) { return one(measure_stream(o.scope)); }},
        {{"replay_mb_s"}, false, [=](const Options&) { return one(measure_replay()); }},
        {{"upload_mb_s", "download_mb_s"}, false, [](const Options&) { return measure_transfer(); }},
        {{"reactor_lateness_ms"}, false, [=](const Options&) { return one(measure_lateness()); }},
        {{"idle_ws_kb"}, false, [=](const Options&) { return one(measure_idle_sockets()); }},
        {{"exec_true_ms"}, true, [=](const Options& o) { return one(measure_exec(o.scope)); }},
        {{"exec_per_s"}, false, [=](const Options&) { return one(measure_exec_rate()); }},
        {{"execute_cold_ms"}, false, [=](const Options&) { return one(measure_execute_cold()); }},
        {{"execute_pooled_ms"},
         false,
         [=](const Options&) { return one(measure_execute_pooled()); },
         k_long_deadline},
        {{"pty_echo_ms"}, false, [=](const Options&) { return one(measure_terminal()); }},
        {{"turns_per_s"}, true, [=](const Options& o) { return one(measure_turns(o.scope)); }},
        {{"idle_sandbox_pss_kb", "idle_sandbox_memavail_kb"},
         false,
         [](const Options&) { return measure_idle(); }},
        {{"start_s"}, true, [=](const Options& o) { return one(measure_start(o.scope)); }, k_long_deadline},
        {{"server_rss_kb", "list_ms"},
         false,
         [](const Options&) { return measure_resting(); },
         k_long_deadline},
        {{"load_message_ms", "load_growth_kb", "load_cut"},
         false,
         [](const Options& o) { return measure_load(o.scope); }},
        {{"oom_to_event_ms"}, false, [=](const Options&) { return one(measure_oom()); }},
        {{"bomb_message_ms"}, false, [=](const Options& o) { return one(measure_bombs(o.scope)); }},
        {{"disk_overshoot_pct"}, false, [=](const Options&) { return one(measure_disk()); }},
        {{"walk_lateness_ms"}, false, [=](const Options&) { return one(measure_walk()); }},
        {{"create_storm_per_s"}, false, [=](const Options&) { return one(measure_storm()); }},
        {{"tool_read_ms", "tool_replace_ms"}, false, [](const Options& o) { return measure_tools(o.scope); }},
        {{"grep_ms"}, false, [=](const Options&) { return one(measure_grep()); }},
        {{"preview_rps"}, false, [=](const Options& o) { return one(measure_preview_rps(o.scope)); }},
        {{"preview_latency_ms"},
         false,
         [=](const Options& o) { return one(measure_preview_latency(o.scope)); }},
        {{"preview_mb_s"}, false, [=](const Options& o) { return one(measure_preview_bodies(o.scope)); }},
        {{"preview_ws_ms"}, false, [=](const Options& o) { return one(measure_preview_sockets(o.scope)); }},
        {{"preview_conns"}, false, [=](const Options&) { return one(measure_preview_connections()); }},
        {{"page_ms", "page_python_ms"}, false, [](const Options& o) { return measure_page(o.scope); }},
        {{"egress_connect_ms"},
         false,
         [=](const Options& o) { return one(measure_egress_connect(o.scope)); }},
        {{"egress_mb_s"}, false, [=](const Options& o) { return one(measure_egress_bodies(o.scope)); }},
        {{"route_first_byte_ms"}, false, [=](const Options& o) { return one(measure_route(o.scope)); }},
        {{"egress_message_ms"}, false, [=](const Options&) { return one(measure_egress_neighbour()); }},
        {{"agent_overhead_ms"},
         false,
         [=](const Options& o) { return one(measure_agent_overhead(o.scope)); }},
        {{"concurrent_sandboxes"},
         false,
         [=](const Options& o) { return one(measure_concurrent(o.sandboxes)); }},
    };
}

std::vector<std::string> all_keys() {
    std::vector<std::string> keys;
    for (const Measure& measure : measures())
        keys.insert(keys.end(), measure.keys.begin(), measure.keys.end());
    return keys;
}

/// Runs one; if it fails or does not end in time, its results have the reason instead of numbers.
std::vector<Result> run_one(const Measure& measure, const Options& options) {
    const auto failed = [&](const std::exception& error) {
        std::vector<Result> results;
        for (const std::string& key : measure.keys)
            results.push_back({.key = key, .error = error.what()});
        return results;
    };
    const auto run = [&] {
        try {
            return json_text(measure.run(options));
        } catch (const std::exception& error) {
            return json_text(failed(error));
        }
    };
    try {
        std::vector<Result> results = results_in(run_within(measure.deadline, run));
        for (Result& result : results) {
            if (is_short_run())
                result.reached.reset();
        }
        return results;
    } catch (const std::exception& error) {
        return failed(error);
    }
}

/// Runs what was asked for.
std::vector<Result> run(const Options& options) {
    std::vector<Result> results;
    for (const Measure& measure : measures()) {
        const auto wanted = [&](const std::string& key) {
            return options.only.empty() ||
                   std::find(options.only.begin(), options.only.end(), key) != options.only.end();
        };
        if (std::none_of(measure.keys.begin(), measure.keys.end(), wanted))
            continue;
        if (options.scope == Scope::floor_only && !measure.has_floor)
            continue;
        std::fprintf(stderr, "bench: %s\n", measure.keys.front().c_str());
        const std::vector<Result> found = run_one(measure, options);
        std::copy_if(found.begin(), found.end(), std::back_inserter(results),
                     [&](const Result& result) { return wanted(result.key); });
    }
    return results;
}

int compare_and_tell(Options options) {
    const PairedPlan plan{.with = options.paired[0], .without = options.paired[1], .pairs = options.pairs};
    options.scope = Scope::paired_run;
    std::vector<PairedNumbers> all;
    for (const Measure& measure : measures()) {
        std::vector<std::string> names;
        for (const std::string& name : options.only) {
            if (std::find(measure.keys.begin(), measure.keys.end(), name.substr(0, name.find('.'))) !=
                measure.keys.end())
                names.push_back(name);
        }
        if (names.empty())
            continue;
        const auto found = run_pairs(plan, names, [&] { return run_one(measure, options); });
        all.insert(all.end(), found.begin(), found.end());
    }
    std::fputs(paired_table(all).c_str(), stdout);
    if (!options.json.empty())
        write_paired_json(all, options.json);
    return std::all_of(all.begin(), all.end(), [](const PairedNumbers& each) { return each.error.empty(); })
               ? 0
               : 1;
}

void write_json(const std::vector<Result>& results, const std::string& file) {
    std::ofstream out(file);
    out << json_text(results);
    if (!out.flush())
        throw std::runtime_error("cannot write " + file);
}

std::string markdown_of(const std::string& file) {
    std::ifstream in(file);
    if (!in)
        throw std::runtime_error("cannot read " + file);
    return markdown(results_in({std::istreambuf_iterator<char>(in), {}}));
}

int measure_and_tell(const Options& options) {
    const std::vector<Result> results = run(options);
    std::fputs(table(results).c_str(), stdout);
    if (!options.json.empty())
        write_json(results, options.json);
    const bool failed = std::any_of(results.begin(), results.end(),
                                    [](const Result& result) { return !result.error.empty(); });
    const bool missed = std::any_of(results.begin(), results.end(),
                                    [](const Result& result) { return !result.reached.value_or(true); });
    return failed || results.empty() || (options.must_reach && missed) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    bool floors_only = false;
    bool is_short = false;
    CLI::App app("Measures atolld of this build. Exit status 1 if something could not be measured.",
                 "scripts/bench");
    app.add_option("--only", options.only, "Only these, separated by commas")
        ->delimiter(',')
        ->check(CLI::Validator(
            [](std::string& name) {
                const auto keys = all_keys();
                const bool known =
                    std::find(keys.begin(), keys.end(), name.substr(0, name.find('.'))) != keys.end();
                return known ? "" : "unknown measurement " + name;
            },
            CLI::IsMember(all_keys()).get_description()));
    app.add_option("--json", options.json, "Also write the results to this file");
    app.add_option("--markdown", options.markdown,
                   "Print the results in this file as a table for docs/benchmarks.md");
    app.add_option("--sandboxes", options.sandboxes, "How many for concurrent_sandboxes")
        ->capture_default_str();
    app.add_flag("--floors-only", floors_only, "Only the floors, without the server");
    app.add_option("--paired", options.paired,
                   "Compare two builds of the server, by the folders of their programs: the one with a "
                   "trick, the one without. --only names the numbers, as KEY, KEY.p95 or KEY.NAME")
        ->expected(2)
        ->check(CLI::ExistingDirectory);
    app.add_option("--pairs", options.pairs, "How often each of them runs")
        ->capture_default_str()
        ->check(CLI::Range(6, 1000));
    app.add_flag("--short", is_short,
                 "Measure each a little, a twentieth of the rounds, rows and clients: it shows that each "
                 "can be measured, and judges no target");
    app.add_flag("--must-reach", options.must_reach, "Exit status 1 also if a target is missed");
    CLI11_PARSE(app, argc, argv);
    if (!options.paired.empty() && options.only.empty()) {
        std::fputs("bench: --paired needs --only\n", stderr);
        return 2;
    }
    if (floors_only)
        options.scope = Scope::floor_only;
    if (is_short)
        make_run_short();
    try {
        if (!options.paired.empty())
            return compare_and_tell(options);
        if (options.markdown.empty())
            return measure_and_tell(options);
        std::fputs(markdown_of(options.markdown).c_str(), stdout);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench: %s\n", error.what());
        return 1;
    }
}
