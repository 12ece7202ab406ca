// The way out of a sandbox: what its proxy lets through, and in which words it refuses.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "core/plain/egress_limits.hpp"
#include "tests/unit/http/egress_lab.hpp"

namespace egress_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr std::string_view k_ok = "HTTP/1.1 200 Connection Established\r\n\r\n";
constexpr std::string_view k_answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nhi";

bool holds(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::string connect_to(const std::string& target) {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
}

/// Refuses all requests, as those of a client of the server's.
class RefusingService final : public http::Service {
  public:
    http::Decision admit(http::RequestContext& context, const http::Arrival&) override {
        http::Decision decision;
        decision.refusal = refuse(context, base::Error(base::Errc::not_found));
        return decision;
    }
    http::Response refuse(const http::RequestContext&, const base::Error&) override {
        http::Response response;
        response.status = 404;
        return response;
    }
};

}  // namespace

TEST_CASE("Refused requests of programs inside have no line in the server's log, as those of clients have") {
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    RefusingService api;
    const http::Services of_api(api);
    {
        EgressLab lab({"a.example:80"});
        const auto refused = lab.connect("GET http://evil.example/chosen HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK(lab.take(*refused).starts_with("HTTP/1.1 403 "));
        const auto unread = lab.connect("GET /chosen HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK(lab.take(*unread).starts_with("HTTP/1.1 400 "));
        CHECK_FALSE(holds(log.str(), "evt=request "));
        const auto client = lab.connect("GET /chosen HTTP/1.1\r\nHost: x\r\n\r\n", of_api);
        CHECK(lab.take(*client).starts_with("HTTP/1.1 404 "));
    }
    spdlog::set_default_logger(before);
    CHECK(holds(log.str(), "evt=request method=GET path=\"/chosen\""));
}

TEST_CASE("A request passes to the host of its target, whatever its Host says, and the answer comes back") {
    EgressLab lab({"a.example:80"});
    const auto inside = lab.connect(
        "POST http://a.example/x?y=1 HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: Basic eDp5\r\n"
        "Proxy-Connection: keep-alive\r\nX-Own: 1\r\nContent-Length: 3\r\n\r\nabc");
    CHECK(lab.looked_up == std::vector<std::string>{"box a.example"});
    REQUIRE(lab.dialed == std::vector<std::string>{"192.0.2.1 80"});
    const std::string asked = lab.take(lab.upstream());
    CHECK(asked.starts_with("POST /x?y=1 HTTP/1.1\r\nHost: a.example\r\n"));
    CHECK(asked.ends_with("Content-Length: 3\r\n\r\nabc"));
    CHECK(holds(asked, "X-Own: 1\r\n"));
    for (const char* gone : {"evil", "Proxy-", "X-Forwarded"})
        CHECK_FALSE(holds(asked, gone));
    lab.send(lab.upstream(), k_answer);
    const std::string answer = lab.take(*inside);
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(answer.ends_with("\r\n\r\nhi"));

    // The connection goes on, and another host on it is asked for anew.
    lab.send(*inside, "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.take(*inside).starts_with("HTTP/1.1 403 "));
    CHECK(lab.dialed.size() == 1);
}

TEST_CASE("A redirect is passed on, and a port is part of Host") {
    EgressLab lab({"a.example:8080"});
    const auto inside = lab.connect("GET http://a.example:8080/ HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(holds(lab.take(lab.upstream()), "Host: a.example:8080\r\n"));
    lab.send(lab.upstream(), "HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n");
    CHECK(holds(lab.take(*inside), "Location: http://10.0.0.1/\r\n"));
    CHECK(lab.dialed.size() == 1);
}

TEST_CASE("A host that is not listed is refused in one line, and no resolver hears of it") {
    EgressLab lab({"a.example:80"});
    for (const std::string& request :
         {connect_to("secret.evil.example:443"), connect_to("a.example:443"),
          std::string("GET http://secret.evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
          std::string("GET http://127.0.0.1/ HTTP/1.1\r\nHost: a.example\r\n\r\n")}) {
        INFO(request);
        const auto inside = lab.connect(request);
        const std::string answer = lab.take(*inside);
        CHECK(answer.starts_with("HTTP/1.1 403 "));
        const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
        CHECK(body.ends_with(" is not listed.\n"));
        // Programs that get no tunnel tell the status line.
        CHECK(answer.substr(13, answer.find("\r\n") - 13) + '\n' == body);
        CHECK(std::count(body.begin(), body.end(), '\n') == 1);
    }
    CHECK(lab.looked_up.empty());
    CHECK(lab.dialed.empty());
    // Control.
    lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.dialed.size() == 1);
}

TEST_CASE("What is no request to a proxy is refused, and TRACE is") {
    EgressLab lab({"a.example:80", "a.example:443"});
    const std::pair<std::string_view, std::string_view> requests[] = {
        {"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "400"},
        {"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "400"},
        {"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", "400"},
        {"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "400"},
        {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\n", "400"},
        {"TRACE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "405"}};
    for (const auto& [request, status] : requests) {
        INFO(request);
        const auto inside = lab.connect(request);
        CHECK(lab.take(*inside).substr(9, 3) == status);
    }
    CHECK(lab.dialed.empty());
}

TEST_CASE("Only addresses that may be reached are connected") {
    EgressLab lab({"inner.example:80", "mixed.example:80", "gone.example:80"});
    const auto status = [&](const std::string& host) {
        const auto inside = lab.connect("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n");
        return lab.take(*inside).substr(0, 12);
    };
    CHECK(status("inner.example") == "HTTP/1.1 403");
    CHECK(status("gone.example") == "HTTP/1.1 502");
    CHECK(lab.dialed.empty());
    CHECK(status("mixed.example").empty());
    CHECK(lab.dialed == std::vector<std::string>{"192.0.2.3 80"});
}

TEST_CASE("A tunnel carries TLS for the name that it was opened for") {
    EgressLab lab({"a.example:443"});
    const auto inside = lab.connect(connect_to("a.example:443"));
    CHECK(lab.take(*inside) == k_ok);
    lab.send(*inside, "TLS a.exa");
    CHECK(lab.take(lab.upstream()).empty());
    lab.send(*inside, "mple;and more");
    CHECK(lab.take(lab.upstream()) == "TLS a.example;");
    lab.send(lab.upstream(), "back");
    CHECK(lab.take(*inside) == "back");
    CHECK(lab.take(lab.upstream()) == "and more");
    CHECK(lab.door->open() == 1);
    lab.upstream().end_sending();
    inside->end_sending();
    lab.run();
    CHECK(inside->is_closed());
    CHECK(lab.upstream().is_closed());
    CHECK(lab.door->open() == 0);
}

TEST_CASE("A tunnel that begins with anything else is cut before the upstream has a byte of it") {
    EgressLab lab({"a.example:443", "192.0.2.9:443"});
    const std::pair<std::string, std::string> tunnels[] = {{"a.example:443", "TLS evil.example;"},
                                                           {"a.example:443", "TLS ;"},
                                                           {"a.example:443", "GET / HTTP/1.1\r\n\r\n"},
                                                           {"a.example:443", "SSH-2.0-x\r\n"},
                                                           {"192.0.2.9:443", "TLS a.example;"}};
    for (const auto& [target, bytes] : tunnels) {
        INFO(target << ' ' << bytes);
        const auto inside = lab.connect(connect_to(target) + bytes);
        CHECK(lab.take(*inside) == k_ok);
        CHECK(inside->was_reset());
        CHECK(lab.take(lab.upstream()).empty());
        CHECK(lab.upstream().is_closed());
    }
    // Control: of a literal no client names one.
    lab.connect(connect_to("192.0.2.9:443") + "TLS ;");
    CHECK(lab.take(lab.upstream()) == "TLS ;");
    CHECK(lab.looked_up.size() == 4);
}

TEST_CASE("A rule for any bytes lets any bytes pass, and the upstream may begin") {
    EgressLab lab({"a.example:22/tcp"});
    const auto inside = lab.connect(connect_to("a.example:22"));
    lab.send(lab.upstream(), "SSH-2.0-y\r\n");
    CHECK(lab.take(*inside) == std::string(k_ok) + "SSH-2.0-y\r\n");
    lab.send(*inside, "SSH-2.0-x\r\n");
    CHECK(lab.take(lab.upstream()) == "SSH-2.0-x\r\n");
}

TEST_CASE("A tunnel whose first bytes do not come is cut, one that is open may be silent") {
    EgressLab lab({"a.example:443"});
    const auto silent = lab.connect(connect_to("a.example:443"));
    const auto slow = lab.connect(connect_to("a.example:443"));
    const auto open = lab.connect(connect_to("a.example:443") + "TLS a.example;");
    lab.advance(base::k_egress_opening_time / 2);
    lab.send(*slow, "T");
    lab.advance(base::k_egress_opening_time / 2 + base::Millis(1));
    CHECK(silent->was_reset());
    CHECK(slow->was_reset());
    CHECK_FALSE(open->is_closed());
}

TEST_CASE("Requests in a tunnel to port 80 are read as any others") {
    EgressLab lab({"a.example:80"});
    const auto inside =
        lab.connect(connect_to("a.example:80") + "GET /1 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    CHECK(lab.take(*inside) == k_ok);
    CHECK(lab.take(lab.upstream()) == "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    lab.send(lab.upstream(), k_answer);
    CHECK(holds(lab.take(*inside), "\r\n\r\nhi"));
    lab.send(*inside, "GET /2 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    CHECK(lab.take(lab.upstream()) == "GET /2 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.dialed.size() == 1);
    lab.send(lab.upstream(), k_answer);
    CHECK(holds(lab.take(*inside), "\r\n\r\nhi"));
    lab.send(*inside, "what is this\r\n\r\n");
    CHECK(inside->was_reset());
}

TEST_CASE("A WebSocket passes, by an absolute target and in a tunnel to port 80") {
    EgressLab lab({"a.example:80"});
    constexpr std::string_view k_fields =
        " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (const std::string& start :
         {std::string("GET http://a.example/ws"), connect_to("a.example:80") + "GET /ws"}) {
        INFO(start);
        const auto inside = lab.connect(start + std::string(k_fields));
        const std::string asked = lab.take(lab.upstream());
        CHECK(asked.starts_with("GET /ws HTTP/1.1\r\nHost: a.example\r\n"));
        CHECK(holds(asked, "Upgrade: websocket\r\n"));
        lab.send(lab.upstream(),
                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                 "Upgrade: websocket\r\n\r\ndown");
        const std::string answer = lab.take(*inside);
        CHECK(holds(answer, "HTTP/1.1 101 "));
        CHECK(answer.ends_with("\r\n\r\ndown"));
        lab.send(*inside, "up");
        CHECK(lab.take(lab.upstream()) == "up");
    }
    // A rule that is taken back cuts both.
    CHECK(lab.door->open() == 2);
    lab.door->change({{}, ""});
    lab.advance(base::Millis(1));
    CHECK(lab.door->open() == 0);
}

TEST_CASE("A tunnel to port 80 passes no TRACE and no CONNECT on") {
    EgressLab lab({"a.example:80"});
    for (const char* method : {"TRACE", "CONNECT", "GET"}) {
        INFO(method);
        const auto inside = lab.connect(connect_to("a.example:80") + "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
        lab.take(lab.upstream());
        lab.send(lab.upstream(), k_answer);
        lab.take(*inside);
        lab.send(*inside, std::string(method) + " /2 HTTP/1.1\r\nHost: a.example\r\n\r\n");
        const bool passes = std::string_view(method) == "GET";  // the control
        CHECK(lab.take(lab.upstream()).empty() != passes);
        CHECK(lab.take(*inside).starts_with("HTTP/1.1 405 ") != passes);
        CHECK(inside->input_ended() != passes);
    }
}

TEST_CASE("A tunnel to port 80 ends with the connection of its upstream, and the answer says so") {
    EgressLab lab({"a.example:80"});
    const auto inside = lab.connect(connect_to("a.example:80") + "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    lab.take(lab.upstream());
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    const std::string answer = lab.take(*inside);
    CHECK(holds(answer, "Connection: close\r\n"));
    CHECK(answer.ends_with("\r\n\r\nhi"));
    CHECK(inside->input_ended());
    CHECK_FALSE(inside->was_reset());

    // A connection to the proxy itself goes on: its next request may be for another host.
    const auto proxied = lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    lab.take(lab.upstream());
    lab.send(lab.upstream(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    CHECK_FALSE(holds(lab.take(*proxied), "Connection: close\r\n"));
    CHECK_FALSE(proxied->input_ended());
}

TEST_CASE("A rule that is taken back ends what is open by it, and nothing else") {
    EgressLab lab({"a.example:443", "mixed.example:22/tcp", "a.example:80"});
    const auto gone = lab.connect(connect_to("a.example:443") + "TLS a.example;");
    const auto narrowed = lab.connect(connect_to("mixed.example:22") + "any");
    const auto kept = lab.connect("GET http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(lab.door->open() == 3);
    lab.door->change({{"a.example:80", "mixed.example:22"}, ""});
    lab.advance(base::Millis(1));
    CHECK(gone->is_closed());
    CHECK(narrowed->is_closed());
    REQUIRE_FALSE(kept->is_closed());
    lab.send(lab.upstream(), k_answer);
    CHECK(holds(lab.take(*kept), "\r\n\r\nhi"));
    const auto again = lab.connect(connect_to("a.example:443"));
    CHECK(lab.take(*again).starts_with("HTTP/1.1 403 "));
}

}  // namespace egress_test
