#include "http/api/route_form.hpp"

#include <algorithm>

#include "core/egress/limits.hpp"
#include "core/egress/pattern.hpp"
#include "core/egress/route.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using sandbox::EgressRoute;
using sandbox::RouteHeader;

constexpr std::size_t k_max_upstream_bytes = 1024;
constexpr std::size_t k_max_endpoint_bytes = egress::k_max_name_bytes + 1 + 6;  // a dot and a port behind it
constexpr std::size_t k_max_route_value_bytes = 8 * 1024;
constexpr std::size_t k_max_secret_name_bytes = 64;
constexpr std::size_t k_max_variable_name_bytes = 128;

/// Nothing, and no error: a variable is not set.
std::optional<RouteHeader> read_header(const Json& value, const std::string& name, ObjectReader& headers,
                                       const std::string& path, const RouteVariables* variables) {
    RouteHeader header{name, "", ""};
    if (!egress::is_route_header(name)) {
        headers.fail(name, "a header that a route can set: a token, and none of the connection's own");
        return std::nullopt;
    }
    if (value.is_string()) {
        header.value = value.get<std::string>();
    } else if (value.is_object()) {
        ObjectReader source(value, path + name + '.');
        header.value = source.string("prefix", k_max_route_value_bytes).value_or("");
        const auto secret = source.string("secret", k_max_secret_name_bytes);
        const auto variable =
            variables != nullptr ? source.string("env", k_max_variable_name_bytes) : std::nullopt;
        if (secret.value_or("").empty() == variable.value_or("").empty())
            source.fail("secret", "the name of a secret");
        if (auto finished = source.finish(); finished.has_error()) {
            headers.fail(finished.error());
            return std::nullopt;
        }
        header.secret = secret.value_or("");
        if (variable) {
            const auto set = (*variables)(*variable);
            if (!set)
                return std::nullopt;
            header.value += *set;
        }
    } else {
        headers.fail(name, "a text or {\"secret\": NAME}");
        return std::nullopt;
    }
    if (header.value.size() > k_max_route_value_bytes || !egress::is_header_value(header.value)) {
        headers.fail(name, "a text of visible ASCII, spaces and tabs");
        return std::nullopt;
    }
    return header;
}

/// False, and no error: a variable is not set.
bool read_headers(ObjectReader& reader, const std::string& path, EgressRoute& route,
                  const RouteVariables* variables) {
    const Json* const value = reader.object("headers");
    if (value == nullptr)
        return true;
    if (value->size() > base::k_max_route_headers) {
        reader.fail("headers", "at most " + std::to_string(base::k_max_route_headers) + " headers");
        return true;
    }
    const std::string headers_path = path + "headers.";
    ObjectReader headers(*value, headers_path);
    bool has_all = true;
    for (const auto& [name, member] : value->items()) {
        const bool is_twice =
            std::any_of(route.headers.begin(), route.headers.end(),
                        [&field = name](const auto& other) { return iequals(other.name, field); });
        if (is_twice)
            headers.fail(name, "there once: upper and lower case do not matter");
        if (auto header = read_header(member, name, headers, headers_path, variables))
            route.headers.push_back(std::move(*header));
        else
            has_all = false;
        (void)headers.any(name);  // known
    }
    if (auto finished = headers.finish(); finished.has_error())
        reader.fail(finished.error());
    return has_all;
}

std::vector<std::string> read_texts(ObjectReader& reader, std::string_view name, std::size_t most,
                                    bool (*is_good)(std::string_view) noexcept, std::string_view must_be) {
    std::vector<std::string> texts;
    const Json* const value = reader.any(name);
    if (value == nullptr)
        return texts;
    if (!value->is_array() || value->size() > most) {
        reader.fail(name, "an array of at most " + std::to_string(most) + " texts");
        return texts;
    }
    for (const Json& item : *value) {
        const bool fits = item.is_string() && is_good(item.get_ref<const std::string&>());
        if (!fits)
            reader.fail(name, must_be);
        else
            texts.push_back(item.get<std::string>());
    }
    return texts;
}

void read_bounds(ObjectReader& reader, EgressRoute& route) {
    route.methods = read_texts(reader, "methods", base::k_max_route_methods, egress::is_route_method,
                               "an array of methods such as \"GET\"; none is CONNECT or TRACE");
    route.paths = read_texts(reader, "paths", base::k_max_route_paths, egress::is_path_pattern,
                             "an array of paths such as \"/v1/models\" or \"/v1/*\", without \"..\", \"//\" "
                             "or encoded forms of them");
}

/// Nothing, and no error: a variable is not set.
std::optional<EgressRoute> read_route(const Json& value, const std::string& path, ObjectReader& network,
                                      const RouteVariables* variables) {
    ObjectReader reader(value, path);
    EgressRoute route;
    route.name = reader.string("name", egress::k_max_route_name_bytes).value_or("");
    if (!egress::is_route_name(route.name))
        reader.fail("name", "1 to 64 letters, digits, '-' and '_'");
    const auto upstream =
        egress::parse_upstream(reader.string("upstream", k_max_upstream_bytes).value_or(""));
    if (upstream)
        route.upstream = upstream->text();
    else
        reader.fail("upstream",
                    "an address such as \"https://api.example.com\", perhaps with a port and a path");
    const bool has_all = read_headers(reader, path, route, variables);
    read_bounds(reader, route);
    route.git = reader.boolean("git").value_or(false);
    if (auto finished = reader.finish(); finished.has_error()) {
        network.fail(finished.error());
        return std::nullopt;
    }
    if (!has_all)
        return std::nullopt;
    return route;
}

std::optional<EgressRoute> read_host(const Json& value, const std::string& path, ObjectReader& network) {
    ObjectReader reader(value, path);
    EgressRoute host;
    const auto endpoint = egress::parse_endpoint(reader.string("host", k_max_endpoint_bytes).value_or(""),
                                                 egress::k_https_port);
    if (endpoint && !endpoint->host.address) {
        host.name = endpoint->text();
        host.upstream = egress::Upstream{egress::Scheme::https, *endpoint, ""}.text();
    } else {
        reader.fail("host", "the name of one host such as \"api.example.com\", perhaps with a port");
    }
    if (reader.any("headers") == nullptr)
        reader.fail("headers", "there: an object with what is set in each request, which may be empty");
    read_headers(reader, path, host, nullptr);
    read_bounds(reader, host);
    if (auto finished = reader.finish(); finished.has_error()) {
        network.fail(finished.error());
        return std::nullopt;
    }
    return host;
}

std::size_t bytes_of(const EgressRoute& route) {
    std::size_t bytes = route.name.size() + route.upstream.size();
    for (const RouteHeader& header : route.headers)
        bytes += header.name.size() + header.value.size() + header.secret.size();
    for (const std::string& method : route.methods)
        bytes += method.size();
    for (const std::string& path : route.paths)
        bytes += path.size();
    return bytes;
}

void write_texts(base::JsonWriter& json, const std::vector<std::string>& texts) {
    json.begin_array();
    for (const std::string& each : texts)
        json.string(each);
    json.end_array();
}

/// The members that rules of both kinds have.
void write_rule(base::JsonWriter& json, const EgressRoute& route) {
    json.key("headers").begin_object();
    for (const RouteHeader& header : route.headers) {
        json.key(header.name);
        if (header.secret.empty()) {
            json.string(header.value);
            continue;
        }
        json.begin_object();
        json.key("secret").string(header.secret);
        if (!header.value.empty())
            json.key("prefix").string(header.value);
        json.end_object();
    }
    json.end_object();
    if (!route.methods.empty())
        write_texts(json.key("methods"), route.methods);
    if (!route.paths.empty())
        write_texts(json.key("paths"), route.paths);
}

/// Adds `rule` to those of `member`, whose names have to differ and whose texts are bounded.
void add_rule(std::vector<EgressRoute>& rules, EgressRoute rule, std::string_view member,
              ObjectReader& network) {
    const bool is_taken =
        std::any_of(rules.begin(), rules.end(), [&](const auto& other) { return other.name == rule.name; });
    if (is_taken)
        network.fail(member, "rules with a name of their own each: \"" + rule.name + "\" is there twice");
    rules.push_back(std::move(rule));
    std::size_t bytes = 0;
    for (const EgressRoute& each : rules)
        bytes += bytes_of(each);
    if (bytes > base::k_max_routes_bytes)
        network.fail(member, "at most " + std::to_string(base::k_max_routes_bytes) +
                                 " bytes of texts in rules with headers");
}

}  // namespace

std::vector<EgressRoute> read_routes(ObjectReader& reader, const RouteVariables* variables) {
    std::vector<EgressRoute> routes;
    const Json* const value = reader.any("routes");
    if (value == nullptr)
        return routes;
    if (!value->is_array() || value->size() > base::k_max_routes) {
        reader.fail("routes", "an array of at most " + std::to_string(base::k_max_routes) + " routes");
        return routes;
    }
    const std::string path = variables == nullptr ? "network.routes[" : "routes[";
    for (std::size_t i = 0; i < value->size(); ++i) {
        auto route = read_route((*value)[i], path + std::to_string(i) + "].", reader, variables);
        if (route)
            add_rule(routes, std::move(*route), "routes", reader);
    }
    return routes;
}

std::vector<EgressRoute> read_hosts(const Json& allow, ObjectReader& network) {
    std::vector<EgressRoute> hosts;
    if (!allow.is_array())
        return hosts;
    for (std::size_t i = 0; i < allow.size() && !network.failed(); ++i) {
        if (!allow[i].is_object())
            continue;
        auto host = read_host(allow[i], "network.allow[" + std::to_string(i) + "].", network);
        if (!host)
            continue;
        if (hosts.size() == base::k_max_routes)
            network.fail("allow", "a list with at most " + std::to_string(base::k_max_routes) +
                                      " hosts that have headers");
        add_rule(hosts, std::move(*host), "allow", network);
    }
    return hosts;
}

void write_host(base::JsonWriter& json, const EgressRoute& host) {
    json.begin_object();
    json.key("host").string(host.name);
    write_rule(json, host);
    json.end_object();
}

void write_routes(base::JsonWriter& json, const std::vector<EgressRoute>& routes) {
    json.begin_array();
    for (const EgressRoute& route : routes) {
        json.begin_object();
        json.key("name").string(route.name);
        json.key("upstream").string(route.upstream);
        write_rule(json, route);
        if (route.git)
            json.key("git").raw("true");
        json.end_object();
    }
    json.end_array();
}

void add_route_schemas(Schema& out) {
    Schema secret = object(Members::optional,
                           {{"secret", "The name of a secret whose hosts have the upstream.",
                             text_up_to(k_max_secret_name_bytes)},
                            {"prefix", "Stands before its value, as \"Bearer \".",
                             Schema{{"type", "string"}, {"maxLength", k_max_route_value_bytes}}}},
                           {"secret"});
    Schema literal{{"type", "string"}, {"maxLength", k_max_route_value_bytes}};
    Schema headers{{"type", "object"},
                   {"maxProperties", base::k_max_route_headers},
                   {"additionalProperties", any_of_these({std::move(literal), std::move(secret)})}};
    Schema methods = list_of(text_up_to(egress::k_max_method_bytes));
    methods["maxItems"] = base::k_max_route_methods;
    Schema paths = list_of(text_up_to(egress::k_max_path_bytes));
    paths["maxItems"] = base::k_max_route_paths;
    out["NetworkHost"] = described(
        object(
            Members::optional,
            {{"host",
              "The name of one host, with port 443 unless it has another; bound as the other rules of "
              "`allow`.",
              text_up_to(k_max_endpoint_bytes)},
             {"headers",
              "What the server sets in each request, in place of what programs inside say: a text, or a "
              "secret, which they never see.",
              headers},
             {"methods", "The methods that pass; all where it is missing or empty.", methods},
             {"paths", "The paths that pass, each exact or ending in `*`; all where it is missing or empty.",
              paths}},
            {"host", "headers"}),
        "A host whose TLS ends at the server, by an issuer that the sandbox alone trusts: requests to it "
        "over "
        "HTTPS get headers that programs inside do not see.");
    out["NetworkRoute"] = described(
        object(
            Members::optional,
            {{"name",
              "Programs inside reach the upstream at http://127.0.0.1:3129/NAME. `anthropic`, "
              "`openai` and `gemini` also set the variables that clients of these read.",
              text_up_to(egress::k_max_route_name_bytes)},
             {"upstream",
              "https://HOST, perhaps with a port and a path; bound as the hosts of `allow`. http:// only to "
              "addresses that the operator opens with --egress-private.",
              text_up_to(k_max_upstream_bytes)},
             {"headers",
              "What the server sets in each request, in place of what programs inside say: a text, or a "
              "secret, which they never see.",
              std::move(headers)},
             {"methods", "The methods that pass; all where it is missing or empty.", std::move(methods)},
             {"paths",
              "The paths behind the name that pass, each exact or ending in `*`; all where it is missing or "
              "empty.",
              std::move(paths)},
             {"git", "git inside uses the route for addresses that begin with `upstream`.", flag()}},
            {"name", "upstream"}),
        "An upstream that programs inside reach with headers that they do not see.");
}

}  // namespace atl::http
