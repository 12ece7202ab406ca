#include "core/egress/host.hpp"

#include <algorithm>
#include <charconv>

#include "core/egress/limits.hpp"

namespace atl::egress {
namespace {

constexpr std::string_view k_digits = "0123456789";
constexpr std::string_view k_name_characters = "abcdefghijklmnopqrstuvwxyz0123456789._-";

std::string in_lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower;
}

bool consists_of(std::string_view text, std::string_view characters) {
    return text.find_first_not_of(characters) == std::string_view::npos;
}

bool has_good_labels(std::string_view name) {
    while (true) {
        const auto dot = name.find('.');
        const auto label = name.substr(0, dot);
        if (label.empty() || label.size() > k_max_label_bytes)
            return false;
        if (dot == std::string_view::npos)
            return true;
        name.remove_prefix(dot + 1);
    }
}

// Resolvers of C libraries and of browsers read such a name as an IPv4 address, each in its own way.
bool looks_numeric(std::string_view name) {
    const auto dot = name.rfind('.');
    const auto last = dot == std::string_view::npos ? name : name.substr(dot + 1);
    return consists_of(last, k_digits) ||
           (last.starts_with("0x") && consists_of(last.substr(2), "0123456789abcdef"));
}

std::optional<Host> literal(std::string_view text, bool is_v6) {
    const auto address = base::parse_address(text);
    // parse_address() unmaps, and the text would be a second spelling of an IPv4 address.
    if (!address || address->is_v6() != is_v6)
        return std::nullopt;
    return Host{address->to_string(), address};
}

}  // namespace

std::string Host::in_url() const {
    return address && address->is_v6() ? '[' + name + ']' : name;
}

std::optional<Host> parse_host(std::string_view text) {
    if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
        return literal(text.substr(1, text.size() - 2), true);
    if (text.ends_with('.'))
        text.remove_suffix(1);
    if (text.size() > k_max_name_bytes)
        return std::nullopt;
    std::string name = in_lower_case(text);
    if (!consists_of(name, k_name_characters) || !has_good_labels(name))
        return std::nullopt;
    if (looks_numeric(name))
        return literal(name, false);
    return Host{std::move(name), std::nullopt};
}

std::optional<std::uint16_t> parse_port(std::string_view text) noexcept {
    std::uint16_t port = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, port);
    if (error != std::errc() || stop != end || text.front() == '0')
        return std::nullopt;
    return port;
}

std::string Endpoint::text() const {
    return host.in_url() + ':' + std::to_string(port);
}

std::optional<Endpoint> parse_endpoint(std::string_view authority, std::uint16_t default_port) {
    const auto colon = authority.rfind(':');
    const auto bracket = authority.rfind(']');
    const bool has_port =
        colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
    auto host = parse_host(has_port ? authority.substr(0, colon) : authority);
    const auto port = has_port ? parse_port(authority.substr(colon + 1)) : std::optional(default_port);
    if (!host || !port || *port == 0)
        return std::nullopt;
    return Endpoint{std::move(*host), *port};
}

}  // namespace atl::egress
