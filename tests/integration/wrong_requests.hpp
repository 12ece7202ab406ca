// Requests that are wrong, for the examples of problems in the OpenAPI document.
#pragma once

#include <fstream>
#include <string>

#include "tests/integration/asked_host.hpp"
#include "tests/integration/example_recorder.hpp"
#include "tests/integration/route_walk.hpp"
#include "tests/support/websocket_client.hpp"

namespace atl::test::routes {

/// Requests that are wrong, each in its way.
class WrongRequests {
  public:
    explicit WrongRequests(ExampleRecorder& recorder) : recorder_(recorder) {}

    void perform() {
        bodies();
        heads();
        rights();
        tokens();
        places();
    }

  private:
    static ServerOptions options(const TempDir& folder) {
        const Json agents{{"agents", {{{"name", "missing"}, {"argv", {"/no/such/program"}}}}}};
        std::ofstream(folder.path() / "agents.json") << agents.dump();
        ServerOptions made;
        made.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
        for (const char* const word :
             {"--max-conversations", "4", "--max-conversations-per-user", "2",
              "--max-streams-per-conversation", "1", "--executors", "/no/such/folder", "--egress-allow", "*"})
            made.arguments.emplace_back(word);
        return made;
    }

    void expect(const std::string& code, const std::string& method, const std::string& target,
                const std::string& body = "", const HeaderList& headers = {}) {
        recorder_.problem(code, api_.connect().request(method, target, body, headers));
    }

    void bodies() {
        const std::string all = "/v1/conversations";
        expect("invalid_json", "POST", all, R"({"agent":)");
        expect("invalid_utf8", "POST", all, "{\"title\":\"\xff\"}");
        expect("invalid_field", "POST", all, R"({"limits":{"memoryMb":"512"}})");
        expect("unknown_field", "POST", all, R"({"limits":{"memory":512}})");
        expect("unknown_agent", "POST", all, R"({"agent":"nobody"})");
        expect("invalid_env", "POST", all, R"({"env":{"LD_PRELOAD":"/workspace/x.so"}})");
        expect("network_not_allowed", "POST", all, R"({"network":"host"})");
        const std::string route_to = R"({"network":{"mode":"egress","routes":[{"name":"model",)"
                                     R"("headers":{"x-api-key":{"secret":"MODEL_KEY"}},"upstream":"https://)";
        expect("secret_not_found", "POST", all, route_to + R"(api.example.com"}]}})");
        api_.call(201, "PUT", "/v1/secrets/MODEL_KEY", R"({"value":"sk-1","hosts":["api.example.com"]})");
        expect("secret_host", "POST", all, route_to + R"(api.example.net"}]}})");
        expect("limit_not_allowed", "POST", all, R"({"limits":{"maxSockets":10000}})");
        expect("agent_failed", "POST", all, R"({"agent":"missing"})");
        expect("executor_unavailable", "POST", "/v1/execute", R"({"code":"return 1","executor":"deno"})");
        expect("unsupported_media_type", "POST", all, "agent: echo", {{"Content-Type", "application/yaml"}});
        expect("body_too_large", "POST", all, '"' + std::string(1024 * 1024, 'x') + '"');
    }

    void heads() {
        const std::string all = "/v1/conversations";
        expect("invalid_request", "POST", all, "{}", {{"Idempotency-Key", "two words"}});
        expect("method_not_allowed", "PUT", all);
        expect("not_found", "GET", "/v1/conversations/" + std::string(20, 'a'));
        expect("header_too_large", "GET", all, "", {{"Cookie", std::string(20'000, 'c')}});
        expect("target_too_long", "GET", all + "?cursor=" + std::string(20'000, 'c'));
        expect("origin_not_allowed", "POST", all, "{}", {{"Origin", "https://other.example"}});
        HttpClient stranger(server_.address());
        stranger.send_raw("GET /v1/system HTTP/1.1\r\nHost: other.example\r\n\r\n");
        recorder_.problem("host_not_allowed", stranger.read_response());
    }

    void rights() {
        HttpClient nobody(server_.address());
        recorder_.problem("unauthorized", nobody.request("GET", "/v1/system"));
        const auto with = [&nobody](const char* name, const char* value) {
            return nobody.request("GET", "/v1/system", "", {{name, value}});
        };
        recorder_.problem("invalid_authorization", with("Authorization", "Basic YTpi"));
        recorder_.problem("invalid_key", with("Authorization", "Bearer mistyped"));
        const auto path_of = [this] {
            return "/v1/conversations/" + api_.create({{"agent", "echo"}})["id"].get<std::string>();
        };
        const std::string mine = path_of();
        const std::string query =
            "?token=" + api_.call(201, "POST", mine + "/tokens")["token"].get<std::string>();
        recorder_.problem("invalid_token", nobody.request("GET", mine + "/events" + query + "0"));
        recorder_.problem("token_scope", nobody.request("POST", mine + "/interrupt" + query));
        const std::string other = path_of();
        recorder_.problem("token_mismatch", nobody.request("GET", other + "/events" + query));
        for (const std::string& path : {mine, other})
            api_.call(204, "DELETE", path);
        HttpClient alice = client_with(server_, add_key(server_, {"laptop", "--user-id", "alice"}).secret);
        recorder_.problem("key_restricted", alice.request("GET", "/metrics"));
        recorder_.problem("user_not_allowed",
                          alice.request("POST", "/v1/conversations", R"({"userId":"bob"})"));
    }

    void tokens() {
        const std::string path =
            "/v1/conversations/" + api_.create({{"agent", "echo"}})["id"].get<std::string>();
        expect("upgrade_required", "GET", path + "/ws");
        const auto events_with_token = [&](const std::string& form) {
            return path + "/events?token=" +
                   api_.call(201, "POST", path + "/tokens", form)["token"].get<std::string>();
        };
        HttpClient page(server_.address());
        const HeaderList stream{{"Accept", "text/event-stream"}};
        {
            HttpClient holder(server_.address());
            REQUIRE(holder.open_stream("GET", events_with_token("{}"), "", stream).status == 200);
            // The server's own key counts for no conversation's streams.
            recorder_.problem("too_many_streams", page.request("GET", events_with_token("{}"), "", stream));
        }
        const std::string brief = events_with_token(R"({"ttlSeconds":1})");
        HttpResponse response = page.request("GET", brief);
        while (response.status == 200)
            response = page.request("GET", brief);
        recorder_.problem("token_expired", response);
    }

    void places() {
        const auto create = [&](const std::string& body, const HeaderList& headers = {}) {
            return api_.connect().request("POST", "/v1/conversations", body, headers);
        };
        const HeaderList key{{"Idempotency-Key", "order-1877"}};
        const auto first = create(R"({"agent":"echo","userId":"carol","ttlSeconds":1})", key);
        REQUIRE(first.status == 201);
        recorder_.problem("idempotency_key_reused", create(R"({"agent":"echo","userId":"dave"})", key));
        REQUIRE(create(R"({"agent":"echo","userId":"carol"})").status == 201);
        const std::string id = Json::parse(first.body)["id"];
        api_.await_status(id, "ended");
        expect("conversation_ended", "POST", "/v1/conversations/" + id + "/messages", R"({"content":"ls"})");
        REQUIRE(create(R"({"agent":"echo","userId":"carol"})").status == 201);
        recorder_.problem("too_many_conversations", create(R"({"agent":"echo","userId":"carol"})"));
        REQUIRE(create(R"({"agent":"echo"})").status == 201);
        recorder_.problem("capacity", create(R"({"agent":"echo"})"));
    }

    ExampleRecorder& recorder_;
    TempDir folder_;
    ServerProcess server_{options(folder_)};
    ApiClient api_{server_};
};

void hit_client_limits(ExampleRecorder& recorder) {
    ServerOptions options;
    options.arguments = {"--limit-loopback", "--max-connections-per-address", "1",
                         "--failed-logins-per-minute", "1"};
    const ServerProcess server(options);
    HttpClient first(server.address(), {{"X-API-Key", "wrong"}});
    REQUIRE(first.request("GET", "/v1/system").status == 401);
    recorder.problem("too_many_requests", first.request("GET", "/v1/system"));
    first.connect();
    HttpClient second(server.address());
    second.connect();
    recorder.problem("too_many_connections", second.read_response());
}

/// Every operation, every request with a body, and every response with one (but for problems).
void check_complete(const OrderedJson& document, const OrderedJson& recorded) {
    for (const auto& [path, item] : document["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            const std::string name = operation["operationId"];
            INFO(name);
            INFO(k_example_remedy);
            if (!recorded.contains(name)) {
                FAIL_CHECK("the test performs no such operation");
                continue;
            }
            // Bytes have no schema, and no example.
            if (operation.contains("requestBody") &&
                operation["requestBody"]["content"].contains("application/json"))
                CHECK(recorded[name].contains("request"));
            for (const auto& [status, response] : operation["responses"].items()) {
                if (!response.contains("content") || status == "default" || status >= "400")
                    continue;
                for (const auto& [type, media] : response["content"].items()) {
                    if (!media.contains("schema"))
                        continue;
                    INFO(status << ' ' << type);
                    const OrderedJson responses = recorded[name].value("responses", OrderedJson::object());
                    CHECK((responses.contains(status) && responses[status].contains(type)));
                }
            }
        }
    }
}

}  // namespace atl::test::routes
