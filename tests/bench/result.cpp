#include "tests/bench/result.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

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

struct Number {
    const char* name;
    std::optional<double> Result::*member;
};

// All other numbers of an object are those of Result::more.
constexpr std::array k_numbers{Number{"value", &Result::value}, Number{"p50", &Result::p50},
                               Number{"p95", &Result::p95}, Number{"floor", &Result::floor},
                               Number{"ratio", &Result::ratio}};

Json to_json(const Result& result) {
    Json object = Json::object();
    for (const Number& each : k_numbers) {
        if (const auto& value = result.*each.member)
            object[each.name] = rounded(*value);
    }
    object["unit"] = result.unit;
    object["target"] = result.target;
    if (result.better == Better::higher)
        object["better"] = "higher";
    if (result.reached)
        object["reached"] = *result.reached;
    for (const auto& [name, value] : result.more)
        object[name] = rounded(value);
    if (!result.error.empty())
        object["error"] = result.error;
    return object;
}

Result from_json(const std::string& key, const Json& object) {
    Result result{.key = key};
    result.unit = object.value("unit", "");
    result.target = object.value("target", "");
    result.error = object.value("error", "");
    if (object.contains("better"))
        result.better = Better::higher;
    if (object.contains("reached"))
        result.reached = object["reached"].get<bool>();
    for (const auto& [name, value] : object.items()) {
        if (value.is_number())
            result.more[name] = value;
    }
    for (const Number& each : k_numbers) {
        if (const auto found = result.more.extract(each.name))
            result.*each.member = found.mapped();
    }
    return result;
}

}  // namespace

void compare(Result& result, const Compared& compared) {
    if (result.better == Better::higher) {
        result.value = compared.product.p50();
    } else {
        result.p50 = compared.product.p50();
        result.p95 = compared.product.p95();
    }
    if (compared.floor.empty())
        return;
    result.floor = compared.floor.p50();
    result.ratio = compared.product.p50() / *result.floor;
}

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

std::string json_text(const std::vector<Result>& results) {
    Json all = Json::object();
    for (const Result& result : results)
        all[result.key] = to_json(result);
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::vector<Result> results_in(const std::string& text) {
    std::vector<Result> results;
    const Json all = Json::parse(text);
    for (const auto& [key, object] : all.items())
        results.push_back(from_json(key, object));
    return results;
}

std::string markdown(const std::vector<Result>& results) {
    std::string text =
        "| measurement | value or p50 | p95 | floor | ratio | target | reached "
        "|\n|---|---|---|---|---|---|---|\n";
    for (const Result& result : results) {
        text += fmt::format("| `{}` | {} {} | {} | {} | {} | {} | {} |\n", result.key,
                            number(result.value ? result.value : result.p50), result.unit, number(result.p95),
                            number(result.floor), number(result.ratio), result.target,
                            !result.error.empty() ? "not measured"
                            : !result.reached     ? ""
                            : *result.reached     ? "yes"
                                                  : "no");
    }
    return text;
}

}  // namespace atl::bench
