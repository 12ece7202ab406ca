// Paired runs: measures two builds of the server in turns, with the same client.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/paired.hpp"
#include "tests/bench/result.hpp"

namespace atl::bench {

struct PairedPlan {
    std::filesystem::path with;     // the folder of the programs of the build with the trick
    std::filesystem::path without;  // and of the one without
    std::size_t pairs = 10;
};

/// A number that a measurement gives, with its values of all runs.
struct PairedNumbers {
    std::string name;
    Better better = Better::lower;
    std::vector<double> with;
    std::vector<double> without;
    std::string error;  // why there are none
};

/// Runs `measure` for both builds so often, each of them first in every other pair. `names`: KEY for the
/// value or median of a result, KEY.p95, KEY.NAME for one of its other numbers. A failed run fails them all.
std::vector<PairedNumbers> run_pairs(const PairedPlan& plan, const std::vector<std::string>& names,
                                     const std::function<std::vector<Result>()>& measure);

/// The numbers as a table in the form of tests/bench/README.md.
std::string paired_table(const std::vector<PairedNumbers>& all);
/// Every number of every run. Throws if the file cannot be written.
void write_paired_json(const std::vector<PairedNumbers>& all, const std::filesystem::path& file);

}  // namespace atl::bench
