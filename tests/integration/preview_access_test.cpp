// Who sees which port of a sandbox: listed ports, tokens, private previews, and what changes take effect on.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <tuple>

#include "tests/support/api_client.hpp"

namespace preview_access_test {

using namespace atl;
using namespace atl::test;

namespace {

using std::chrono::seconds;

// A server on one port that says which it is and what it was told of the visitor. It repeats what comes after
// an upgrade.
constexpr const char* k_server = R"(
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", self.headers["Upgrade"])
            self.end_headers()
            self.close_connection = True
            while (data := self.rfile.read1(4096)):
                self.wfile.write(data)
            return
        body = ("port " + sys.argv[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Seen-Cookie", self.headers.get("Cookie", "none"))
        self.send_header("X-Seen-Authorization", self.headers.get("Authorization", "none"))
        self.send_header("Set-Cookie", "__Host-atoll-preview-x=1; Path=/; Secure")
        self.send_header("Set-Cookie", "own=1; Domain=preview.localhost; Path=/")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
)";

const HeaderList k_page{{"Accept", "text/html,*/*"}, {"Sec-Fetch-Mode", "navigate"}};
const HeaderList k_script{{"Accept", "*/*"}, {"Sec-Fetch-Mode", "no-cors"}};

struct Lab {
    explicit Lab(std::vector<std::string> arguments = {}) : server(options(std::move(arguments), {})) {}
    Lab(std::vector<std::string> arguments, const std::filesystem::path& data_dir)
        : server(options(std::move(arguments), data_dir)) {}
    static ServerOptions options(std::vector<std::string> arguments, const std::filesystem::path& data_dir) {
        arguments.insert(arguments.end(), {"--preview-domain", "preview.localhost"});
        return {.arguments = std::move(arguments), .data_dir = data_dir};
    }

    Json make(const Json& preview) { return api.create({{"agent", "shell"}, {"preview", preview}}); }
    void serve(const Json& conversation, int port) {
        const Json wanted{{"argv", {"python3", "-c", k_server, std::to_string(port)}}};
        api.call(201, "POST", "/v1/sandboxes/" + sandbox(conversation) + "/processes", wanted.dump());
    }
    static std::string sandbox(const Json& conversation) { return conversation["sandboxId"]; }
    static std::string path(const Json& conversation) {
        return "/v1/conversations/" + conversation["id"].get<std::string>();
    }
    static std::string name(const Json& conversation, const std::string& port = "") {
        return "preview-" + sandbox(conversation) + port + ".preview.localhost";
    }
    Json token(const Json& conversation, int ttl_seconds = 600) {
        const Json wanted{{"scope", "preview"}, {"ttlSeconds", ttl_seconds}};
        return api.call(201, "POST", path(conversation) + "/tokens", wanted.dump());
    }
    HttpResponse enter(const Json& conversation, const std::string& host, int ttl_seconds = 600) {
        const std::string token_text = token(conversation, ttl_seconds)["token"];
        return visitor.request("GET", "/.atoll/enter?token=" + token_text, "", {{"Host", host}});
    }
    /// The field Cookie of a browser that came in by a token.
    std::string pass(const Json& conversation, const std::string& host, int ttl_seconds = 600) {
        const HttpResponse entered = enter(conversation, host, ttl_seconds);
        REQUIRE(entered.status == 303);
        const std::string cookie = entered.header("set-cookie");
        return cookie.substr(0, cookie.find(';'));
    }
    HttpResponse get(const std::string& host, const HeaderList& more = {}, const std::string& cookie = "") {
        HeaderList headers{{"Host", host}};
        headers.insert(headers.end(), more.begin(), more.end());
        if (!cookie.empty())
            headers.emplace_back("Cookie", cookie);
        return visitor.request("GET", "/", "", headers);
    }
    /// Once the server inside listens.
    HttpResponse await(const std::string& host, const std::string& cookie = "") {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        for (;;) {
            HttpResponse answer = get(host, {}, cookie);
            if (answer.status != 503 || std::chrono::steady_clock::now() > until)
                return answer;
        }
    }
    /// A connection of its own on which an upgrade was asked for, and the answer.
    std::pair<HttpClient, HttpResponse> upgrade(const std::string& host, const std::string& cookie = "") {
        HttpClient client(server.address());
        client.connect();
        client.send_raw("GET /socket HTTP/1.1\r\nHost: " + host +
                        "\r\nConnection: Upgrade\r\nUpgrade: echo\r\n" +
                        (cookie.empty() ? "" : "Cookie: " + cookie + "\r\n") + "\r\n");
        HttpResponse answer = client.read_response();
        return {std::move(client), std::move(answer)};
    }
    static bool echoes(HttpClient& client) {
        client.send_raw("hello");
        return client.read_raw(5) == "hello";
    }
    HttpResponse patch(const Json& conversation, const Json& preview) {
        return api.http().request("PATCH", path(conversation), Json{{"preview", preview}}.dump());
    }

    ServerProcess server;
    ApiClient api{server};
    HttpClient visitor{server.address()};
};

}  // namespace

TEST_CASE("Who asks for previews that there are not is refused, and the log does not fill") {
    if (!is_root())
        SKIP("needs root");
    Lab lab({"--limit-loopback", "--requests-per-second-per-address", "8"});
    const Json open = lab.make({{"access", "public"}});
    const std::string known = Lab::name(open);
    const std::vector<std::string> unknown{
        "preview-" + std::string(20, 'a') + ".preview.localhost", "nothing.preview.localhost", "x." + known,
        // There are these, but not for everyone.
        Lab::name(open, "-9999"), Lab::name(lab.make({{"access", "private"}}))};
    for (const std::string& host : unknown) {
        INFO(host);
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        HttpResponse answer = lab.get(host);
        while (answer.status != 429 && std::chrono::steady_clock::now() < until)
            answer = lab.get(host);
        CHECK(answer.status == 429);
        CHECK(code_of(answer) == "too_many_requests");
    }
    CHECK(lab.server.log().find("status=429") == std::string::npos);
    // A preview that exists is still shown, and the API has limits of its own.
    for (int i = 0; i < 60; ++i)
        CHECK(code_of(lab.get(known)) == "no_listener");
}

TEST_CASE("A private preview is shown to who came in by a token, and to nobody else") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const Json made = lab.make({{"access", "private"}});
    CHECK(made["preview"] == Json{{"access", "private"}, {"wake", true}, {"ports", {5173}}});
    const Json other = lab.make({{"access", "private"}});
    lab.serve(made, 5173);
    lab.serve(other, 5173);
    const std::string host = Lab::name(made);

    const Json token = lab.token(made);
    CHECK(token["url"] == made["sandboxPublicUrl"].get<std::string>() +
                              ".atoll/enter?token=" + token["token"].get<std::string>());
    const HttpResponse entered = lab.enter(made, host);
    CHECK(entered.status == 303);
    CHECK(entered.header("location") == "/");
    CHECK(entered.header("cache-control") == "no-store");
    CHECK(entered.header("referrer-policy") == "no-referrer");
    const std::string pass = lab.pass(made, host);
    const HttpResponse seen = lab.await(host, "own=2; " + pass);
    CHECK(seen.status == 200);
    CHECK(seen.body == "port 5173");
    CHECK(seen.header("x-seen-cookie") == "own=2");
    CHECK(seen.header("set-cookie") == "own=1; Path=/");
    auto [socket, upgraded] = lab.upgrade(host, pass);
    CHECK(upgraded.status == 101);
    CHECK(Lab::echoes(socket));

    // Nobody is sent elsewhere, and only a page gets a page.
    const HttpResponse page = lab.get(host, k_page);
    CHECK(page.status == 403);
    CHECK(page.header("content-type").starts_with("text/html"));
    CHECK(page.header("content-security-policy").starts_with("default-src 'none'"));
    const HttpResponse script = lab.get(host, k_script);
    CHECK(script.status == 403);
    CHECK(code_of(script) == "preview_private");
    const HttpResponse refused = lab.upgrade(host).second;
    CHECK(refused.status == 403);
    CHECK(code_of(refused) == "preview_private");
    CHECK(code_of(lab.visitor.request("POST", "/", "x", {{"Host", host}, {"Content-Type", "a/b"}})) ==
          "preview_private");

    // A pass is for one sandbox at one name, a token for one sandbox.
    REQUIRE(lab.await(Lab::name(other), lab.pass(other, Lab::name(other))).status == 200);
    CHECK(lab.get(Lab::name(other), {}, pass).status == 403);
    CHECK(lab.upgrade(Lab::name(other), pass).second.status == 403);
    CHECK(lab.get(Lab::name(made, "-5173"), {}, pass).status == 403);
    CHECK(lab.get(Lab::name(made, "-5173"), {}, lab.pass(made, Lab::name(made, "-5173"))).status == 200);
    CHECK(lab.enter(other, host).status == 403);
    const std::string reader = lab.api.call(201, "POST", Lab::path(made) + "/tokens", "{}")["token"];
    const HttpResponse wrong =
        lab.visitor.request("GET", "/.atoll/enter?token=" + reader, "", {{"Host", host}});
    CHECK(code_of(wrong) == "preview_private");
    CHECK(wrong.header("set-cookie").empty());
    CHECK(lab.visitor.request("GET", "/.atoll/other", "", {{"Host", host}, {"Cookie", pass}}).status == 404);
    CHECK(lab.server.log().find(reader) == std::string::npos);
    CHECK(lab.server.log().find(pass.substr(pass.find('.') + 1)) == std::string::npos);
    // The API's own credentials open none.
    CHECK(lab.get(host, {{"X-API-Key", lab.server.key()}}).status == 403);
}

TEST_CASE("A pass ends with its token, and so does what was opened with it") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const Json made = lab.make({{"access", "private"}});
    lab.serve(made, 5173);
    const std::string host = Lab::name(made);
    REQUIRE(lab.await(host, lab.pass(made, host)).status == 200);
    // On a host that takes longer than that to open the tunnel, with a longer one.
    int ttl_seconds = 5;
    std::string brief = lab.pass(made, host, ttl_seconds);
    auto [socket, upgraded] = lab.upgrade(host, brief);
    while (upgraded.status != 101 && ttl_seconds < 60) {
        brief = lab.pass(made, host, ttl_seconds *= 3);
        std::tie(socket, upgraded) = lab.upgrade(host, brief);
    }
    REQUIRE(upgraded.status == 101);
    CHECK(socket.closes(std::chrono::seconds(120)));
    CHECK(code_of(lab.get(host, {}, brief)) == "preview_private");
}

TEST_CASE("Only listed ports are shown, and all of them to the bearer of a token; a change counts at once") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const Json made = lab.make(Json::object());
    CHECK(made["preview"] == Json{{"access", "public"}, {"wake", false}, {"ports", {5173}}});
    lab.serve(made, 5173);
    lab.serve(made, 8000);
    const std::string bare = Lab::name(made);
    const std::string other = Lab::name(made, "-8000");
    CHECK(lab.await(bare).body == "port 5173");
    CHECK(code_of(lab.get(other)) == "port_not_public");
    const std::string pass = lab.pass(made, other);
    CHECK(lab.await(other, pass).body == "port 8000");
    auto open = lab.upgrade(other, pass).first;
    REQUIRE(Lab::echoes(open));

    REQUIRE(lab.patch(made, {{"ports", {8000, 5173}}}).status == 200);
    CHECK(lab.get(other).body == "port 8000");
    CHECK(lab.get(bare).body == "port 8000");
    CHECK(lab.get(Lab::name(made, "-5173")).body == "port 5173");
    auto listed = lab.upgrade(bare).first;
    REQUIRE(Lab::echoes(listed));
    const HttpResponse changed = lab.patch(made, {{"ports", {5173}}});
    CHECK(Json::parse(changed.body)["preview"]["ports"] == Json{5173});
    // On this connection nothing was asked for since.
    CHECK(listed.closes());
    CHECK(Lab::echoes(open));
    CHECK(lab.get(bare).body == "port 5173");
    CHECK(code_of(lab.get(other)) == "port_not_public");
    CHECK(code_of(lab.patch(made, {{"ports", {5173, 0}}})) == "invalid_field");
    CHECK(lab.get(bare).body == "port 5173");
}

TEST_CASE("Ports that the server holds itself are shown to nobody, whatever the pattern and with a token") {
    if (!is_root())
        SKIP("needs root");
    const bool port_first = GENERATE(false, true);
    CAPTURE(port_first);
    const std::string pattern = port_first ? "{port}-{id}" : "preview-{id},preview-{id}-{port}";
    Lab lab({"--preview-pattern", pattern});
    const Json made = lab.make({{"ports", {8000}}});
    const auto name = [&](const std::string& port) {
        return port_first ? port + "-" + Lab::sandbox(made) + ".preview.localhost"
                          : Lab::name(made, "-" + port);
    };
    for (const int port : {8000, 8001, 3128, 3129})
        lab.serve(made, port);
    CHECK(made["sandboxPublicUrl"].get<std::string>().starts_with(
        "http://" + (port_first ? name("8000") : Lab::name(made)) + ":"));
    CHECK(lab.await(name("8000")).body == "port 8000");
    CHECK(lab.await(name("8001"), lab.pass(made, name("8001"))).body == "port 8001");
    for (const std::string port : {"3128", "3129"}) {
        CAPTURE(port);
        const std::string pass = lab.pass(made, name(port));
        CHECK(code_of(lab.get(name(port), {}, pass)) == "port_not_public");
        CHECK(lab.upgrade(name(port), pass).second.status == 403);
        CHECK(code_of(lab.get(name(port))) == "port_not_public");
        CHECK(code_of(lab.patch(made, {{"ports", {8000, std::stoi(port)}}})) == "invalid_field");
    }
}

TEST_CASE("A conversation that has ended has no address any more") {
    if (!is_root())
        SKIP("needs root");
    const bool has_names = GENERATE(true, false);
    CAPTURE(has_names);
    ServerOptions options;
    if (has_names)
        options.arguments = {"--preview-domain", "preview.localhost"};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.create({{"agent", "shell"}, {"ttlSeconds", 60}, {"title", "brief"}});
    CHECK(made["sandboxPublicUrl"].is_string());
    api.call(200, "PATCH", "/v1/conversations/" + made["id"].get<std::string>(), R"({"ttlSeconds":1})");
    CHECK(api.await_status(made["id"], "ended")["sandboxPublicUrl"].is_null());
    const Json listed = api.call(200, "GET", "/v1/conversations");
    CHECK(listed["conversations"][0]["sandboxPublicUrl"].is_null());
}

TEST_CASE("A preview that becomes private closes at once, and stays so when the server starts again") {
    if (!is_root())
        SKIP("needs root");
    const TempDir data;
    Json made;
    std::string pass;
    {
        Lab lab({}, data.path());
        made = lab.make({{"wake", false}});
        lab.serve(made, 5173);
        const std::string host = Lab::name(made);
        REQUIRE(lab.await(host).status == 200);
        auto open = lab.upgrade(host).first;
        REQUIRE(Lab::echoes(open));
        REQUIRE(lab.patch(made, {{"access", "private"}}).status == 200);
        CHECK(open.closes());
        CHECK(code_of(lab.get(host)) == "preview_private");
        pass = lab.pass(made, host);
        CHECK(lab.get(host, {}, pass).status == 200);
        REQUIRE(lab.patch(made, {{"ports", {5173, 3000}}}).status == 200);
        lab.server.stop();
    }
    Lab again({}, data.path());
    const Json kept = again.api.get(made["id"]);
    CHECK(kept["preview"] == Json{{"access", "private"}, {"wake", false}, {"ports", {5173, 3000}}});
    const std::string host = Lab::name(made);
    CHECK(code_of(again.get(host)) == "preview_private");
    CHECK(code_of(again.get(host, {}, pass)) == "paused");
    // Lists are read by another process.
    const Json listed = again.api.call(200, "GET", "/v1/conversations");
    CHECK(listed["conversations"][0]["preview"] == kept["preview"]);
    REQUIRE(again.patch(made, {{"access", "public"}}).status == 200);
    CHECK(code_of(again.get(host)) == "paused");
    again.api.call(200, "POST", Lab::path(made) + "/resume");
    again.serve(made, 5173);
    CHECK(again.await(host).status == 200);
}

TEST_CASE("A key of the API stays out of the sandbox, another credential goes in") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const Json made = lab.make(Json::object());
    lab.serve(made, 5173);
    const std::string host = Lab::name(made);
    REQUIRE(lab.await(host).status == 200);
    const auto told = [&](const std::string& value) {
        return lab.get(host, {{"Authorization", value}}).header("x-seen-authorization");
    };
    CHECK(told("Bearer " + lab.server.key()) == "none");
    CHECK(told("bearer  " + lab.server.key()) == "none");
    CHECK(told("Bearer another") == "Bearer another");
    CHECK(told("Basic YTpi") == "Basic YTpi");
    const auto target = [&](const std::string& text) {
        return lab.visitor.request("GET", text, "", {{"Host", host}});
    };
    CHECK(target("/?k=another").status == 200);
    CHECK(code_of(target("/?k=" + lab.server.key())) == "invalid_request");
    CHECK(code_of(target("/" + lab.server.key() + "/")) == "invalid_request");
    const auto by_method = [&](const std::string& method) {
        return lab.visitor.request(method, "/", "", {{"Host", host}});
    };
    // The server inside knows GET alone, and says so itself.
    CHECK(code_of(by_method(lab.server.key())) == "invalid_request");
    CHECK(by_method("ANOTHER").status == 501);
}

TEST_CASE(
    "A sandbox without a conversation has a preview by the same rules; one with the host's network has "
    "none") {
    if (!is_root())
        SKIP("needs root");
    Lab lab({"--allow-host-network"});
    const Json alone = lab.api.call(201, "POST", "/v1/sandboxes", R"({"preview":{"access":"private"}})");
    const std::string id = alone["id"];
    CHECK(alone["preview"]["access"] == "private");
    const std::string host = "preview-" + id + ".preview.localhost";
    CHECK(code_of(lab.get(host)) == "preview_private");
    const Json token = lab.api.call(201, "POST", "/v1/sandboxes/" + id + "/tokens", R"({"scope":"preview"})");
    const std::string url = token["url"];
    const HttpResponse entered =
        lab.visitor.request("GET", url.substr(url.find("/.atoll")), "", {{"Host", host}});
    REQUIRE(entered.status == 303);
    const std::string cookie = entered.header("set-cookie");
    CHECK(code_of(lab.get(host, {}, cookie.substr(0, cookie.find(';')))) == "no_listener");

    const Json shared = lab.api.create({{"agent", "shell"}, {"network", "host"}});
    CHECK(shared["sandboxPublicUrl"].is_null());
    CHECK(lab.token(shared)["url"].is_null());
    CHECK(lab.get(Lab::name(shared)).status == 404);
    CHECK(lab.enter(shared, Lab::name(shared)).status == 404);
}

}  // namespace preview_access_test
