#include "tests/bench/sample.hpp"

#include <algorithm>
#include <cmath>

namespace atl::bench {

double Samples::percentile(double share) const {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted.at(std::clamp<std::size_t>(rank, 1, sorted.size()) - 1);
}

}  // namespace atl::bench
