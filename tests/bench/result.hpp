// The result of a measurement, and the three forms in which it is told: a table, JSON, Markdown.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/p99.hpp"
#include "tests/bench/paired.hpp"
#include "tests/bench/sample.hpp"

namespace atl::bench {

struct Result {
    std::string key;
    std::string unit;
    std::string target;  // as text
    Better better = Better::lower;
    std::optional<double> value;  // of a single number
    std::optional<double> p50;    // of a distribution
    std::optional<double> p95;
    std::optional<double> floor;  // compares with value, or with p50
    std::optional<double> ratio;  // to the floor
    std::optional<bool> reached;  // the target
    std::map<std::string, double> more;
    std::string error;  // why there is no number
};

/// The samples of product and floor, which alternated.
struct Compared {
    Samples product;
    Samples floor;  // empty without one
};

/// The product's number as a value, where more of it is better, else as p50 and p95; the floor's median, and
/// their ratio.
void compare(Result& result, const Compared& compared);

/// The verdict on a client's p99 beside loads (p99.hpp), each load with a bare loop's beside it.
void judge_p99(Result& result, std::span<const P99> loads);

std::string table(const std::vector<Result>& results);

/// JSON: one object a key, numbers with five digits.
std::string json_text(const std::vector<Result>& results);
/// The results in such a text. Throws nlohmann::json::exception if it is none.
std::vector<Result> results_in(const std::string& text);

/// A table for docs/benchmarks.md.
std::string markdown(const std::vector<Result>& results);

}  // namespace atl::bench
