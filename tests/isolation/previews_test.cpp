// Previews: whom a visitor reaches by the name of a sandbox.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "tests/isolation/lab.hpp"

namespace isolation_previews_test {

using namespace atl::test;

namespace {

// Says its name on every port that it is given, at 127.0.0.1.
constexpr const char* k_say = R"(
import http.server, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
for port in sys.argv[2:]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    threading.Thread(target=server.serve_forever).start()
)";

class Visitor {
  public:
    explicit Visitor(const Lab& lab) : client_(lab.server.address()) {}
    HttpResponse get(const std::string& label) {
        return client_.request("GET", "/", "", {{"Host", label + ".preview.localhost"}});
    }
    HttpResponse await(const std::string& label, int status) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        HttpResponse answer = get(label);
        while (answer.status != status && std::chrono::steady_clock::now() < until)
            answer = get(label);
        return answer;
    }

  private:
    HttpClient client_;
};

void serve(Lab& lab, const Sandbox& sandbox, const std::string& says, const std::string& port = "5173") {
    const Json wanted{{"argv", {"python3", "-c", k_say, says, port}}};
    lab.api.call(201, "POST", "/v1/sandboxes/" + sandbox.sandbox_id() + "/processes", wanted.dump());
}

}  // namespace

TEST_CASE("The preview of a sandbox shows that sandbox alone, also when another one has just ended") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Visitor visitor(lab);
    Sandbox other(lab);
    serve(lab, other, "other");
    std::string gone;
    {
        Sandbox one(lab);
        gone = "preview-" + one.sandbox_id();
        serve(lab, one, "one");
        CHECK(visitor.await(gone, 200).body == "one");
        CHECK(visitor.await("preview-" + other.sandbox_id(), 200).body == "other");
        CHECK(visitor.get(gone).body == "one");
    }
    // On the same connection, at once, and when others have come in its place.
    const auto is_gone = [&] {
        const HttpResponse answer = visitor.get(gone);
        // 410 while its files are being removed: the deletion is answered before.
        const bool is_told = answer.status == 404 || answer.status == 410;
        CHECK(is_told);
        CHECK(answer.body != "one");
        CHECK(answer.body != "other");
    };
    is_gone();
    for (int i = 0; i < 3; ++i) {
        Sandbox next(lab);
        is_gone();
        CHECK(visitor.get("preview-" + next.sandbox_id()).status == 503);
        serve(lab, next, "next");
        CHECK(visitor.await("preview-" + next.sandbox_id(), 200).body == "next");
        is_gone();
    }
    CHECK(visitor.get("preview-" + other.sandbox_id()).body == "other");
}

TEST_CASE("A preview reaches the sandbox's own loopback, never the host's") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const std::string port = lab.services.port();
    // It is there, for who may reach it.
    REQUIRE(outside({"connect", "tcp:" + port + ":127.0.0.1"}, ordinary_uid()).others_than({"OK"}) == "");
    Visitor visitor(lab);
    Sandbox sandbox(lab, {{"preview", {{"ports", {std::stoi(port)}}}}});
    const std::string name = "preview-" + sandbox.sandbox_id();
    for (const std::string& label : {name, name + "-" + port}) {
        const HttpResponse answer = visitor.get(label);
        CHECK(answer.status == 503);
        CHECK(Json::parse(answer.body)["code"] == "no_listener");
    }
    serve(lab, sandbox, "inside", port);
    CHECK(visitor.await(name, 200).body == "inside");
}

TEST_CASE("Ports that are kept for the server are shown to nobody, whoever listens on them") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Visitor visitor(lab);
    Sandbox sandbox(lab);
    for (const char* port : {"3128", "3129"}) {
        serve(lab, sandbox, "secret", port);
        const std::string wanted = R"({"preview":{"ports":[)" + std::string(port) + "]}}";
        lab.api.call(422, "PATCH", "/v1/conversations/" + sandbox.id(), wanted);
        CHECK(visitor.get("preview-" + sandbox.sandbox_id() + "-" + port).status == 403);
    }
    serve(lab, sandbox, "shown");
    CHECK(visitor.await("preview-" + sandbox.sandbox_id(), 200).body == "shown");
}

TEST_CASE("The server's own sockets in a sandbox do not count as the sandbox's") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Visitor visitor(lab);
    Sandbox sandbox(lab);
    serve(lab, sandbox, "well");
    CHECK(visitor.await("preview-" + sandbox.sandbox_id(), 200).body == "well");
    const Json metrics = lab.api.call(200, "GET", "/v1/sandboxes/" + sandbox.sandbox_id() + "/metrics");
    REQUIRE(metrics["sockets"].is_number());
    CHECK(metrics["sockets"].get<int>() < 16);
    CHECK(sandbox.is_well());
}

}  // namespace isolation_previews_test
