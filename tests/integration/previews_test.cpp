// Servers inside sandboxes, reached by the host names of their previews.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "tests/support/api_client.hpp"

namespace integration_previews_test {

using namespace atl;
using namespace atl::test;

namespace {

// A server on one port that says which sandbox it is, and repeats what it gets.
constexpr const char* k_server = R"(
import http.server, sys, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size) if size else b"hello from " + sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Seen-Host", self.headers["Host"])
        self.send_header("X-Seen-Key", self.headers.get("X-API-Key", "none"))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
)";

struct Lab {
    std::string make() { return api.call(201, "POST", "/v1/sandboxes", "{}")["id"]; }
    void serve(const std::string& id, const std::string& says, int port = 5173) {
        const Json wanted{{"argv", {"python3", "-c", k_server, says, std::to_string(port)}}};
        api.call(201, "POST", "/v1/sandboxes/" + id + "/processes", wanted.dump());
    }
    static std::string host(const std::string& label) { return label + ".preview.localhost"; }
    HttpResponse get(const std::string& label, const HeaderList& more = {}) {
        HeaderList headers{{"Host", host(label)}};
        headers.insert(headers.end(), more.begin(), more.end());
        return visitor.request("GET", "/a?b=c", "", headers);
    }
    /// Once the server inside listens.
    HttpResponse await(const std::string& label) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        for (;;) {
            HttpResponse answer = get(label);
            if (answer.status != 503 || std::chrono::steady_clock::now() > until)
                return answer;
        }
    }

    ServerProcess server{{.arguments = {"--preview-domain", "preview.localhost"}}};
    ApiClient api{server};
    HttpClient visitor{server.address()};
};

}  // namespace

TEST_CASE("A preview shows what listens inside its sandbox, by either name, and nothing of another one") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const std::string one = lab.make();
    const std::string two = lab.make();
    lab.serve(one, "one");
    lab.serve(two, "two");
    CHECK(lab.api.call(200, "GET", "/v1/sandboxes/" + one)["sandboxPublicUrl"] ==
          "http://preview-" + one + ".preview.localhost:" + std::to_string(lab.server.port()) + "/");
    const HttpResponse first = lab.await("preview-" + one);
    CHECK(first.status == 200);
    CHECK(first.body == "hello from one");
    CHECK(first.header("x-seen-host") == "localhost:5173");
    CHECK(lab.await("preview-" + two).body == "hello from two");
    CHECK(lab.get("PREVIEW-" + one + "-5173", {{"X-API-Key", lab.server.key()}}).header("x-seen-key") ==
          "none");
    const std::string big(3UL * 1024 * 1024, 'x');
    const HttpResponse echoed = lab.visitor.request(
        "POST", "/", big, {{"Host", Lab::host("preview-" + one)}, {"Content-Type", "a/b"}});
    CHECK(echoed.body == big);
    // The server's sockets are not the sandbox's.
    for (int i = 0; i < 50; ++i)
        CHECK(lab.get("preview-" + one).status == 200);
    lab.api.call(204, "DELETE", "/v1/sandboxes/" + one);
    CHECK(eventually([&] { return lab.get("preview-" + one).status == 404; }));
    CHECK(lab.get("preview-" + two).body == "hello from two");
}

TEST_CASE("A preview says what is wrong: another port, an unknown name, nobody who listens, a pause") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const std::string id = lab.make();
    lab.serve(id, "secret", 9999);
    const HttpResponse other = lab.get("preview-" + id + "-9999");
    CHECK(other.status == 403);
    CHECK(code_of(other) == "port_not_public");
    CHECK(lab.get("preview-aaaaaaaaaaaaaaaaaaaa").status == 404);
    CHECK(lab.get("elsewhere-" + id).status == 400);
    CHECK(lab.get("a.preview-" + id).status == 421);
    const HttpResponse nobody = lab.get("preview-" + id);
    CHECK(nobody.status == 503);
    CHECK(code_of(nobody) == "no_listener");
    const HttpResponse page = lab.get("preview-" + id, {{"Accept", "text/html,*/*"}});
    CHECK(page.status == 503);
    CHECK(page.header("content-type").starts_with("text/html"));
    CHECK(page.header("x-atoll-preview") == "no_listener");
    CHECK(page.body.find("<h1>Nothing listens on port 5173</h1>") != std::string::npos);

    const Json made = lab.api.create({{"agent", "shell"}});
    const std::string sandbox = made["sandboxId"];
    lab.api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause",
                 R"({"mode":"cold"})");
    const HttpResponse paused = lab.get("preview-" + sandbox);
    CHECK(paused.status == 503);
    CHECK(code_of(paused) == "paused");
    CHECK(lab.api.get(made["id"])["status"] == "paused");
}

TEST_CASE("Without a domain no name is a preview's") {
    ServerProcess server;
    HttpClient visitor(server.address());
    const HttpResponse answer = visitor.request("GET", "/", "", {{"Host", "preview-a.preview.localhost"}});
    CHECK(answer.status != 503);
    CHECK(answer.header("x-atoll-preview").empty());
}

TEST_CASE("With a listener of their own previews answer there alone, at the address that is told") {
    if (!is_root())
        SKIP("needs root");
    const TempDir dir;
    const std::string socket = "unix:" + (dir.path() / "previews").string();
    ServerProcess server{{.arguments = {"--preview-domain", "preview.example", "--preview-listen", socket,
                                        "--preview-url", "https://{host}:8443"}}};
    ApiClient api(server);
    const Json made = api.call(201, "POST", "/v1/sandboxes", "{}");
    const std::string host = "preview-" + made["id"].get<std::string>() + ".preview.example";
    CHECK(made["sandboxPublicUrl"] == "https://" + host + ":8443/");
    HttpClient visitor(socket);
    CHECK(code_of(visitor.request("GET", "/", "", {{"Host", host}})) == "no_listener");
    CHECK(code_of(visitor.request("GET", "/healthz", "", {{"Host", "localhost"}})) == "host_not_allowed");
    HttpClient other(server.address());
    CHECK(code_of(other.request("GET", "/", "", {{"Host", host}})) == "host_not_allowed");
}

TEST_CASE("A listener of previews gives an address as many connections as the API does, counted apart") {
    const TempDir dir;
    const std::string socket = "unix:" + (dir.path() / "previews").string();
    const ServerProcess server{
        {.arguments = {"--preview-domain", "preview.example", "--preview-listen", socket, "--limit-loopback",
                       "--max-connections-per-address", "2"}}};
    const HeaderList name{{"Host", "none.preview.example"}};
    HttpClient one(socket);
    HttpClient two(socket);
    CHECK(one.request("GET", "/", "", name).status == 400);
    CHECK(two.request("GET", "/", "", name).status == 400);
    HttpClient three(socket);
    three.connect();
    const HttpResponse refused = three.read_response();
    CHECK(refused.status == 429);
    CHECK(code_of(refused) == "too_many_connections");
    HttpClient of_api(server.address());
    CHECK(of_api.request("GET", "/healthz").status == 200);
    one.close();
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    int status = 429;
    while (status == 429 && std::chrono::steady_clock::now() < until) {
        three.connect();
        three.send_raw("GET / HTTP/1.1\r\nHost: none.preview.example\r\n\r\n");
        status = three.read_response().status;
    }
    CHECK(status == 400);
}

TEST_CASE("Below a domain that is not localhost the address that is told is HTTPS without a port") {
    if (!is_root())
        SKIP("needs root");
    ServerProcess server{{.arguments = {"--preview-domain", "preview.example"}}};
    ApiClient api(server);
    const Json made = api.call(201, "POST", "/v1/sandboxes", "{}");
    CHECK(made["sandboxPublicUrl"] ==
          "https://preview-" + made["id"].get<std::string>() + ".preview.example/");
}

}  // namespace integration_previews_test
