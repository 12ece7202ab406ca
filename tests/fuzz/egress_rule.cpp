// Hosts, endpoints and rules of the network `egress`: what is taken has one spelling, which is read back as
// the same; no name is one that the C library reads as an address; a pattern matches what it covers.
#include "core/egress/allow_list.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "core/egress/limits.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

void check_host(std::string_view text) {
    const auto host = egress::parse_host(text);
    if (!host)
        return;
    require(host->name.size() <= egress::k_max_name_bytes && !host->name.empty(),
            "a name is within its bound");
    require(egress::parse_host(host->in_url()) == host, "a host is read back from its text");
    in_addr ignored{};
    require(host->address || ::inet_aton(host->name.c_str(), &ignored) == 0, "a name is no address");
    require(!host->address || host->address->to_string() == host->name, "a literal is the address");
}

void check_pair(std::string_view rule, std::string_view authority) {
    const auto endpoint = egress::parse_endpoint(authority, 80);
    if (endpoint)
        require(egress::parse_endpoint(endpoint->text()) == endpoint,
                "an endpoint is read back from its text");
    const auto pattern = egress::Pattern::parse(rule);
    if (pattern.has_error()) {
        require(pattern.error().detail().starts_with("must "), "a refusal says what a rule must be");
        return;
    }
    const std::string normal = pattern->text();
    require(normal.size() <= egress::k_max_rule_bytes, "a rule is within its bound");
    require(egress::Pattern::parse(normal).value() == *pattern, "a rule is read back from its normal form");
    if (!endpoint)
        return;
    egress::Pattern one;
    one.host = endpoint->host;
    require(pattern->matches(*endpoint) == (pattern->has_port(endpoint->port) && pattern->covers_hosts(one)),
            "a pattern matches the hosts that it covers, at its ports");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto text = input.rest();
    const auto line = text.substr(0, text.find('\n'));
    check_host(line);
    check_pair(line, text.substr(std::min(line.size() + 1, text.size())));
    return 0;
}
