#include "tests/fuzz/support.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace atl::fuzz {

void require(bool holds, std::string_view what) {
    if (holds)
        return;
    std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
}

std::uint8_t Input::byte() {
    if (text_.empty())
        return 0;
    const auto value = static_cast<std::uint8_t>(text_.front());
    text_.remove_prefix(1);
    return value;
}

std::vector<std::string_view> cut(std::string_view text, std::uint8_t seed) {
    std::vector<std::string_view> pieces;
    std::uint32_t state = seed;
    while (!text.empty()) {
        state = state * 1103515245U + 12345U;
        const std::size_t most = 1U << (seed % 8U) << (seed % 16U == 7 ? 8U : 0U);
        const std::size_t size = seed == 0 ? text.size() : seed == 1 ? 1 : 1 + (state >> 16U) % most;
        pieces.push_back(text.substr(0, size));
        text.remove_prefix(std::min(size, text.size()));
    }
    return pieces;
}

Document read_document(std::string_view text) {
    using Json = nlohmann::json;
    Document document;
    std::vector<std::set<std::string>> names;
    const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
            document.depth = std::max(document.depth, static_cast<std::size_t>(depth) + 1);
            names.emplace_back();
        } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
            names.pop_back();
        } else if (event == Json::parse_event_t::key) {
            const auto name = parsed.get<std::string>();
            document.repeats_a_name |= !names.back().insert(name).second;
            if (depth == 1)
                document.top_names.push_back(name);
        } else if (event == Json::parse_event_t::value && parsed.is_number_float()) {
            document.has_wide_double |= std::fabs(parsed.get<double>()) >= 9007199254740992.0;
        }
        return true;
    };
    document.value = Json::parse(text.begin(), text.end(), look, false);
    document.accepted = !document.value.is_discarded();
    return document;
}

}  // namespace atl::fuzz
