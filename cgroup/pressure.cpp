#include "cgroup/pressure.hpp"

#include <charconv>

#include "cgroup/files.hpp"

namespace atl::cgroup {
namespace {

/// The total of the line that begins with `word`: "some avg10=0.00 avg60=0.00 avg300=0.00 total=335504".
std::optional<std::uint64_t> total_of(std::string_view text, std::string_view word) {
    constexpr std::string_view k_total = " total=";
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const auto at = line.find(k_total);
        if (!line.starts_with(word) || at == std::string_view::npos)
            continue;
        const std::string_view digits = line.substr(at + k_total.size());
        std::uint64_t total = 0;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), total).ec == std::errc())
            return total;
    }
    return std::nullopt;
}

}  // namespace

std::optional<sandbox::Pressure> parse_pressure(std::string_view text) {
    const auto some = total_of(text, "some ");
    if (!some)
        return std::nullopt;
    // Kernels before 5.13 tell no `full` of the processors.
    return sandbox::Pressure{*some, total_of(text, "full ").value_or(0)};
}

void read_pressure(int folder, sandbox::Usage& usage) {
    usage.memory_pressure = parse_pressure(read_at(folder, "memory.pressure"));
    usage.cpu_pressure = parse_pressure(read_at(folder, "cpu.pressure"));
    usage.io_pressure = parse_pressure(read_at(folder, "io.pressure"));
}

}  // namespace atl::cgroup
