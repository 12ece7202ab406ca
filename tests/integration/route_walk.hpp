// Walking the routes that a server's own OpenAPI document names, with keys of several rights.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/api_client.hpp"

namespace atl::test::routes {

inline RunResult keys(const std::filesystem::path& data_dir, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "keys");
    arguments.insert(arguments.end(), {"--data-dir", data_dir.string()});
    return run_server(arguments);
}

struct NewKey {
    std::string id;
    std::string secret;
};

inline NewKey add_key(const ServerProcess& server, const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"add"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const RunResult made = keys(server.data_dir(), all);
    INFO(made.output);
    std::smatch found;
    REQUIRE(made.status == 0);
    REQUIRE(
        std::regex_search(made.output, found, std::regex("Key ([a-z0-9]{20}),[^]*\n(atoll_[a-z0-9]{60})\n")));
    return {found[1], found[2]};
}

inline HttpClient client_with(const ServerProcess& server, const std::string& key) {
    return HttpClient("127.0.0.1:" + std::to_string(server.port()), {{"Authorization", "Bearer " + key}});
}

/// A refusal without the fields that differ from request to request.
inline Json without_request(const HttpResponse& response) {
    Json problem = Json::parse(response.body);
    problem.erase("requestId");
    return problem;
}

/// The target of a pattern with this id. A path of a file is the workspace itself, which nothing removes.
inline std::string with_id(std::string pattern, const std::string& id,
                           const std::string& process_id = std::string(20, 'b')) {
    for (const auto& [parameter, value] : {std::pair<std::string, std::string>{"{id}", id},
                                           {"{processId}", process_id},
                                           {"{callId}", "c1"},
                                           {"{requestId}", "r1"},
                                           {"{permissionId}", "t1.1"}})
        if (const auto at = pattern.find(parameter); at != std::string::npos)
            pattern.replace(at, parameter.size(), value);
    const std::string file = "{path}";
    if (pattern.ends_with(file))
        pattern.resize(pattern.size() - file.size());
    return pattern;
}

struct Operation {
    std::string method;
    std::string pattern;
};

/// The operations in the server's own OpenAPI document.
inline std::vector<Operation> operations(ApiClient& api) {
    std::vector<Operation> all;
    const Json document = api.call(200, "GET", "/openapi.json");
    for (const auto& [pattern, item] : document["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            std::string name = method;
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return std::toupper(c); });
            all.push_back({name, pattern});
        }
    }
    return all;
}

/// Sends a request that fits any route, without waiting for the end of a stream.
inline HttpResponse ask_any(HttpClient& client, const std::string& method, const std::string& target) {
    if (target.find("/watch") != std::string::npos) {
        const auto head = client.open_stream(method, target);
        client.close();
        if (head.header("content-type") == "text/event-stream")
            return head;
    }
    return client.request(method, target, method == "GET" || method == "DELETE" ? "" : "{}");
}

inline HttpResponse ask(const ServerProcess& server, const std::string& key, const std::string& method,
                        const std::string& target) {
    HttpClient client = client_with(server, key);
    return ask_any(client, method, target);
}

}  // namespace atl::test::routes
