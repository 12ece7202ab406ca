#include "core/egress/pattern.hpp"

#include <utility>

#include "core/egress/limits.hpp"

namespace atl::egress {
namespace {

using base::Errc;
using base::Error;

// The text of strangers in a sentence: cut, and without bytes that a terminal or JSON would take for more.
std::string shown(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, k_max_rule_bytes))
        out += c > ' ' && c < 0x7f ? c : '?';
    return '"' + out + (text.size() > k_max_rule_bytes ? "…\"" : "\"");
}

Error bad(std::string_view text, std::string must_be) {
    return {Errc::invalid_field, std::move(must_be) + ", not " + shown(text)};
}

bool is_below(std::string_view name, std::string_view domain) noexcept {
    return name.size() > domain.size() && name.ends_with(domain) &&
           name[name.size() - domain.size() - 1] == '.';
}

}  // namespace

base::Result<Pattern> Pattern::parse(std::string_view text) {
    Pattern pattern;
    std::string_view rest = text;
    if (text.size() > k_max_rule_bytes)
        return bad(text, "must have at most " + std::to_string(k_max_rule_bytes) + " bytes");
    if (rest.ends_with("/tcp")) {
        pattern.bytes = Bytes::any;
        rest.remove_suffix(4);
    }
    if (const auto colon = rest.rfind(':');
        colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
        const auto port = parse_port(rest.substr(colon + 1));
        if (!port)
            return bad(
                text,
                "must have a port from 1 to 65535 behind its colon, and brackets around an IPv6 address");
        pattern.port = *port;
        rest = rest.substr(0, colon);
    }
    if (rest == "*") {
        pattern.hosts = Hosts::all;
        return pattern;
    }
    if (rest.starts_with("*.")) {
        pattern.hosts = Hosts::below;
        rest.remove_prefix(2);
    }
    auto host = parse_host(rest);
    if (!host)
        return bad(text,
                   "must be HOST[:PORT][/tcp] with a host as api.example.com, *.example.org, 192.0.2.1, "
                   "[2001:db8::1] or *");
    if (pattern.hosts == Hosts::below && (host->address || host->name.find('.') == std::string::npos))
        return bad(text, "must have a name of at least two labels behind the asterisk, as *.example.org");
    pattern.host = std::move(*host);
    return pattern;
}

std::string Pattern::text() const {
    std::string text = hosts == Hosts::one ? host.in_url() : hosts == Hosts::below ? "*." + host.name : "*";
    if (port != 0)
        text += ':' + std::to_string(port);
    return bytes == Bytes::any ? text + "/tcp" : text;
}

std::vector<std::uint16_t> Pattern::ports() const {
    if (port != 0)
        return {port};
    return {k_http_port, k_https_port};
}

bool Pattern::has_port(std::uint16_t wanted) const noexcept {
    return port == 0 ? wanted == k_http_port || wanted == k_https_port : wanted == port;
}

bool Pattern::matches(const Endpoint& endpoint) const noexcept {
    if (!has_port(endpoint.port))
        return false;
    switch (hosts) {
        case Hosts::one:
            return endpoint.host == host;
        case Hosts::below:
            return !endpoint.host.address && is_below(endpoint.host.name, host.name);
        case Hosts::all:
            return !endpoint.host.address;
    }
    return false;
}

bool Pattern::covers_hosts(const Pattern& other) const noexcept {
    switch (hosts) {
        case Hosts::one:
            return other.hosts == Hosts::one && other.host == host;
        case Hosts::below:
            return other.hosts != Hosts::all && !other.is_literal() &&
                   (is_below(other.host.name, host.name) ||
                    (other.hosts == Hosts::below && other.host == host));
        case Hosts::all:
            return !other.is_literal();
    }
    return false;
}

}  // namespace atl::egress
