#include "http/api/openapi.hpp"

#include <algorithm>
#include <map>

#include "http/access/stream_tokens.hpp"
#include "http/api/examples.hpp"
#include "http/api/schema_parts.hpp"
#include "http/server/problem.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;

struct Described {
    std::string_view name;
    std::string_view means;
};

constexpr std::string_view k_about =
    "Sandboxes for agents: each conversation has an agent that runs in a sandbox of its own, and a log of "
    "numbered events. Times are UTC. An error is a Problem; decide by its `code`.";

// The first segment of a path below /v1 is the tag of its operations; `console` and `server` are the rest.
constexpr std::array k_tags = std::to_array<Described>({
    {"conversations", "Conversations, their messages, their events and the tokens that open them."},
    {"sandboxes", "Sandboxes, what they use and what they write, their programs and files."},
    {"tools", "The tools that models call."},
    {"execute", "Programs that models write: code mode."},
    {"executions", "Their runs: events, calls of tools, results."},
    {"executors", "The engines that run them."},
    {"secrets", "Values that routes of sandboxes set in requests, bound to hosts."},
    {"agents", "The agents that a conversation may have."},
    {"system", "What the server is, has and enforces."},
    {"server", "Whether the server runs, what it measures, and this document."},
    {"console", "The web console."},
});

// Parameters of paths, by the segment before them.
constexpr std::array k_path_parameters = std::to_array<Described>({
    {"conversations", "The id of the conversation."},
    {"sandboxes", "The id of the sandbox."},
    {"console", "The name of the file."},
    {"processes", "The `processId` of a process."},
    {"tools", "The name of the tool."},
    {"executions", "The id of the execution."},
    {"calls", "The `callId` of a call."},
    {"secrets", "The name of the secret."},
    {"egress", "The `id` of an `egress_request`."},
    {"permissions", "The `id` of a `permission_request`."},
});

template <class List>
std::string_view find_description(const List& list, std::string_view name) {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Described& one) { return one.name == name; });
    return found == list.end() ? std::string_view() : found->means;
}

std::string_view tag_of(std::string_view pattern) {
    take_element(pattern, '/');
    const std::string_view first = take_element(pattern, '/');
    if (first == "v1")
        return take_element(pattern, '/');
    return first.empty() || first == "console" ? "console" : "server";
}

Schema parameter(std::string_view name, std::string_view in, Schema schema, std::string_view means) {
    Schema out{{"name", name}, {"in", in}};
    if (in == "path")
        out["required"] = true;
    if (!means.empty())
        out["description"] = means;
    out["schema"] = std::move(schema);
    return out;
}

Schema parameters(const Route& route, const Schema& examples) {
    Schema list = Schema::array();
    std::string_view before;
    for (auto path = route.pattern; !path.empty();) {
        const auto segment = take_element(path, '/');
        const auto found = path_parameter(segment);
        if (found && found->spans)
            list.push_back(parameter(found->name, "path", text(),
                                     "All that is left of the path, slashes included: bytes, "
                                     "percent-encoded, of any kind but NUL; may be empty."));
        else if (found)
            list.push_back(
                parameter(found->name, "path", text(), find_description(k_path_parameters, before)));
        before = segment;
    }
    for (const auto& query : route.query) {
        // Exploded, the members of an object are parameters of their own.
        const auto name = query.is_family ? query.name.substr(0, query.name.size() - 1) : query.name;
        list.push_back(parameter(name, "query", Schema::parse(query.schema), query.description));
        if (query.is_required)
            list.back()["required"] = true;
        if (query.is_family) {
            list.back()["style"] = "form";
            list.back()["explode"] = true;
        }
    }
    for (const auto& header : route.headers)
        list.push_back(parameter(header.name, "header", text(), header.description));
    for (Schema& one : list) {
        const auto example = examples.find(one["name"].get<std::string>());
        if (example != examples.end())
            one["example"] = *example;
    }
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

std::string lower_method(Method method) {
    std::string name(to_string(method));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c | 0x20); });
    return name;
}

/// "too_many_requests" as "TooManyRequests".
std::string camel_case(std::string_view code) {
    std::string out;
    for (std::string_view left = code; !left.empty();) {
        const auto word = take_element(left, '_');
        out.append(1, static_cast<char>(word.front() - 'a' + 'A')).append(word.substr(1));
    }
    return out;
}

/// The problems of a route with one status: of most statuses many routes have the same ones.
struct Problems {
    unsigned status = 0;
    std::vector<Errc> codes;

    std::string name() const {
        std::string out;
        for (const Errc code : codes)
            out.append(out.empty() ? "" : "Or").append(camel_case(base::code_name(code)));
        return out;
    }
    Schema response() const {
        std::string means;
        Schema media{{"schema", ref("Problem")}};
        for (const Errc code : codes) {
            const std::string word(base::code_name(code));
            means.append(means.empty() ? "" : ", ").append(word);
            media["examples"][word]["$ref"] = "#/components/examples/" + word;
        }
        Schema out{{"description", std::move(means)}};
        if (status == 429 || status == 503)
            out["headers"]["Retry-After"] = {{"description", "Seconds after which to try again."},
                                             {"schema", {{"type", "integer"}, {"minimum", 1}}}};
        out["content"][std::string(k_problem_type)] = std::move(media);
        return out;
    }
};

std::vector<Problems> problems_of(const Route& route) {
    std::map<unsigned, Problems> by_status;
    for (const Errc code : possible_errors(route)) {
        Problems& problems = by_status[status_of(code)];
        problems.status = status_of(code);
        problems.codes.push_back(code);
    }
    std::vector<Problems> out;
    for (auto& [status, problems] : by_status)
        out.push_back(std::move(problems));
    return out;
}

class Document {
  public:
    explicit Document(const std::vector<Route>& routes) : routes_(routes) {
        for (const Route& route : routes)
            for (const Problems& problems : problems_of(route))
                ++uses_[problems.name()];
    }

    Schema made(std::string_view version) {
        Schema out{{"openapi", "3.1.0"}};
        out["info"] = {{"title", "Atoll"},
                       {"version", version},
                       {"description", k_about},
                       {"license", {{"name", "Apache 2.0"}, {"identifier", "Apache-2.0"}}}};
        out["servers"] = Schema::array({{{"url", "/"}, {"description", "The server of this document."}}});
        out["security"] = Schema::parse(R"([{"bearer":[]},{"apiKey":[]}])");
        for (const Described& tag : k_tags)
            out["tags"].push_back({{"name", tag.name}, {"description", tag.means}});
        Schema& paths = out["paths"];
        for (const Route& route : routes_)
            paths[path_template(route.pattern)][lower_method(route.method)] = operation(route);
        Schema& components = out["components"];
        components["securitySchemes"] = Schema::parse(
            R"json({"bearer":{"type":"http","scheme":"bearer","description":"A key."},)json"
            R"json("apiKey":{"type":"apiKey","in":"header","name":"X-API-Key","description":"A key."},)json"
            R"json("streamToken":{"type":"apiKey","in":"query","name":"token",)json"
            R"json("description":"A stream token (createStreamToken, createSandboxToken) of the scope that is named."}})json");
        components["schemas"] = component_schemas();
        components["responses"] = std::move(shared_);
        components["examples"] = std::move(problems_);
        return out;
    }

  private:
    Schema operation(const Route& route) {
        const Schema& all = examples_["operations"];
        const auto found = all.find(std::string(route.name));
        const Schema none = Schema::object();
        const Schema& examples = found == all.end() ? none : *found;
        Schema out{{"operationId", route.name}, {"summary", route.summary}};
        out["tags"] = Schema::array({tag_of(route.pattern)});
        if (route.auth == Auth::open)
            out["security"] = Schema::array();
        else if (route.auth == Auth::token_or_key) {
            out["security"] = Schema::parse(R"([{"bearer":[]},{"apiKey":[]},{"streamToken":[]}])");
            out["security"][2]["streamToken"].push_back(scope_name(route.token_scope));
        }
        if (auto list = parameters(route, examples.value("parameters", none)); !list.empty())
            out["parameters"] = std::move(list);
        if (route.body == BodyKind::stream) {
            // No schema: bytes of any kind, of any media type (OpenAPI 3.1, "Considerations for binary
            // data").
            out["requestBody"]["content"]["application/octet-stream"] = Schema::object();
        } else if (route.body != BodyKind::none) {
            Schema& body = out["requestBody"];
            body["required"] = route.body == BodyKind::json;
            Schema& media = body["content"]["application/json"];
            media["schema"] = ref(route.request_schema);
            if (examples.contains("request"))
                media["example"] = examples["request"];
        }
        out["responses"] = responses(route, examples.value("responses", none));
        return out;
    }

    Schema responses(const Route& route, const Schema& examples) {
        Schema out = Schema::object();
        bool succeeds = false;
        for (const auto& response : route.responses) {
            const std::string status = std::to_string(response.status);
            const std::string type(response.media_type);
            succeeds = succeeds || response.status / 100 == 2;
            Schema& entry = out[status];
            if (entry.is_null())
                entry["description"] = response.description;
            // Bytes have no schema.
            if (response.schema.empty() && type != "application/json")
                entry["content"][type] = Schema::object();
            if (response.schema.empty())
                continue;
            Schema& media = entry["content"][type];
            media["schema"] = ref(response.schema);
            if (examples.contains(status) && examples[status].contains(type))
                media["example"] = examples[status][type];
        }
        for (const Problems& problems : problems_of(route))
            out[std::to_string(problems.status)] = told(problems);
        // Checkers of documents ask for a success, and a WebSocket's 101 is none to them.
        if (!succeeds)
            out["default"] = {{"description", "Any other response is a Problem."},
                              {"content", {{k_problem_type, {{"schema", ref("Problem")}}}}}};
        return out;
    }

    /// The response, or a reference to it where several routes have it.
    Schema told(const Problems& problems) {
        for (const Errc code : problems.codes) {
            Schema& entry = problems_[std::string(base::code_name(code))];
            if (entry.is_null())
                entry = {{"summary", meaning_of(code)}, {"value", problem_example(code)}};
        }
        const std::string name = problems.name();
        if (uses_[name] < 2)
            return problems.response();
        if (!shared_.contains(name))
            shared_[name] = problems.response();
        return {{"$ref", "#/components/responses/" + name}};
    }

    /// An example of a problem from a test run, or as the server writes it: a test cannot cause each error.
    Schema problem_example(Errc code) {
        const Schema& recorded = examples_["problems"];
        const auto found = recorded.find(std::string(base::code_name(code)));
        if (found != recorded.end())
            return *found;
        return Schema::parse(problem(base::Error(code, std::string(meaning_of(code))), k_example_id).body);
    }

    const std::vector<Route>& routes_;
    const Schema examples_ = Schema::parse(examples_text());
    std::map<std::string, std::size_t> uses_;
    Schema shared_ = Schema::object();
    Schema problems_ = Schema::object();
};

}  // namespace

std::vector<Errc> possible_errors(const Route& route) {
    std::vector<Errc> errors{Errc::invalid_request, Errc::origin_not_allowed, Errc::request_timeout,
                             Errc::body_too_large,  Errc::host_not_allowed,   Errc::header_too_large,
                             Errc::internal,        Errc::shutting_down,      Errc::capacity,
                             Errc::target_too_long, Errc::too_many_requests,  Errc::too_many_connections};
    if (route.auth != Auth::open)
        errors.insert(errors.end(),
                      {Errc::unauthorized, Errc::invalid_authorization, Errc::invalid_key,
                       Errc::invalid_token, Errc::token_expired, Errc::token_scope, Errc::unknown_field});
    if (route.auth == Auth::token_or_key)
        errors.push_back(Errc::token_mismatch);
    if (route.body == BodyKind::json || route.body == BodyKind::optional_json)
        errors.insert(errors.end(), {Errc::invalid_json, Errc::invalid_utf8, Errc::unsupported_media_type,
                                     Errc::invalid_field, Errc::user_share});
    errors.insert(errors.end(), route.errors.begin(), route.errors.end());
    std::sort(errors.begin(), errors.end());
    errors.erase(std::unique(errors.begin(), errors.end()), errors.end());
    return errors;
}

Schema openapi_document(const std::vector<Route>& routes, std::string_view version) {
    return Document(routes).made(version);
}

}  // namespace atl::http
