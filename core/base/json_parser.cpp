#include "core/base/json_parser.hpp"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
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
using ErrorCode = boost::system::error_code;

// It may be ignored (RFC 8259, section 8.1).
constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

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

// Builds the value from the events of boost::json::basic_parser, which gives the functions their names. A
// call that returns false sets its last argument: the parser stops there.
class StrictBuilder {
  public:
    static constexpr std::size_t max_object_size = SIZE_MAX;
    static constexpr std::size_t max_array_size = SIZE_MAX;
    static constexpr std::size_t max_key_size = SIZE_MAX;
    static constexpr std::size_t max_string_size = SIZE_MAX;

    explicit StrictBuilder(JsonBudget& budget) : budget_(budget) {}

    Json value;
    std::string refusal;
    Errc code = Errc::invalid_json;

    static bool on_document_begin(ErrorCode&) { return true; }
    static bool on_document_end(ErrorCode&) { return true; }
    bool on_null(ErrorCode& stop) { return add(nullptr, stop); }
    bool on_bool(bool v, ErrorCode& stop) { return add(v, stop); }
    bool on_int64(std::int64_t v, std::string_view, ErrorCode& stop) {
        return v < 0 ? add(v, stop) : add(static_cast<std::uint64_t>(v), stop);
    }
    bool on_uint64(std::uint64_t v, std::string_view, ErrorCode& stop) { return add(v, stop); }
    bool on_double(double v, std::string_view text, ErrorCode& stop) {
        if (!std::isfinite(v))
            return halt("", stop);
        if (is_kept(v, text))
            return add(v, stop);
        return halt("The integer " + escaped(text, k_told_name_bytes) +
                        " has more digits than a number keeps: write it as a string.",
                    stop);
    }
    static bool on_number_part(std::string_view, ErrorCode&) { return true; }
    bool on_string_part(std::string_view text, std::size_t, ErrorCode&) {
        text_ += text;
        return true;
    }
    bool on_string(std::string_view text, std::size_t, ErrorCode& stop) { return add(whole(text), stop); }
    bool on_key_part(std::string_view text, std::size_t, ErrorCode&) {
        text_ += text;
        return true;
    }
    bool on_key(std::string_view text, std::size_t, ErrorCode& stop) {
        key_ = whole(text);
        if (open_.back()->contains(key_))
            return halt("The name \"" + escaped(key_, k_told_name_bytes) + "\" comes twice in one object.",
                        stop);
        if (open_.back()->size() >= budget_.members)
            return exceed(
                "An object of the JSON has more than " + std::to_string(budget_.members) + " members.", stop);
        return true;
    }
    bool on_object_begin(ErrorCode& stop) { return open(Json::object(), stop); }
    bool on_object_end(std::size_t, ErrorCode&) { return close(); }
    bool on_array_begin(ErrorCode& stop) { return open(Json::array(), stop); }
    bool on_array_end(std::size_t, ErrorCode&) { return close(); }
    static bool on_comment_part(std::string_view, ErrorCode&) { return true; }
    static bool on_comment(std::string_view, ErrorCode&) { return true; }

  private:
    static constexpr std::size_t k_told_name_bytes = 100;

    bool halt(std::string why, ErrorCode& stop) {
        refusal = std::move(why);
        stop = make_error_code(boost::system::errc::invalid_argument);
        return false;
    }
    bool exceed(std::string why, ErrorCode& stop) {
        code = Errc::body_too_large;
        return halt(std::move(why), stop);
    }
    /// The text that ends with `last`: the parser gives it in parts where it has escapes.
    std::string whole(std::string_view last) {
        text_ += last;
        return std::exchange(text_, {});
    }
    /// Counts one more value. False: it is one too many.
    bool count(ErrorCode& stop) {
        return ++budget_.used <= budget_.nodes ||
               exceed("The JSON has more than " + std::to_string(budget_.nodes) + " values.", stop);
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
    bool add(Json v, ErrorCode& stop) {
        if (!count(stop))
            return false;
        place(std::move(v));
        return true;
    }
    bool open(Json container, ErrorCode& stop) {
        if (!count(stop))
            return false;
        if (open_.size() >= k_max_json_depth)
            return halt("The JSON is nested deeper than " + std::to_string(k_max_json_depth) + " levels.",
                        stop);
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
    std::string text_;  // that has come in parts
};

boost::json::parse_options strict_options() {
    boost::json::parse_options options;
    options.max_depth = k_max_json_depth + 1;  // the builder refuses it before
    options.numbers = boost::json::number_precision::precise;
    return options;
}

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
    const std::size_t from = text.starts_with(k_byte_order_mark) ? k_byte_order_mark.size() : 0;
    boost::json::basic_parser<StrictBuilder> parser(strict_options(), budget);
    ErrorCode error;
    const std::size_t taken = from + parser.write_some(false, text.data() + from, text.size() - from, error);
    StrictBuilder& builder = parser.handler();
    if (!error && taken == text.size())
        return std::move(builder.value);
    if (builder.refusal.empty())
        builder.refusal = "The body is not JSON: look at byte " + std::to_string(taken + 1) + '.';
    return Error(builder.code, std::move(builder.refusal));
}

}  // namespace atl::base
