// Whose a network rule is, with real keys: whose secrets it gets, and whose ceilings bind it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <thread>

#include "core/plain/unique_fd.hpp"
#include "tests/integration/route_walk.hpp"
#include "tests/support/api_client.hpp"

namespace egress_rights_test {

using namespace atl::test;
using namespace atl::test::routes;
using atl::base::UniqueFd;

namespace {

/// Answers each request with the value of its field X-Api-Key.
class KeyUpstream {
  public:
    KeyUpstream() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&here), size) == 0);
        REQUIRE(::listen(listener_.get(), 8) == 0);
        REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size) == 0);
        port_ = std::to_string(ntohs(here.sin_port));
        thread_ = std::thread([this] { serve(); });
    }
    ~KeyUpstream() {
        ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept(2)
        thread_.join();
    }
    KeyUpstream(const KeyUpstream&) = delete;
    KeyUpstream& operator=(const KeyUpstream&) = delete;

    std::string authority() const { return "localhost:" + port_; }
    const std::string& port() const { return port_; }

  private:
    void serve() {
        for (;;) {
            const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client)
                return;
            std::string head;
            char piece[4096];
            while (head.find("\r\n\r\n") == std::string::npos) {
                const auto got = ::recv(client.get(), piece, sizeof piece, 0);
                if (got <= 0)
                    break;
                head.append(piece, static_cast<std::size_t>(got));
            }
            const std::string field = "x-api-key: ";
            const auto at = head.find(field);
            const std::string key =
                at == std::string::npos
                    ? "none"
                    : head.substr(at + field.size(), head.find("\r\n", at) - at - field.size());
            const std::string answer =
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(key.size()) +
                "\r\n\r\n" + key;
            (void)::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
        }
    }

    UniqueFd listener_;
    std::string port_;
    std::thread thread_;
};

/// A data directory, the upstream, and servers on both, one after the other.
struct Ground {
    Ground() { std::filesystem::create_directory(data_dir()); }
    std::filesystem::path data_dir() const { return dir.path() / "data"; }
    /// `ceiling`: the host that users may list.
    ServerOptions options(const std::string& ceiling) const {
        ServerOptions made;
        made.data_dir = data_dir();
        made.arguments = {"--egress-allow", ceiling, "--egress-private", "127.0.0.1/32:" + upstream.port()};
        return made;
    }
    Json route(const std::string& name, const std::string& secret) const {
        return {{"name", name},
                {"upstream", "http://" + upstream.authority()},
                {"headers", {{"x-api-key", {{"secret", secret}}}}}};
    }

    const TempDir dir;
    const KeyUpstream upstream;
};

Json network_of(const Json& allow, const Json& routes, bool ask = false) {
    return {{"network", {{"mode", "egress"}, {"allow", allow}, {"routes", routes}, {"ask", ask}}}};
}

/// The body and the status that a program inside gets.
std::string fetched(ApiClient& api, const std::string& sandbox, const std::string& what) {
    return api.call(200, "POST", "/v1/sandboxes/" + sandbox + "/exec",
                    Json{{"command", "curl -s -w ' %{http_code}' " + what}}.dump())["stdout"];
}

std::string by_route(ApiClient& api, const std::string& sandbox, const std::string& name) {
    return fetched(api, sandbox, "--noproxy '*' http://127.0.0.1:3129/" + name + "/x");
}

std::string put_secret(HttpClient& client, const std::string& name, const std::string& value) {
    const Json body{{"value", value}, {"hosts", Json::array({"localhost"})}};
    return std::to_string(client.request("PUT", "/v1/secrets/" + name, body.dump()).status);
}

/// The status, and the code of a problem.
std::string set(HttpClient& client, const std::string& conversation, const Json& change) {
    const HttpResponse response = client.request("PATCH", conversation, change.dump());
    return std::to_string(response.status) + (response.status >= 400 ? ' ' + code_of(response) : "");
}

}  // namespace

TEST_CASE("An operator who adds a rule to a user's network lends its rules no secret and no ceiling") {
    const Ground ground;
    std::string sandbox;
    {
        ServerProcess server(ground.options(ground.upstream.authority()));
        ApiClient api(server);
        HttpClient alice = client_with(server, add_key(server, {"web", "--user-id", "alice"}).secret);
        REQUIRE(put_secret(alice, "KEY", "value-of-alice") == "201");
        REQUIRE(put_secret(api.http(), "KEY", "value-of-operator") == "201");
        const Json routes = Json::array({ground.route("r", "KEY")});
        const HttpResponse made =
            alice.request("POST", "/v1/conversations", network_of(Json::array(), routes).dump());
        REQUIRE(made.status == 201);
        const Json view = Json::parse(made.body);
        sandbox = view["sandboxId"];
        const std::string conversation = "/v1/conversations/" + view["id"].get<std::string>();
        CHECK(by_route(api, sandbox, "r") == "value-of-alice 200");

        // The console sends what is there, and one more.
        Json network = api.get(view["id"])["network"];
        network["allow"].push_back("new.example");
        CHECK(set(api.http(), conversation, {{"network", network}}) == "200");
        CHECK(by_route(api, sandbox, "r") == "value-of-alice 200");
        // The control: a route of the operator's own.
        network["routes"].push_back(ground.route("own", "KEY"));
        CHECK(set(api.http(), conversation, {{"network", network}}) == "200");
        CHECK(by_route(api, sandbox, "own") == "value-of-operator 200");
        CHECK(by_route(api, sandbox, "r") == "value-of-alice 200");
        REQUIRE(server.stop() == 0);
    }
    // The ceiling of that user is another one now.
    const ServerProcess server(ground.options("other.example"));
    ApiClient api(server);
    CHECK(by_route(api, sandbox, "r").ends_with(" 403"));
    CHECK(by_route(api, sandbox, "own") == "value-of-operator 200");
}

TEST_CASE("A user's key keeps, moves and widens no rule that an operator's key made") {
    const Ground ground;
    const ServerProcess server(ground.options(ground.upstream.authority()));
    ApiClient api(server);
    HttpClient alice = client_with(server, add_key(server, {"web", "--user-id", "alice"}).secret);
    REQUIRE(put_secret(api.http(), "KEY", "value-of-operator") == "201");
    Json request = network_of(Json::array({"new.example"}), Json::array({ground.route("r", "KEY")}));
    request["userId"] = "alice";
    const Json view = api.create(request);
    const std::string sandbox = view["sandboxId"];
    const std::string conversation = "/v1/conversations/" + view["id"].get<std::string>();
    CHECK(by_route(api, sandbox, "r") == "value-of-operator 200");

    CHECK(set(alice, conversation, {{"network", view["network"]}}) == "403 network_not_allowed");
    Json kept = ground.route("r", "KEY");
    CHECK(set(alice, conversation, network_of(Json::array(), Json::array({kept}))) == "422 secret_not_found");
    kept["paths"] = Json::array({"/*"});
    CHECK(set(alice, conversation, network_of(Json::array(), Json::array({kept}))) == "422 secret_not_found");
    kept["upstream"] = "https://elsewhere.example";
    CHECK(set(alice, conversation, network_of(Json::array(), Json::array({kept}))) ==
          "403 network_not_allowed");
    CHECK(api.get(view["id"])["network"] == view["network"]);
    CHECK(by_route(api, sandbox, "r") == "value-of-operator 200");

    // With a secret of that name, the rule has that user's.
    REQUIRE(put_secret(alice, "KEY", "value-of-alice") == "201");
    CHECK(set(alice, conversation, network_of(Json::array(), Json::array({ground.route("r", "KEY")}))) ==
          "200");
    CHECK(by_route(api, sandbox, "r") == "value-of-alice 200");
}

TEST_CASE("A rule by a user's decision is held to that user's ceiling in an operator's list, too") {
    const Ground ground;
    const std::string address = "-x http://127.0.0.1:3128 --noproxy '' http://" + ground.upstream.authority();
    std::string sandbox;
    {
        ServerProcess server(ground.options(ground.upstream.authority()));
        ApiClient api(server);
        HttpClient alice = client_with(server, add_key(server, {"web", "--user-id", "alice"}).secret);
        Json request = network_of(Json::array(), Json::array(), true);
        request["userId"] = "alice";
        const Json view = api.create(request);
        sandbox = view["sandboxId"];
        const std::string conversation = "/v1/conversations/" + view["id"].get<std::string>();
        HttpClient follower = api.connect();
        follower.open_stream("GET", conversation + "/events", "", {{"Accept", "text/event-stream"}});
        api.call(202, "POST", conversation + "/messages", Json{{"content", "curl -s " + address}}.dump());
        const std::string question = read_until(follower, "egress_request").back()["data"]["id"];
        CHECK(
            alice.request("POST", conversation + "/egress/" + question, R"({"decision":"always"})").status ==
            204);
        read_until(follower, "done");
        follower.close();
        CHECK(api.get(view["id"])["network"]["allow"] == Json::array({ground.upstream.authority()}));
        CHECK(fetched(api, sandbox, address) == "none 200");
        REQUIRE(server.stop() == 0);
    }
    const ServerProcess server(ground.options("other.example"));
    ApiClient api(server);
    CHECK(fetched(api, sandbox, address).ends_with(" 403"));
}

}  // namespace egress_rights_test
