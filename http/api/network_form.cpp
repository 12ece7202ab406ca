#include "http/api/network_form.hpp"

#include <algorithm>

#include "core/egress/allow_list.hpp"
#include "core/plain/egress_limits.hpp"
#include "http/api/route_form.hpp"

namespace atl::http {
namespace {

constexpr std::size_t k_max_mode_bytes = 16;

/// The rules in normal form. Who sets them does not matter for their form.
void read_rules(ObjectReader& network, sandbox::EgressSettings& into) {
    const Json* const value = network.any("allow");
    if (value == nullptr)
        return;
    into.hosts = read_hosts(*value, network);
    if (network.failed())
        return;
    Json rules = *value;
    auto host = into.hosts.begin();
    for (Json& rule : rules) {
        if (host != into.hosts.end() && rule.is_object())
            rule = (host++)->name;
    }
    const auto list = egress::AllowList::from_json(rules, egress::SetBy::operator_key);
    if (list.has_error())
        network.fail(list.error());
    else
        into.allow = list->texts();
}

void write_rules(base::JsonWriter& json, const sandbox::EgressSettings& settings) {
    json.begin_array();
    for (const std::string& rule : settings.allow) {
        const auto host = std::find_if(settings.hosts.begin(), settings.hosts.end(),
                                       [&](const auto& each) { return each.name == rule; });
        if (host != settings.hosts.end())
            write_host(json, *host);
        else
            json.string(rule);
    }
    json.end_array();
}

}  // namespace

std::optional<sandbox::NetworkSettings> read_network(ObjectReader& reader) {
    const Json* const value = reader.any("network");
    if (value == nullptr)
        return std::nullopt;
    sandbox::NetworkSettings settings;
    if (value->is_string()) {
        const auto mode = sandbox::parse_network(value->get_ref<const std::string&>());
        if (!mode || *mode == sandbox::NetworkMode::egress)
            reader.fail("network",
                        "\"none\", \"host\", or an object such as {\"mode\": \"egress\", \"allow\": "
                        "[\"api.example.com\"]}");
        settings.mode = mode.value_or(settings.mode);
        return settings;
    }
    if (!value->is_object()) {
        reader.fail("network", "a string or an object");
        return std::nullopt;
    }
    ObjectReader network(*value, "network.");
    const auto word = network.string("mode", k_max_mode_bytes);
    const auto mode = word ? sandbox::parse_network(*word) : std::nullopt;
    if (!word)
        network.know({"allow", "routes", "ask"});
    if (!mode)
        network.fail("mode", "\"none\", \"host\" or \"egress\"");
    settings.mode = mode.value_or(settings.mode);
    if (settings.mode == sandbox::NetworkMode::egress) {
        read_rules(network, settings.egress);
        settings.egress.routes = read_routes(network);
        settings.egress.ask = network.boolean("ask").value_or(false);
    }
    if (auto finished = network.finish(); finished.has_error())
        reader.fail(finished.error());
    return settings;
}

std::optional<sandbox::NetworkSettings> read_network_alone(ObjectReader& reader) {
    auto network = read_network(reader);
    if (network && network->egress.ask)
        reader.fail(base::Error(base::Errc::invalid_field,
                                "`network.ask` belongs to the conversation: a sandbox without one has nobody "
                                "who could be asked.")
                        .at("/network/ask"));
    return network;
}

base::Result<void> claim_network(const Principal& principal, sandbox::NetworkSettings& network) {
    if (network.mode == sandbox::NetworkMode::host && principal.user_id)
        return base::Error(base::Errc::network_not_allowed, "Network \"host\" is for keys without a user.");
    network.egress.user_id = principal.user_id.value_or("");
    return {};
}

void write_network(base::JsonWriter& json, const sandbox::NetworkSettings& network) {
    if (network.mode != sandbox::NetworkMode::egress) {
        json.string(to_string(network.mode));
        return;
    }
    json.begin_object();
    json.key("mode").string(to_string(network.mode));
    write_rules(json.key("allow"), network.egress);
    write_routes(json.key("routes"), network.egress.routes);
    json.key("ask").raw(network.egress.ask ? "true" : "false");
    json.end_object();
}

void add_network_schemas(Schema& out) {
    out["NetworkMode"] =
        described(one_of({"none", "host", "egress"}),
                  "none: no network. host: the host's. egress: a proxy of the server's as the "
                  "one way out, to the hosts of a list. The last two where the server and the "
                  "key allow them.");
    Schema rules = list_of(any_of_these({text_up_to(base::k_max_egress_rule_bytes), ref("NetworkHost")}));
    rules["maxItems"] = base::k_max_egress_rules;
    add_route_schemas(out);
    Schema routes = list_of(ref("NetworkRoute"));
    routes["maxItems"] = base::k_max_routes;
    Schema settings = object(
        Members::optional,
        {{"mode", "The mode; a change counts from the next start of the sandbox on.", ref("NetworkMode")},
         {"allow",
          "With egress, the hosts that it reaches: HOST, HOST:PORT, HOST:PORT/tcp for bytes that are no "
          "TLS, or @GROUP; *.HOST for all names below. Ports 80 and 443 unless one is named. An object for "
          "a host whose requests get headers. A change counts at once, and cuts what is open against it.",
          std::move(rules)},
         {"routes",
          "With egress, upstreams with headers that are set outside. A change counts at once, its variables "
          "from the next start on.",
          std::move(routes)},
         {"ask",
          "With egress, and only in a conversation: a host that is not listed, and that the key which sets "
          "this may list, waits up to 60 s for a person, who hears of it by the event `egress_request`.",
          flag()}},
        {"mode"});
    out["Network"] =
        described(any_of_these({one_of({"none", "host"}), std::move(settings)}),
                  "The network of a sandbox, set as a whole: a mode that needs nothing else, or an "
                  "object. Each rule has the secrets and the bounds of the key that set it: where a key "
                  "without a user sends a rule as a key with a user had set it, it stays that user's.");
}

}  // namespace atl::http
