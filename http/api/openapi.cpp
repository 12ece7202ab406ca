#include "http/api/openapi.hpp"

#include <algorithm>
#include <map>

#include "http/server/problem.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using OrderedJson = nlohmann::ordered_json;

OrderedJson reference(std::string_view schema) {
    return OrderedJson{{"$ref", "#/components/schemas/" + std::string(schema)}};
}

OrderedJson parameter(std::string_view name, std::string_view in, OrderedJson schema) {
    OrderedJson out{{"name", name}, {"in", in}};
    if (in == "path")
        out["required"] = true;
    out["schema"] = std::move(schema);
    return out;
}

OrderedJson parameters(const Route& route) {
    OrderedJson list = OrderedJson::array();
    const OrderedJson text{{"type", "string"}};
    auto path = route.pattern;
    while (!path.empty()) {
        const auto segment = take_element(path, '/');
        const auto found = path_parameter(segment);
        if (!found)
            continue;
        list.push_back(parameter(found->name, "path", text));
        if (found->spans)
            list.back()["description"] =
                "All that is left of the path, slashes included: bytes, percent-encoded, of any kind but "
                "NUL; may be empty.";
    }
    for (const auto& query : route.query) {
        list.push_back(parameter(query.name, "query", OrderedJson::parse(query.schema)));
        list.back()["description"] = query.description;
    }
    for (const auto header : route.headers)
        list.push_back(parameter(header, "header", text));
    return list;
}

// OpenAPI knows no parameter that spans segments: it stands there as a plain one, and its description says
// so.
std::string path_template(std::string_view pattern) {
    std::string out;
    for (auto left = pattern.substr(1); !left.empty();) {
        const auto segment = take_element(left, '/');
        const auto found = path_parameter(segment);
        out.append("/").append(found ? "{" + std::string(found->name) + "}" : std::string(segment));
    }
    return out.empty() ? "/" : out;
}

OrderedJson responses(const Route& route) {
    OrderedJson out = OrderedJson::object();
    for (const auto& response : route.responses) {
        OrderedJson& entry = out[std::to_string(response.status)];
        if (entry.is_null())
            entry["description"] = response.description;
        if (!response.schema.empty())
            entry["content"][std::string(response.media_type)]["schema"] = reference(response.schema);
    }
    std::map<unsigned, std::string> codes;
    for (const Errc error : possible_errors(route)) {
        auto& list = codes[status_of(error)];
        list.append(list.empty() ? "" : ", ").append(base::code_name(error));
    }
    for (const auto& [status, list] : codes) {
        OrderedJson& entry = out[std::to_string(status)];
        entry["description"] = list;
        entry["content"][std::string(k_problem_type)]["schema"] = reference("Problem");
        if (status == 429 || status == 503)
            entry["headers"]["Retry-After"]["schema"] = OrderedJson{{"type", "integer"}, {"minimum", 1}};
    }
    return out;
}

OrderedJson operation(const Route& route) {
    OrderedJson out{{"operationId", route.name}, {"summary", route.summary}};
    if (route.auth == Auth::open)
        out["security"] = OrderedJson::array();
    else if (route.auth == Auth::token_or_key)
        out["security"] = OrderedJson::parse(R"([{"bearer":[]},{"apiKey":[]},{"streamToken":[]}])");
    if (auto list = parameters(route); !list.empty())
        out["parameters"] = std::move(list);
    if (route.body == BodyKind::stream) {
        // No schema: bytes of any kind, of any media type (OpenAPI 3.1, "Considerations for binary data").
        out["requestBody"]["content"]["application/octet-stream"] = OrderedJson::object();
    } else if (route.body != BodyKind::none) {
        OrderedJson& body = out["requestBody"];
        body["required"] = route.body == BodyKind::json;
        body["content"]["application/json"]["schema"] = reference(route.request_schema);
    }
    out["responses"] = responses(route);
    return out;
}

std::string lower_method(Method method) {
    std::string name(to_string(method));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c | 0x20); });
    return name;
}

}  // namespace

std::vector<Errc> possible_errors(const Route& route) {
    std::vector<Errc> errors{Errc::invalid_request, Errc::origin_not_allowed, Errc::request_timeout,
                             Errc::body_too_large,  Errc::host_not_allowed,   Errc::header_too_large,
                             Errc::internal,        Errc::shutting_down,      Errc::capacity,
                             Errc::target_too_long, Errc::too_many_requests,  Errc::too_many_connections};
    if (route.auth != Auth::open)
        errors.insert(errors.end(), {Errc::unauthorized, Errc::unknown_field});
    if (route.auth == Auth::token_or_key)
        errors.push_back(Errc::token_expired);
    if (route.body == BodyKind::json || route.body == BodyKind::optional_json)
        errors.insert(errors.end(), {Errc::invalid_json, Errc::invalid_utf8, Errc::unsupported_media_type,
                                     Errc::invalid_field});
    errors.insert(errors.end(), route.errors.begin(), route.errors.end());
    std::sort(errors.begin(), errors.end());
    errors.erase(std::unique(errors.begin(), errors.end()), errors.end());
    return errors;
}

std::string openapi_document(const std::vector<Route>& routes, std::string_view version) {
    OrderedJson out{{"openapi", "3.1.0"}};
    out["info"] = OrderedJson{{"title", "Atoll"}, {"version", version}};
    out["security"] = OrderedJson::parse(R"([{"bearer":[]},{"apiKey":[]}])");
    OrderedJson& paths = out["paths"];
    for (const Route& route : routes)
        paths[path_template(route.pattern)][lower_method(route.method)] = operation(route);
    out["components"]["securitySchemes"] = OrderedJson::parse(
        R"({"bearer":{"type":"http","scheme":"bearer"},"apiKey":{"type":"apiKey","in":"header","name":"X-API-Key"},)"
        R"("streamToken":{"type":"apiKey","in":"query","name":"token"}})");
    out["components"]["schemas"] = component_schemas();
    return out.dump();
}

}  // namespace atl::http
