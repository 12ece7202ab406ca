#include "tests/bench/paired_runs.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/sample.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {
namespace {

/// The number that `name` (KEY or KEY.NAME) means. Throws if it was not measured.
double number_of(const std::vector<Result>& results, const std::string& name) {
    const std::size_t dot = name.find('.');
    const std::string key = name.substr(0, dot);
    const std::string detail = dot == std::string::npos ? "" : name.substr(dot + 1);
    const auto result =
        std::find_if(results.begin(), results.end(), [&](const Result& each) { return each.key == key; });
    if (result == results.end())
        throw std::runtime_error(name + " was not measured");
    if (!result->error.empty())
        throw std::runtime_error(result->error);
    const auto more = result->more.find(detail);
    std::optional<double> number = result->value ? result->value : result->p50;
    if (detail == "p95")
        number = result->p95;
    else if (!detail.empty())
        number = more == result->more.end() ? std::optional<double>() : more->second;
    if (!number || *number <= 0)
        throw std::runtime_error(name + " has no number above 0");
    return *number;
}

Better better_of(const std::vector<Result>& results, const std::string& name) {
    for (const Result& result : results) {
        if (name == result.key)
            return result.better;
        if (name.starts_with(result.key + "."))
            return better_of(std::string_view(name).substr(result.key.size() + 1), result.better);
    }
    return Better::lower;
}

double median(const std::vector<double>& numbers) {
    Samples samples;
    for (const double number : numbers)
        samples.add(number);
    return samples.p50();
}

}  // namespace

std::vector<PairedNumbers> run_pairs(const PairedPlan& plan, const std::vector<std::string>& names,
                                     const std::function<std::vector<Result>()>& measure) {
    std::vector<PairedNumbers> all;
    for (const std::string& name : names)
        all.push_back({.name = name});
    const auto run = [&](const std::filesystem::path& programs, std::vector<double> PairedNumbers::*side) {
        use_server_of(programs);
        const std::vector<Result> results = measure();
        for (PairedNumbers& numbers : all) {
            numbers.better = better_of(results, numbers.name);
            (numbers.*side).push_back(number_of(results, numbers.name));
        }
    };
    try {
        for (std::size_t pair = 0; pair < plan.pairs; ++pair) {
            std::fprintf(stderr, "bench: %s, pair %zu of %zu\n", names.front().c_str(), pair + 1, plan.pairs);
            if (pair % 2 == 1)
                run(plan.without, &PairedNumbers::without);
            run(plan.with, &PairedNumbers::with);
            if (pair % 2 == 0)
                run(plan.without, &PairedNumbers::without);
        }
    } catch (const std::exception& error) {
        for (PairedNumbers& numbers : all)
            numbers.error = error.what();
    }
    return all;
}

std::string paired_table(const std::vector<PairedNumbers>& all) {
    std::string text =
        "| number | with | without | cost of going without | 95 % interval | verdict |\n"
        "|---|---|---|---|---|---|\n";
    for (const PairedNumbers& numbers : all) {
        if (!numbers.error.empty()) {
            text += fmt::format("| `{}` | not measured: {} |  |  |  |  |\n", numbers.name, numbers.error);
            continue;
        }
        text += fmt::format("| `{}` | {:.4g} | {:.4g} | ", numbers.name, median(numbers.with),
                            median(numbers.without));
        const auto cost = compare(numbers.with, numbers.without, numbers.better);
        text += !cost ? "|  | too few pairs |\n"
                      : fmt::format("{:+.1f} % | {:+.1f} to {:+.1f} % | {} |\n", cost->median * 100,
                                    cost->low * 100, cost->high * 100,
                                    trick_stays(*cost) ? "stays" : "simpler form");
    }
    return text;
}

void write_paired_json(const std::vector<PairedNumbers>& all, const std::filesystem::path& file) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const PairedNumbers& numbers : all) {
        auto& entry = object[numbers.name];
        entry["better"] = numbers.better == Better::lower ? "lower" : "higher";
        entry["with"] = numbers.with;
        entry["without"] = numbers.without;
        if (!numbers.error.empty())
            entry["error"] = numbers.error;
        if (const auto cost = compare(numbers.with, numbers.without, numbers.better);
            cost && numbers.error.empty())
            entry["cost"] = {{"median", cost->median}, {"low", cost->low}, {"high", cost->high}};
    }
    std::ofstream out(file);
    out << object.dump(2) << '\n';
    if (!out.flush())
        throw std::runtime_error("cannot write " + file.string());
}

}  // namespace atl::bench
