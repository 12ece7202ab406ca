#include "core/base/json_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/plain/utf8.hpp"

namespace atl::base {
namespace {

using Json = nlohmann::json;

/// A number as it is written: digits without zeros around them, times 10 to the power of `exponent`.
struct Written {
    std::string digits;
    long exponent = 0;
    int power = 0;  // of its own exponent

    explicit Written(std::string_view text) {
        const std::size_t e = std::min(text.find_first_of("eE"), text.size());
        bool is_fraction = false;
        for (const char each : text.substr(0, e)) {
            is_fraction = is_fraction || each == '.';
            if (each < '0' || each > '9')
                continue;
            exponent -= is_fraction ? 1 : 0;
            if (each != '0' || !digits.empty())
                digits += each;
        }
        const std::size_t size = digits.find_last_not_of('0') + 1;
        exponent += static_cast<long>(digits.size() - size);
        digits.erase(size);
        const std::size_t from = e + (e + 1 < text.size() && text[e + 1] == '+' ? 2 : 1);
        if (from < text.size())
            std::from_chars(text.data() + from, text.data() + text.size(), power);
        exponent += power;
    }
};

/// False for an integer that becomes another number, also if it is written with a point or an exponent. One
/// beyond 64 bits with a positive exponent is what programs write for a double, with one digit or another.
bool is_kept(double value, std::string_view text) {
    constexpr double k_exact = 9007199254740992.0;  // below, each integer is a double
    constexpr double k_integers_end = 18446744073709551616.0;
    const Written written(text);
    if (std::fabs(value) < k_exact || written.exponent < 0 ||
        (written.power > 0 && std::fabs(value) >= k_integers_end))
        return true;
    std::array<char, 32> shortest{};
    const auto end =
        std::to_chars(shortest.begin(), shortest.end(), value, std::chars_format::scientific).ptr;
    const std::string_view kept(shortest.data(), static_cast<std::size_t>(end - shortest.data()));
    return written.digits == Written(kept).digits;
}

// Builds the value from the parser's events, which come from a loop and not from recursion.
class StrictBuilder final : public nlohmann::json_sax<Json> {
  public:
    explicit StrictBuilder(JsonBudget& budget) : budget_(budget) {}

    Json value;
    std::string refusal;
    Errc code = Errc::invalid_json;

    bool null() override { return add(nullptr); }
    bool boolean(bool v) override { return add(v); }
    bool number_integer(number_integer_t v) override { return add(v); }
    bool number_unsigned(number_unsigned_t v) override { return add(v); }
    bool number_float(number_float_t v, const string_t& text) override {
        if (is_kept(v, text))
            return add(v);
        refusal = "The integer " + escaped(text, k_told_name_bytes) +
                  " has more digits than a number keeps: write it as a string.";
        return false;
    }
    bool string(string_t& v) override { return add(std::move(v)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        if (open_.back()->contains(name)) {
            refusal = "The name \"" + escaped(name, k_told_name_bytes) + "\" comes twice in one object.";
            return false;
        }
        if (open_.back()->size() >= budget_.members)
            return exceed("An object of the JSON has more than " + std::to_string(budget_.members) +
                          " members.");
        key_ = std::move(name);
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        refusal = "The body is not JSON: look at byte " + std::to_string(position) + '.';
        return false;
    }

  private:
    static constexpr std::size_t k_told_name_bytes = 100;

    bool exceed(std::string why) {
        code = Errc::body_too_large;
        refusal = std::move(why);
        return false;
    }
    /// Counts one more value. False: it is one too many.
    bool count() {
        return ++budget_.used <= budget_.nodes ||
               exceed("The JSON has more than " + std::to_string(budget_.nodes) + " values.");
    }
    Json* place(Json&& v) {
        if (open_.empty()) {
            value = std::move(v);
            return &value;
        }
        Json& parent = *open_.back();
        if (parent.is_object())
            return &(parent[std::move(key_)] = std::move(v));
        parent.push_back(std::move(v));
        return &parent.back();
    }
    bool add(Json v) {
        if (!count())
            return false;
        place(std::move(v));
        return true;
    }
    bool open(Json container) {
        if (!count())
            return false;
        if (open_.size() >= k_max_json_depth) {
            refusal = "The JSON is nested deeper than " + std::to_string(k_max_json_depth) + " levels.";
            return false;
        }
        open_.push_back(place(std::move(container)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    JsonBudget& budget_;
    std::vector<Json*> open_;
    std::string key_;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
    JsonBudget all;
    return parse_json(text, all);
}

Result<Json> parse_json(std::string_view text, JsonBudget& budget) {
    if (text.empty())
        return Error(Errc::invalid_json, "The body is empty, and JSON is expected.");
    if (!is_utf8(text))
        return Error(Errc::invalid_utf8, "The body is not UTF-8.");
    // nlohmann takes a NUL for the end of the text and ignores the rest.
    if (const auto nul = text.find('\0'); nul != std::string_view::npos)
        return Error(Errc::invalid_json,
                     "The body is not JSON: look at byte " + std::to_string(nul + 1) + '.');
    StrictBuilder builder(budget);
    if (!Json::sax_parse(text, &builder))
        return Error(builder.code, std::move(builder.refusal));
    return std::move(builder.value);
}

}  // namespace atl::base
