#include "core/base/json_parser.hpp"

#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/plain/utf8.hpp"

namespace atl::base {
namespace {

using Json = nlohmann::json;

/// False for an integer that becomes another number: one of more than 64 bits is kept as a double.
bool is_kept(double value, std::string_view text) {
    if (text.find_first_of(".eE") != std::string_view::npos)
        return true;
    const auto significant = [](std::string_view digits) {
        std::string out;
        for (const char each : digits.substr(0, digits.find('e')))
            if (each >= '0' && each <= '9')
                out += each;
        out.erase(out.find_last_not_of('0') + 1);
        return out;
    };
    std::array<char, 32> shortest{};
    const auto end =
        std::to_chars(shortest.begin(), shortest.end(), value, std::chars_format::scientific).ptr;
    return significant(text) ==
           significant({shortest.data(), static_cast<std::size_t>(end - shortest.data())});
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
