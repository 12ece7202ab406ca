#include "http/access/client_address.hpp"

#include <algorithm>

#include "core/base/limits.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

// "192.0.2.1:80" and "[2001:db8::1]:80", as some proxies write them, without their port.
std::optional<IpAddress> parse_element(std::string_view text) {
    const auto is_port = [](std::string_view port) {
        return port.size() > 1 && port.front() == ':' && parse_decimal(port.substr(1));
    };
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos)
            return std::nullopt;
        const auto rest = text.substr(end + 1);
        const auto inside = text.substr(1, end - 1);
        const bool v6 = inside.find(':') != std::string_view::npos;
        return v6 && (rest.empty() || is_port(rest)) ? parse_address(inside) : std::nullopt;
    }
    const auto colon = text.find(':');
    const bool one_colon = colon != std::string_view::npos && text.rfind(':') == colon;
    if (one_colon && is_port(text.substr(colon)))
        return parse_address(text.substr(0, colon));
    return parse_address(text);
}

// Takes the element behind the last comma off `list`, trimmed.
std::string_view take_last(std::string_view& list) noexcept {
    const auto comma = list.rfind(',');
    const auto last = trimmed(comma == std::string_view::npos ? list : list.substr(comma + 1));
    list = list.substr(0, comma == std::string_view::npos ? 0 : comma);
    return last;
}

std::string_view last_element(const Request& request, std::string_view name) {
    for (auto field = request.fields.rbegin(); field != request.fields.rend(); ++field) {
        if (iequals(field->name, name)) {
            auto list = field->value;
            return take_last(list);
        }
    }
    return {};
}

// True if `text` may follow "//" in a URI: a host, perhaps with a port (RFC 3986 section 3.2).
bool is_authority(std::string_view text) noexcept {
    constexpr std::size_t k_longest = 255 + 6;  // a name of RFC 1035 and a port
    return is_visible_ascii(text, k_longest) && text.find_first_of("/?#@\\,\"<>") == std::string_view::npos;
}

// The walk over X-Forwarded-For, from the right.
class Walk {
  public:
    Walk(const PeerAddress& peer, const TrustedProxies& trusted) : found_(peer), trusted_(trusted) {}

    // Takes one field; the caller begins with the last field. False: the walk has ended.
    bool take(std::string_view list) {
        while (!list.empty()) {
            const auto element = take_last(list);
            if (element.empty())
                continue;  // RFC 9110 section 5.6.1.2
            const auto address = parse_element(element);
            broken_ = !address || ++hops_ > base::k_max_forwarded_hops;
            if (broken_)
                return false;
            found_ = address;
            if (!trusted_.contains(found_))
                return false;
        }
        return true;
    }

    bool broken() const noexcept { return broken_; }
    const PeerAddress& found() const noexcept { return found_; }

  private:
    PeerAddress found_;
    const TrustedProxies& trusted_;
    std::size_t hops_ = 0;
    bool broken_ = false;
};

PeerAddress address_of(const Request& request, const PeerAddress& peer, const TrustedProxies& trusted) {
    Walk walk(peer, trusted);
    for (auto field = request.fields.rbegin(); field != request.fields.rend(); ++field) {
        if (iequals(field->name, "X-Forwarded-For") && !walk.take(field->value))
            break;
    }
    return walk.broken() ? peer : walk.found();
}

}  // namespace

std::string address_text(const PeerAddress& address) {
    return address ? address->to_string() : "unix";
}

bool TrustedProxies::add(std::string_view text) {
    if (text == "unix") {
        unix_ = true;
        return true;
    }
    const auto prefix = parse_prefix(text);
    if (prefix)
        prefixes_.push_back(*prefix);
    return prefix.has_value();
}

bool TrustedProxies::contains(const PeerAddress& peer) const noexcept {
    if (!peer)
        return unix_;
    return std::any_of(prefixes_.begin(), prefixes_.end(),
                       [&](const IpPrefix& prefix) { return http::contains(prefix, *peer); });
}

Client client_of(const Request& request, const PeerAddress& peer, const TrustedProxies& trusted) {
    Client client;
    client.address = peer;
    client.is_trusted = trusted.contains(peer);
    if (!client.is_trusted)
        return client;
    client.address = address_of(request, peer, trusted);
    client.is_trusted = trusted.contains(client.address);
    const auto host = last_element(request, "X-Forwarded-Host");
    if (is_authority(host))
        client.host = host;
    const auto scheme = last_element(request, "X-Forwarded-Proto");
    for (const std::string_view known : {"http", "https"}) {
        if (iequals(scheme, known))
            client.scheme = known;
    }
    return client;
}

}  // namespace atl::http
