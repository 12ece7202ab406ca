#include "tests/isolation/results.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sstream>

namespace atl::test {

Results::Results(const std::string& output) {
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);) {
        const auto space = line.rfind(' ');
        INFO("the probe printed: " << output);
        REQUIRE(space != std::string::npos);
        results_[line.substr(0, space)] = line.substr(space + 1);
    }
    INFO("the probe printed: " << output);
    REQUIRE_FALSE(results_.empty());
}

const std::string& Results::operator[](const std::string& name) const {
    const auto found = results_.find(name);
    if (found == results_.end())
        FAIL("the probe told nothing of " << name);
    return found->second;
}

std::set<std::string> Results::names() const {
    std::set<std::string> all;
    for (const auto& [name, result] : results_)
        all.insert(name);
    return all;
}

std::string Results::others_than(const std::set<std::string>& wanted) const {
    std::string others;
    for (const auto& [name, result] : results_) {
        if (!wanted.contains(result))
            others += name + "=" + result + " ";
    }
    return others;
}

std::set<std::string> Results::with(const std::string& result) const {
    std::set<std::string> found;
    for (const auto& [name, one] : results_) {
        if (one == result)
            found.insert(name);
    }
    return found;
}

std::set<std::string> lines_of(const std::string& text) {
    std::set<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (!line.empty())
            lines.insert(line);
    }
    return lines;
}

}  // namespace atl::test
