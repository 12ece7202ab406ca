// Who may use which route: one table for every route and every kind of client.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "tests/integration/route_walk.hpp"

namespace rights_test {

using namespace atl::test;
using namespace atl::test::routes;

namespace {

/// The subject of a route decides who reaches it.
enum class Rule {
    open,       // everyone
    own,        // any key; a key with a user gets what is that user's
    one,        // a conversation, a sandbox or an execution: keys without a user, and its owner's
    stream,     // as `one`, and its tokens for its stream
    chat,       // as `one`, and its tokens that may say something
    files,      // as `one`, and the sandbox's tokens for its files
    terminal,   // as `one`, and the sandbox's tokens for its processes
    operators,  // keys without a user
};

const std::map<std::string, Rule> k_rules = {
    {"GET /", Rule::open},
    {"GET /console/{file}", Rule::open},
    {"GET /healthz", Rule::open},
    {"GET /readyz", Rule::open},
    {"GET /openapi.json", Rule::open},
    {"GET /docs", Rule::open},
    {"GET /metrics", Rule::operators},
    {"GET /v1/system", Rule::own},
    {"GET /v1/agents", Rule::own},
    {"POST /v1/conversations", Rule::own},
    {"GET /v1/conversations", Rule::own},
    {"DELETE /v1/conversations", Rule::own},
    {"GET /v1/conversations/{id}", Rule::one},
    {"PATCH /v1/conversations/{id}", Rule::one},
    {"DELETE /v1/conversations/{id}", Rule::one},
    {"POST /v1/conversations/{id}/messages", Rule::chat},
    {"POST /v1/conversations/{id}/interrupt", Rule::chat},
    {"POST /v1/conversations/{id}/permissions/{permissionId}", Rule::chat},
    {"POST /v1/conversations/{id}/pause", Rule::one},
    {"POST /v1/conversations/{id}/resume", Rule::one},
    {"POST /v1/conversations/{id}/tokens", Rule::one},
    {"POST /v1/conversations/{id}/egress/{requestId}", Rule::one},
    {"GET /v1/conversations/{id}/events", Rule::stream},
    {"GET /v1/conversations/{id}/transcript", Rule::stream},
    {"GET /v1/conversations/{id}/ws", Rule::stream},
    {"POST /v1/sandboxes", Rule::own},
    {"GET /v1/sandboxes", Rule::own},
    {"GET /v1/sandboxes/{id}", Rule::one},
    {"PATCH /v1/sandboxes/{id}", Rule::one},
    {"DELETE /v1/sandboxes/{id}", Rule::one},
    {"GET /v1/sandboxes/{id}/metrics", Rule::one},
    {"GET /v1/sandboxes/{id}/logs", Rule::one},
    {"POST /v1/sandboxes/{id}/tokens", Rule::one},
    {"GET /v1/sandboxes/{id}/archive", Rule::files},
    {"PUT /v1/sandboxes/{id}/archive", Rule::one},
    {"GET /v1/sandboxes/{id}/watch", Rule::files},
    {"GET /v1/sandboxes/{id}/files/{path}", Rule::files},
    {"PUT /v1/sandboxes/{id}/files/{path}", Rule::one},
    {"DELETE /v1/sandboxes/{id}/files/{path}", Rule::one},
    {"POST /v1/sandboxes/{id}/files/{path}", Rule::one},
    {"POST /v1/sandboxes/{id}/exec", Rule::one},
    {"POST /v1/sandboxes/{id}/execute", Rule::one},
    {"POST /v1/execute", Rule::own},
    {"GET /v1/executors", Rule::own},
    {"POST /v1/executors/prompt", Rule::own},
    {"GET /v1/executions", Rule::own},
    {"GET /v1/executions/{id}", Rule::one},
    {"DELETE /v1/executions/{id}", Rule::one},
    {"GET /v1/executions/{id}/events", Rule::stream},
    {"GET /v1/executions/{id}/ws", Rule::chat},
    {"POST /v1/executions/{id}/calls/{callId}", Rule::one},
    {"POST /v1/executions/{id}/tokens", Rule::one},
    {"GET /v1/tools", Rule::own},
    {"POST /v1/tools/{name}", Rule::own},
    {"GET /v1/secrets", Rule::own},
    {"PUT /v1/secrets/{name}", Rule::own},
    {"GET /v1/secrets/{name}", Rule::own},
    {"DELETE /v1/secrets/{name}", Rule::own},
    {"POST /v1/sandboxes/{id}/processes", Rule::terminal},
    {"GET /v1/sandboxes/{id}/processes", Rule::terminal},
    {"GET /v1/sandboxes/{id}/processes/{processId}", Rule::terminal},
    {"GET /v1/sandboxes/{id}/processes/{processId}/ws", Rule::terminal},
    {"GET /v1/sandboxes/{id}/processes/{processId}/output", Rule::terminal},
    {"POST /v1/sandboxes/{id}/processes/{processId}/stdin", Rule::terminal},
    {"POST /v1/sandboxes/{id}/processes/{processId}/signal", Rule::terminal},
    {"POST /v1/sandboxes/{id}/processes/{processId}/resize", Rule::terminal},
};

/// The status of a refusal, or 0 for any answer that is none.
struct Expected {
    int owner, other_user, no_user, nothing;
};

Expected expected(Rule rule) {
    switch (rule) {
        case Rule::open:
            return {0, 0, 0, 0};
        case Rule::own:
            return {0, 0, 0, 401};
        case Rule::one:
        case Rule::stream:
        case Rule::chat:
        case Rule::files:
        case Rule::terminal:
            return {0, 404, 0, 401};
        case Rule::operators:
            return {403, 403, 0, 401};
    }
    return {};
}

/// The scopes of the tokens that open it.
std::set<std::string> scopes_of(Rule rule) {
    switch (rule) {
        case Rule::stream:
            return {"read", "chat"};
        case Rule::chat:
            return {"chat"};
        case Rule::files:
            return {"files"};
        case Rule::terminal:
            return {"terminal"};
        default:
            return {};
    }
}

bool is_of_sandbox(const std::string& scope) {
    return scope != "read" && scope != "chat";
}

/// The code for a good token that does not open it.
std::string token_refusal(Rule rule, const std::string& scope, bool is_of_target) {
    const auto opening = scopes_of(rule);
    const bool could_be_of_it = !opening.empty() && is_of_sandbox(*opening.begin()) == is_of_sandbox(scope);
    return could_be_of_it && !is_of_target ? "token_mismatch" : "token_scope";
}

int refusal(const HttpResponse& response) {
    const bool is_refused = response.status == 401 || response.status == 403 || response.status == 404;
    return is_refused ? response.status : 0;
}

/// A server with a key of the owner, one of another user, and one without a user.
struct House {
    ServerProcess server;
    ApiClient api{server};
    std::string owner = add_key(server, {"a", "--user-id", "alice"}).secret;
    std::string other = add_key(server, {"b", "--user-id", "bob"}).secret;
    std::string no_user = add_key(server, {"c"}).secret;

    /// A conversation of the owner, as its id and its sandbox's.
    Json conversation() {
        return Json::parse(
            client_with(server, owner).request("POST", "/v1/conversations", R"({"agent":"echo"})").body);
    }
    /// A sandbox of the owner without a conversation.
    std::string sandbox() {
        return Json::parse(client_with(server, owner).request("POST", "/v1/sandboxes", "{}").body)["id"];
    }
    /// A process of the sandbox, where the pattern names one.
    std::string process(const std::string& pattern, const std::string& sandbox) {
        if (pattern.find("{processId}") == std::string::npos)
            return "";
        return api.call(201, "POST", "/v1/sandboxes/" + sandbox + "/processes",
                        R"({"argv":["sleep","600"],"pty":{"cols":80,"rows":24}})")["processId"];
    }
    /// The path of a secret that each key has one of.
    std::string secret() {
        const std::string path = "/v1/secrets/KEY";
        for (const std::string& key : {owner, other, no_user})
            (void)client_with(server, key).request("PUT", path, R"({"value":"v","hosts":["a.example"]})");
        return path;
    }
    /// A program of the owner that runs, or has just ended.
    std::string execution() {
        return Json::parse(
            client_with(server, owner)
                .request("POST", "/v1/execute", R"({"code":"return 1","executor":"python","detached":true})")
                .body)["executionId"];
    }
    /// `of`: the path of a conversation, of a sandbox or of an execution.
    std::string token(const std::string& of, const std::string& scope) {
        return api.call(201, "POST", of + "/tokens", Json{{"scope", scope}}.dump())["token"];
    }
    /// Every token that could open a route of these, with its scope.
    std::vector<std::pair<std::string, std::string>> tokens(const std::string& conversation,
                                                            const std::string& sandbox,
                                                            const std::string& execution) {
        std::vector<std::pair<std::string, std::string>> all;
        if (!execution.empty()) {
            for (const char* scope : {"read", "chat"})
                all.emplace_back(scope, token("/v1/executions/" + execution, scope));
            for (const char* scope : {"files", "terminal", "preview"})
                all.emplace_back(scope, token("/v1/sandboxes/" + sandbox, scope));
            return all;
        }
        for (const char* scope : {"read", "chat", "files", "terminal", "preview"})
            all.emplace_back(scope, token("/v1/conversations/" + conversation, scope));
        for (const char* scope : {"files", "terminal", "preview"})
            all.emplace_back(scope, token("/v1/sandboxes/" + sandbox, scope));
        return all;
    }
    HttpResponse ask_without_key(const std::string& method, const std::string& target) {
        HttpClient client("127.0.0.1:" + std::to_string(server.port()));
        return ask_any(client, method, target);
    }
};

}  // namespace

TEST_CASE("Every route answers exactly those clients that the table of rights names") {
    House house;
    std::set<std::string> walked;
    for (const auto& [method, pattern] : operations(house.api)) {
        const std::string name = method + ' ' + pattern;
        INFO(name);
        const auto rule = k_rules.find(name);
        REQUIRE(rule != k_rules.end());
        walked.insert(name);
        const Expected means = expected(rule->second);
        // The targets, each with the sandbox whose tokens are tried with it.
        std::vector<std::pair<std::string, std::string>> targets;
        const Json made = house.conversation();
        const std::string id = made["id"];
        const std::string of_conversation = made["sandboxId"];
        std::string execution;
        if (pattern.starts_with("/v1/executions/{id}")) {
            execution = house.execution();
            targets = {{with_id(pattern, execution), of_conversation}};
        } else if (pattern.starts_with("/v1/conversations/{id}")) {
            targets = {{with_id(pattern, id), of_conversation}};
        } else if (pattern.starts_with("/v1/sandboxes/{id}")) {
            const std::string alone = house.sandbox();
            for (const std::string& sandbox : {alone, of_conversation})
                targets.emplace_back(with_id(pattern, sandbox, house.process(pattern, sandbox)), sandbox);
        } else {
            const std::size_t file = pattern.find("{file}");
            targets = {
                {file == std::string::npos ? pattern : pattern.substr(0, file) + "app.mjs", of_conversation}};
            if (pattern == "/v1/tools/{name}")
                targets = {{"/v1/tools/read_file", of_conversation}};
            if (pattern == "/v1/secrets/{name}")
                targets = {{house.secret(), of_conversation}};
        }
        for (const auto& [target, sandbox] : targets) {
            INFO(target);
            CHECK(refusal(house.ask_without_key(method, target)) == means.nothing);
            for (const auto& [scope, token] : house.tokens(id, sandbox, execution)) {
                INFO(scope);
                // A conversation's token for files or the terminal is one of its sandbox, which is not always
                // the one that is asked for.
                const auto answer = house.ask_without_key(method, target + "?token=" + token);
                const bool is_of_target =
                    token.find(sandbox) != std::string::npos || scope == "read" || scope == "chat";
                if (rule->second == Rule::open)
                    CHECK(refusal(answer) == 0);
                else if (scopes_of(rule->second).contains(scope) && is_of_target)
                    CHECK(refusal(answer) == 0);
                else
                    CHECK(code_of(answer) == token_refusal(rule->second, scope, is_of_target));
            }
            const auto foreign = ask(house.server, house.other, method, target);
            CHECK(refusal(foreign) == means.other_user);
            if (means.other_user == 404)
                CHECK(without_request(foreign) ==
                      without_request(
                          ask(house.server, house.other, method, with_id(pattern, std::string(20, 'a')))));
            if (means.other_user == 403)
                CHECK(code_of(foreign) == "key_restricted");
            // The two keys that may delete come last: each target is deleted by one of them.
            if (method != "DELETE" || target == targets.back().first)
                CHECK(refusal(ask(house.server, house.owner, method, target)) == means.owner);
            if (method != "DELETE" || target != targets.back().first)
                CHECK(refusal(ask(house.server, house.no_user, method, target)) == means.no_user);
        }
    }
    CHECK(walked.size() == k_rules.size());
}

TEST_CASE("A key with a user lists and owns that user's sandboxes, and no other may have them") {
    House house;
    HttpClient alice = client_with(house.server, house.owner);
    HttpClient bob = client_with(house.server, house.other);
    const std::string mine = house.sandbox();
    const std::string of_conversation = house.conversation()["sandboxId"];
    const std::string nobodys = house.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const std::string of_bob = house.api.call(201, "POST", "/v1/sandboxes", R"({"userId":"bob"})")["id"];
    const auto ids = [](const HttpResponse& page) {
        std::set<std::string> found;
        const Json listed = Json::parse(page.body);
        for (const Json& one : listed["sandboxes"])
            found.insert(one["id"].get<std::string>());
        return found;
    };
    CHECK(ids(alice.request("GET", "/v1/sandboxes")) == std::set{mine, of_conversation});
    CHECK(ids(bob.request("GET", "/v1/sandboxes")) == std::set{of_bob});
    CHECK(ids(house.api.http().request("GET", "/v1/sandboxes")) ==
          std::set{mine, of_conversation, nobodys, of_bob});
    CHECK(ids(house.api.http().request("GET", "/v1/sandboxes?userId=alice")) ==
          std::set{mine, of_conversation});
    CHECK(code_of(alice.request("GET", "/v1/sandboxes?userId=bob")) == "user_not_allowed");
    CHECK(code_of(alice.request("POST", "/v1/sandboxes", R"({"userId":"bob"})")) == "user_not_allowed");
    CHECK(code_of(alice.request("POST", "/v1/sandboxes", R"({"network":"host"})")) == "network_not_allowed");
    CHECK(Json::parse(alice.request("GET", "/v1/sandboxes/" + mine).body)["userId"] == "alice");
    CHECK(alice.request("DELETE", "/v1/sandboxes/" + of_bob).status == 404);
    CHECK(bob.request("DELETE", "/v1/sandboxes/" + of_bob).status == 204);
}

TEST_CASE("An id of another kind is told as such to who may see the thing, and to nobody else") {
    House house;
    const Json made = house.conversation();
    const std::string id = made["id"];
    const std::string sandbox = made["sandboxId"];
    const std::string alone = house.sandbox();
    const auto told = [&](const std::string& key, const std::string& target) {
        const auto answer = client_with(house.server, key).request("GET", target);
        CHECK(answer.status == 404);
        return Json::parse(answer.body)["detail"].get<std::string>();
    };
    for (const std::string& key : {house.owner, house.no_user, house.server.key()}) {
        CHECK(told(key, "/v1/conversations/" + sandbox) ==
              "This is a sandbox's id; its conversation is " + id + ".");
        CHECK(told(key, "/v1/conversations/" + alone) ==
              "This is the id of a sandbox without a conversation.");
        CHECK(told(key, "/v1/sandboxes/" + id) ==
              "This is a conversation's id; its sandbox is " + sandbox + ".");
        CHECK(told(key, "/v1/executions/" + id) ==
              "This is a conversation's id; its sandbox is " + sandbox + ".");
        CHECK(told(key, "/v1/sandboxes/" + sandbox + "/processes/" + id) ==
              "This is a conversation's id; its sandbox is " + sandbox + ".");
    }
    const auto tool_error = [&](const std::string& key) {
        const Json call{{"sandboxId", id}, {"args", {{"file_path", "a"}}}};
        const auto answer =
            client_with(house.server, key).request("POST", "/v1/tools/read_file", call.dump());
        CHECK(answer.status == 200);
        return Json::parse(answer.body)["technicalDetails"]["error"].get<std::string>();
    };
    CHECK(tool_error(house.owner) ==
          "`sandboxId` names no sandbox: This is a conversation's id; its sandbox is " + sandbox + ".");
    CHECK(tool_error(house.other) == "Sandbox context missing - sandboxId is required");
    const auto others = client_with(house.server, house.other).request("POST", "/v1/sandboxes", "{}");
    REQUIRE(others.status == 201);
    const std::string process =
        "/v1/sandboxes/" + Json::parse(others.body)["id"].get<std::string>() + "/processes/";
    CHECK(told(house.other, process + id).starts_with("There is no such process in the sandbox"));
    const std::string unknown(20, 'a');
    for (const std::string route : {"/v1/conversations/", "/v1/sandboxes/", "/v1/executions/"}) {
        const std::string usual = told(house.other, route + unknown);
        for (const std::string& one : {id, sandbox, alone})
            CHECK(told(house.other, route + one) == usual);
    }
}

TEST_CASE("Every route tells the owner of an id of another kind what it is, and another user nothing") {
    House house;
    const Json made = house.conversation();
    const std::map<std::string, std::string> ids{{"/v1/conversations/{id}", made["id"]},
                                                 {"/v1/sandboxes/{id}", made["sandboxId"]},
                                                 {"/v1/executions/{id}", house.execution()}};
    const std::string unknown(20, 'a');
    for (const auto& [method, pattern] : operations(house.api)) {
        for (const auto& [kind, one] : ids) {
            if (pattern.find("{id}") == std::string::npos || pattern.starts_with(kind))
                continue;
            const std::string target = with_id(pattern, one);
            INFO(method << ' ' << target);
            const auto told = ask(house.server, house.owner, method, target);
            INFO(told.body);
            CHECK(told.status == 404);
            CHECK(Json::parse(told.body)["detail"].get<std::string>().starts_with("This is "));
            CHECK(without_request(ask(house.server, house.other, method, target)) ==
                  without_request(ask(house.server, house.other, method, with_id(pattern, unknown))));
        }
    }
    CHECK(house.api.call(200, "GET", "/v1/conversations/" + made["id"].get<std::string>())["status"] ==
          "active");
}

TEST_CASE("A user has no more sandboxes without a conversation than the bound of one user") {
    ServerOptions options;
    options.arguments = {"--max-conversations-per-user", "1"};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json first = api.call(201, "POST", "/v1/sandboxes", R"({"userId":"eve"})");
    const auto second = api.http().request("POST", "/v1/sandboxes", R"({"userId":"eve"})");
    CHECK(code_of(second) == "too_many_conversations");
    api.call(201, "POST", "/v1/sandboxes", R"({"userId":"adam"})");
    api.call(204, "DELETE", "/v1/sandboxes/" + first["id"].get<std::string>());
    api.call(201, "POST", "/v1/sandboxes", R"({"userId":"eve"})");
}

}  // namespace rights_test
