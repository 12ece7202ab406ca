#include "tests/integration/example_recorder.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <regex>
#include <sstream>

namespace atl::test {
namespace {

const char* const k_request_id = "7f3kq0x9d2m5v8w1c4zr";

/// Members whose values depend on the host or the moment: their type is compared, the value made.
const OrderedJson& made_members() {
    static const OrderedJson members = OrderedJson::parse(R"json({
        "version": "0.1.0",
        "bubblewrap": "0.8.0",
        "logEpoch": "k3m9x2p7",
        "etag": "\"1a2f-10-69b8e2c1.9c8a1f3-69b8e2c1.9c8a1f3\"",
        "enforcement": {"filesystem": "bubblewrap", "network": "netns", "syscalls": "seccomp", "uid": "private",
            "memory": "cgroup2", "cpu": "cgroup2", "processes": "cgroup2", "sockets": "count", "disk": "quota",
            "tmp": "tmpfs"},
        "notEnforced": {},
        "warmPause": "cgroup2",
        "codeMode": ["python"],
        "maxSandboxes": 200,
        "durationMs": 4, "usedBytes": 4403200, "peakBytes": 4612096, "usageUs": 7807, "inodes": 3, "processes": 2, "sockets": 1,
        "endByte": 0, "terminal": true, "someUs": 8179, "fullUs": 8058,
        "expiresAt": "2026-01-15T09:35:00.000Z", "startedAt": "2026-01-15T09:30:07.000Z"
    })json");
    return members;
}

std::string percent_encoded(const std::string& text) {
    std::ostringstream out;
    out << std::hex << std::uppercase;
    for (const unsigned char c : text) {
        if (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.')
            out << c;
        else
            out << '%' << (c < 16 ? "0" : "") << static_cast<int>(c);
    }
    return out.str();
}

std::string as_text(const OrderedJson& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

// An invented token of the same scope.
std::string made_token(const std::string& real) {
    const auto scope = real.find('.', real.find('.') + 1) + 1;
    return "v1.0c7wq5n2x8d4k1v9m3zr." + real.substr(scope, real.find('.', scope) - scope) +
           ".1768469700.1f0e2d3c4b5a69788796a5b4c3d2e1f0";
}

bool is_pressure(const std::string& name, const OrderedJson& value) {
    return value.is_null() && (name == "memory" || name == "cpu" || name == "io");
}

}  // namespace

std::string MadeValues::id(const std::string& real) {
    if (real == k_request_id)
        return real;
    const auto [found, is_new] = ids_.try_emplace(real);
    if (is_new) {
        std::uint64_t state = 0x9e3779b97f4a7c15 * ids_.size();
        for (int i = 0; i < 20; ++i) {
            state = state * 6364136223846793005 + 1442695040888963407;
            found->second += "0123456789abcdefghijklmnopqrstuvwxyz"[(state >> 33) % 36];
        }
    }
    return found->second;
}

std::string MadeValues::of_line(const std::string& line) {
    static const std::regex volatile_part(
        R"(\bv1\.[a-z0-9]{20}\.[a-z]+\.\d+\.[0-9a-f]+\b|\b[a-z0-9]{20}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\b\d+ m?s\b|127\.0\.0\.1:\d+|localhost:3\d{4}|^id: \d+-[a-z0-9]{8}$)");
    std::string out;
    auto rest = line.cbegin();
    for (std::sregex_iterator at(line.begin(), line.end(), volatile_part), end; at != end; ++at) {
        out.append(rest, (*at)[0].first);
        rest = (*at)[0].second;
        const std::string found = (*at)[0];
        if (found.starts_with("id: "))
            out += found.substr(0, found.find('-') + 1) + as_text(made_members()["logEpoch"]);
        else if (found.starts_with("v1."))
            out += made_token(found);
        else if (found.starts_with("127."))
            out += "127.0.0.1:4100";
        else if (found.starts_with("localhost:"))
            out += "localhost:31415";
        else if (found.ends_with(" ms"))
            out += "12 ms";
        else if (found.ends_with(" s"))
            out += "60 s";
        else if (found.ends_with('Z'))
            out += "2026-01-15T09:30:00.000Z";
        else
            out += id(found);
    }
    return out.append(rest, line.cend());
}

std::string MadeValues::of_text(const std::string& text) {
    std::string out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::string field = line.starts_with("data: ") ? "data: " : "";
        if (line.starts_with(field + "{") && OrderedJson::accept(line.substr(field.size())))
            out += field + of(OrderedJson::parse(line.substr(field.size()))).dump();
        else
            out += of_line(line);
        out += '\n';
    }
    if (!text.ends_with('\n') && !out.empty())
        out.pop_back();
    return out;
}

OrderedJson MadeValues::of_member(const std::string& name, const OrderedJson& value,
                                  const OrderedJson& object) {
    if (name == "at") {
        const auto second = static_cast<unsigned>(object.value("seq", 0));
        const std::string two = std::to_string(100 + second % 60).substr(1);
        return "2026-01-15T09:30:" + two + ".000Z";
    }
    if (name == "used" && object.contains("freedBy"))
        return 0;
    if (name == "total" && object.value("unit", "") == "sandboxes")
        return 200;
    // The disk of this machine decides these.
    if (object.value("name", "") == "files" && (name == "total" || name == "floor"))
        return name == "total" ? 64UL << 30U : 1UL << 30U;
    if (is_pressure(name, value))
        return OrderedJson{{"someUs", 8179}, {"fullUs", 8058}};
    const auto made = made_members().find(name);
    const bool fits =
        made != made_members().end() && (made->type() == value.type() || value.is_null() ||
                                         (made->is_number_integer() && value.is_number_integer()));
    return fits ? *made : of(value);
}

OrderedJson MadeValues::of(const OrderedJson& value) {
    if (value.is_string())
        return of_line(value.get<std::string>());
    if (!value.is_structured())
        return value;
    OrderedJson out = value.is_array() ? OrderedJson::array() : OrderedJson::object();
    if (value.is_array()) {
        for (const OrderedJson& one : value)
            out.push_back(of(one));
        return out;
    }
    for (const auto& [name, member] : value.items())
        out[name] = of_member(name, member, value);
    return out;
}

ExampleRecorder::Operation ExampleRecorder::find(const std::string& name) const {
    for (const auto& [path, item] : document_["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            if (operation["operationId"] != name)
                continue;
            std::string upper = method;
            std::transform(upper.begin(), upper.end(), upper.begin(),
                           [](unsigned char c) { return std::toupper(c); });
            return {upper, path, operation.value("parameters", OrderedJson::array())};
        }
    }
    throw std::runtime_error("the document has no operation " + name);
}

std::string ExampleRecorder::target(const std::string& operation, const OrderedJson& parameters) const {
    const Operation found = find(operation);
    std::string path = found.path;
    std::string query;
    for (const auto& [name, value] : parameters.items()) {
        const auto known =
            std::find_if(found.parameters.begin(), found.parameters.end(),
                         [&, &name = name](const OrderedJson& one) { return one["name"] == name; });
        if (known == found.parameters.end())
            throw std::runtime_error(operation + " has no parameter " + name);
        const std::string text = percent_encoded(as_text(value));
        if ((*known)["in"] == "path")
            path.replace(path.find('{' + name + '}'), name.size() + 2, text);
        else if ((*known)["in"] == "query")
            query.append(query.empty() ? "?" : "&").append(name).append("=").append(text);
    }
    return path + query;
}

HeaderList ExampleRecorder::headers_of(const Operation& operation, const OrderedJson& parameters,
                                       const HeaderList& more) const {
    HeaderList headers = more;
    headers.emplace_back("X-Request-Id", k_request_id);
    for (const OrderedJson& one : operation.parameters) {
        const std::string name = one["name"];
        if (one["in"] == "header" && parameters.contains(name))
            headers.emplace_back(name, as_text(parameters[name]));
    }
    return headers;
}

HttpResponse ExampleRecorder::call(HttpClient& client, const std::string& operation,
                                   const OrderedJson& parameters, const OrderedJson& body,
                                   const HeaderList& headers) {
    const Operation found = find(operation);
    HttpResponse response =
        client.request(found.method, target(operation, parameters), body.is_null() ? "" : body.dump(),
                       headers_of(found, parameters, headers));
    keep_parameters(operation, parameters);
    if (!body.is_null())
        examples_["operations"][operation]["request"] = made_.of(body);
    const std::string type = response.header("content-type");
    if (type == "application/json")
        keep(operation, response.status, type, OrderedJson::parse(response.body));
    else
        keep(operation, response.status, type, response.body);
    return response;
}

void ExampleRecorder::follow(HttpClient& client, const std::string& operation, const OrderedJson& parameters,
                             const std::string& until, const std::function<void(const std::string&)>& seen) {
    const Operation found = find(operation);
    const auto head = client.open_stream(found.method, target(operation, parameters), "",
                                         headers_of(found, parameters, {{"Accept", "text/event-stream"}}));
    std::string text;
    while (const auto event = client.next_event()) {
        if (!event->id.empty())
            text += "id: " + event->id + '\n';
        if (event->is_named)
            text += "event: " + event->event + '\n';
        text += "data: " + event->data + "\n\n";
        if (event->event == until)
            break;
        if (seen)
            seen(event->event);
    }
    keep_parameters(operation, parameters);
    keep(operation, head.status, head.header("content-type"), text);
}

void ExampleRecorder::keep(const std::string& operation, int status, const std::string& media_type,
                           const OrderedJson& example) {
    OrderedJson& responses = examples_["operations"][operation]["responses"];
    if (responses.is_null())
        responses = OrderedJson::object();
    if (media_type.empty()) {  // a response without a body
        if (!responses.contains(std::to_string(status)))
            responses[std::to_string(status)] = OrderedJson::object();
        return;
    }
    responses[std::to_string(status)][media_type] =
        example.is_string() ? OrderedJson(made_.of_text(example.get<std::string>())) : made_.of(example);
}

void ExampleRecorder::keep_parameters(const std::string& operation, const OrderedJson& parameters) {
    for (const auto& [name, value] : parameters.items())
        examples_["operations"][operation]["parameters"][name] = made_.of(value);
}

void ExampleRecorder::problem(const std::string& code, const HttpResponse& response) {
    if (response.header("content-type") != "application/problem+json")
        throw std::runtime_error(code + " is no problem: " + std::to_string(response.status) + ' ' +
                                 response.body);
    OrderedJson body = OrderedJson::parse(response.body);
    if (body["code"] != code)
        throw std::runtime_error("another problem than " + code + ": " + response.body);
    // The end of a sandbox's log may have been read by then, or not.
    std::string detail = body["detail"];
    body["detail"] = detail.substr(0, detail.find("; its log ends: "));
    body["requestId"] = k_request_id;
    examples_["problems"][code] = made_.of(body);
}

void check_examples(const OrderedJson& stored, const OrderedJson& now, const std::string& what) {
    for (const auto& [name, example] : now.items()) {
        INFO(what << ' ' << name);
        INFO(k_example_remedy);
        if (!stored.contains(name))
            FAIL_CHECK("has no example");
        else
            CHECK(stored[name].dump(1) == example.dump(1));
    }
    for (const auto& [name, example] : stored.items())
        if (!now.contains(name))
            FAIL_CHECK(what << ' ' << name << " has an example and is gone. " << k_example_remedy);
}

}  // namespace atl::test
