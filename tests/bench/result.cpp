#include "tests/bench/result.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace atl::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string number(const std::optional<double>& value) {
    if (!value)
        return "";
    const double size = std::abs(*value);
    return fmt::format("{:.{}f}", *value, size < 1 ? 4 : size < 100 ? 2 : 0);
}

/// Rounded to what a measurement can know.
double rounded(double value) {
    return value == 0 ? 0 : std::stod(fmt::format("{:.5g}", value));
}

std::string verdict(const Result& result) {
    if (!result.error.empty())
        return "not measured";
    return !result.reached ? "" : *result.reached ? "reached" : "MISSED";
}

void put(Json& object, const char* name, const std::optional<double>& value) {
    if (value)
        object[name] = rounded(*value);
}

Json to_json(const Result& result) {
    Json object = Json::object();
    put(object, "value", result.value);
    put(object, "p50", result.p50);
    put(object, "p95", result.p95);
    put(object, "floor", result.floor);
    put(object, "ratio", result.ratio);
    object["unit"] = result.unit;
    object["target"] = result.target;
    if (result.reached)
        object["reached"] = *result.reached;
    for (const auto& [name, value] : result.more)
        object[name] = rounded(value);
    if (!result.error.empty())
        object["error"] = result.error;
    return object;
}

std::optional<double> read(const Json& object, const char* name) {
    const auto at = object.find(name);
    return at == object.end() ? std::optional<double>() : at->get<double>();
}

}  // namespace

void judge_p99(Result& result, std::span<const P99> loads) {
    const P99& worst = worst_p99(loads);
    result.target = k_p99_target;
    result.value = worst.ms;
    result.floor = worst.bare_ms;
    result.ratio = worst.ms / worst.bare_ms;
    result.reached = worst.ms <= p99_limit_ms(worst);
}

std::string table(const std::vector<Result>& results) {
    constexpr auto line = "{:<26} {:>12} {:>10} {:>12} {:>8}  {:<34} {}\n";
    std::string text = fmt::format(line, "measurement", "value / p50", "p95", "floor", "ratio", "target", "");
    for (const Result& result : results) {
        text += fmt::format(line, result.key, number(result.value ? result.value : result.p50),
                            number(result.p95), number(result.floor), number(result.ratio), result.target,
                            verdict(result));
        if (!result.error.empty())
            text += "  " + result.error + "\n";
        for (const auto& [name, value] : result.more)
            text += fmt::format("  {}: {}\n", name, number(value));
    }
    return text;
}

void write_json(const std::vector<Result>& results, const std::filesystem::path& file) {
    Json all = Json::object();
    for (const Result& result : results)
        all[result.key] = to_json(result);
    std::ofstream out(file);
    out << all.dump(2) << '\n';
    if (!out.flush())
        throw std::runtime_error("cannot write " + file.string());
}

std::string markdown(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in)
        throw std::runtime_error("cannot read " + file.string());
    std::string text =
        "| measurement | value or p50 | p95 | floor | ratio | target | reached "
        "|\n|---|---|---|---|---|---|---|\n";
    const Json all = Json::parse(in);
    for (const auto& [key, object] : all.items()) {
        const auto value = read(object, "value");
        const bool judged = object.contains("reached");
        text += fmt::format("| `{}` | {} {} | {} | {} | {} | {} | {} |\n", key,
                            number(value ? value : read(object, "p50")), object.value("unit", ""),
                            number(read(object, "p95")), number(read(object, "floor")),
                            number(read(object, "ratio")), object.value("target", ""),
                            object.contains("error") ? "not measured"
                            : !judged                ? ""
                            : object["reached"]      ? "yes"
                                                     : "no");
    }
    return text;
}

}  // namespace atl::bench
