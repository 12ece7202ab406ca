// X-Forwarded-For and prefixes: for any fields, the client is the peer, a named proxy of the list, or the
// first address from the right that is no named proxy, as a plain reader finds it. Fields from a peer that is
// no named proxy are ignored.
#include "http/access/client_address.hpp"

#include "core/base/limits.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

http::TrustedProxies trusted() {
    http::TrustedProxies made;
    require(made.add("10.0.0.0/8") && made.add("2001:db8::/32"), "these are prefixes");
    return made;
}

// An address as a proxy writes it, by the longest beginning that is one.
http::PeerAddress read_element(std::string_view text) {
    if (const auto plain = http::parse_address(text))
        return plain;
    const auto colon = text.rfind(':');
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        const bool whole = end + 1 == text.size();
        const bool port = colon == end + 1 && http::parse_decimal(text.substr(colon + 1));
        if (end == std::string_view::npos || !(whole || port) || text.substr(1, end - 1).find(':') > end)
            return std::nullopt;
        return http::parse_address(text.substr(1, end - 1));
    }
    if (colon == std::string_view::npos || !http::parse_decimal(text.substr(colon + 1)))
        return std::nullopt;
    const auto v4 = http::parse_address(text.substr(0, colon));
    return v4 && text.find(':') == colon ? v4 : std::nullopt;
}

// From the left, over the whole list at once.
http::PeerAddress reference(std::string_view list, const http::PeerAddress& peer,
                            const http::TrustedProxies& proxies) {
    std::vector<std::string_view> elements;
    while (!list.empty()) {
        const auto element = http::take_element(list, ',');
        if (!element.empty())
            elements.push_back(element);
    }
    http::PeerAddress found = peer;
    std::size_t hops = 0;
    for (auto at = elements.rbegin(); at != elements.rend(); ++at) {
        const auto address = read_element(*at);
        if (!address || ++hops > base::k_max_forwarded_hops)
            return peer;
        found = address;
        if (!proxies.contains(found))
            break;
    }
    return found;
}

void check_fields(std::string_view list, std::string_view other, const http::TrustedProxies& proxies) {
    http::Request request;
    request.fields = {{"x-forwarded-for", list}, {"X-Forwarded-Host", other}, {"X-Forwarded-Proto", other}};
    const auto proxy = http::parse_address("10.0.0.1");
    const auto client = http::client_of(request, proxy, proxies);
    require(client.address == reference(list, proxy, proxies), "the client is who a plain reader finds");
    require(client.is_trusted == proxies.contains(client.address), "trust is of the client");
    require(client.host.find_first_of("/@?# ,") == std::string_view::npos, "a host is a host");
    require(client.scheme.empty() || client.scheme == "http" || client.scheme == "https", "a known scheme");
    const auto stranger = http::parse_address("192.0.2.1");
    const auto direct = http::client_of(request, stranger, proxies);
    require(direct.address == stranger && direct.host.empty() && direct.scheme.empty(),
            "nothing counts from a stranger");
}

void check_prefix(std::string_view text) {
    if (const auto address = http::parse_address(text))
        require(http::parse_address(address->to_string()) == address,
                "an address is read back from its text");
    const auto prefix = http::parse_prefix(text);
    if (!prefix)
        return;
    const auto first = http::parse_address(text.substr(0, text.find('/')));
    require(first && http::contains(*prefix, *first), "a prefix holds its first address");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const http::TrustedProxies proxies = trusted();
    fuzz::Input input(data, size);
    const auto text = input.rest();
    const auto line = text.substr(0, text.find('\n'));
    check_fields(line, text.substr(std::min(line.size() + 1, text.size())), proxies);
    check_prefix(line);
    return 0;
}
