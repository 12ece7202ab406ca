#include "core/base/json_dump.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/plain/json_text.hpp"

namespace atl::base {
namespace {

using Json = nlohmann::json;

void append(std::string& out, const Json& value) {
    bool is_first = true;
    const auto separate = [&] {
        if (!std::exchange(is_first, false))
            out += ',';
    };
    switch (value.type()) {
        case Json::value_t::object:
            out += '{';
            for (const auto& [name, member] : value.items()) {
                separate();
                append_json_string(out, name);
                out += ':';
                append(out, member);
            }
            out += '}';
            break;
        case Json::value_t::array:
            out += '[';
            for (const Json& item : value) {
                separate();
                append(out, item);
            }
            out += ']';
            break;
        case Json::value_t::string:
            append_json_string(out, value.get_ref<const std::string&>());
            break;
        case Json::value_t::number_unsigned:
            fmt::format_to(std::back_inserter(out), "{}", value.get<std::uint64_t>());
            break;
        case Json::value_t::number_integer:
            fmt::format_to(std::back_inserter(out), "{}", value.get<std::int64_t>());
            break;
        default:
            out += value.dump();
    }
}

}  // namespace

std::string json_dump(const Json& value) {
    std::string out;
    append(out, value);
    return out;
}

}  // namespace atl::base
