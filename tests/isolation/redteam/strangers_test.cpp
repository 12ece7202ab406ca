// Clients without a key: none of them fills the server's log, or holds a connection by bytes that are no
// request, or reaches a private preview through the browser of a visitor who has its pass.
#include <poll.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <list>
#include <string>
#include <vector>

#include "core/base/base64.hpp"
#include "tests/isolation/lab.hpp"
#include "tests/support/deadline.hpp"

namespace strangers_test {

using namespace atl::test;

namespace {

std::size_t lines_with(const std::string& text, std::string_view word) {
    std::size_t count = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++count;
    return count;
}

/// A token as clients may send it: as it is, percent-encoded twice, and in base64, alone and behind a name.
std::vector<std::string> forms_of(const std::string& token) {
    std::string twice;
    for (const char c : token)
        twice += c == '.' ? std::string("%252E") : std::string(1, c);
    std::string alone, named;
    atl::base::append_base64(alone, token);
    atl::base::append_base64(named, "me:" + token);
    return {token, twice, alone, named};
}

// Answers requests and upgrades on port 5173, and repeats what address it was asked for, at /fields the
// fields.
constexpr const char* k_dev_server = R"(
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        upgrade = self.headers.get("Upgrade")
        body = (str(self.headers) if self.path == "/fields" else self.path).encode()
        self.send_response(101 if upgrade else 200)
        if upgrade:
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", upgrade)
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if upgrade else body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 5173), Handler).serve_forever()
)";

// Answers `/ready`, and keeps every other connection for good, also once its client has left. It computes a
// little for each: sockets are counted as sandboxes use the processors.
constexpr const char* k_keeping_server = R"(
import socket
server = socket.create_server(("127.0.0.1", 5173), backlog=256)
kept = []
while True:
    connection, _ = server.accept()
    if connection.recv(4096).startswith(b"GET /ready"):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.close()
    else:
        kept.append(connection)
        sum(range(300000))
)";

/// Visitors of one preview, each with a connection of its own.
class Crowd {
  public:
    Crowd(Lab& lab, const Sandbox& sandbox) : address_(lab.server.address()) {
        host_ =
            "preview-" + sandbox.sandbox_id() + ".preview.localhost" + address_.substr(address_.rfind(':'));
        const Json wanted{{"argv", {"python3", "-c", k_keeping_server}}};
        lab.api.call(201, "POST", "/v1/sandboxes/" + sandbox.sandbox_id() + "/processes", wanted.dump());
        REQUIRE(eventually([&] { return ready("198.51.100.1").status == 200; }));
    }
    HttpResponse ready(const std::string& from) const {
        return HttpClient(address_).request("GET", "/ready", "",
                                            {{"Host", host_}, {"X-Forwarded-For", from}});
    }
    void begin(const std::string& head, const std::string& from) {
        HttpClient& visitor = visitors.emplace_back(address_);
        visitor.connect();
        visitor.send_raw(head + " HTTP/1.1\r\nHost: " + host_ + "\r\nX-Forwarded-For: " + from +
                         "\r\nContent-Length: 1000000\r\n\r\n");
    }
    /// The number of visitors that got an answer.
    std::size_t answered() {
        return static_cast<std::size_t>(std::ranges::count_if(visitors, [](const HttpClient& visitor) {
            pollfd input{visitor.fd(), POLLIN, 0};
            return ::poll(&input, 1, 0) == 1;
        }));
    }

    std::list<HttpClient> visitors;

  private:
    std::string address_;
    std::string host_;
};

}  // namespace

TEST_CASE("Visitors of a preview cannot end its sandbox by the number of their connections",
          "[redteam][drawn][strangers]") {
    Lab lab(Privilege::as_started, {"--preview-domain", "preview.localhost"});
    const Json request{{"limits", {{"maxSockets", 64}}}};
    const auto status_of = [&](const Sandbox& sandbox) {
        return lab.api.call(200, "GET", "/v1/conversations/" + sandbox.id())["status"].get<std::string>();
    };
    {
        // The control: as many sockets of its own end it.
        Sandbox control(lab, request);
        const Json wanted{{"argv",
                           {"python3", "-c",
                            "import socket\nkept = [socket.socket() for _ in range(80)]\n"
                            "while True: pass"}}};
        lab.api.call(201, "POST", "/v1/sandboxes/" + control.sandbox_id() + "/processes", wanted.dump());
        CHECK(eventually([&] { return status_of(control) == "paused"; }));
    }
    Sandbox owner(lab, request);
    Crowd crowd(lab, owner);
    // Also with those of visitors who have left, which the dev server keeps.
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 80; ++i)
            crowd.begin("POST /", "192.0.2.1");
        CHECK(eventually([&] { return crowd.answered() >= 80 - 32; }));
        const auto refused = std::ranges::find_if(crowd.visitors, [](const HttpClient& visitor) {
            pollfd input{visitor.fd(), POLLIN, 0};
            return ::poll(&input, 1, 0) == 1;
        });
        REQUIRE(refused != crowd.visitors.end());
        const HttpResponse refusal = refused->read_response();
        CHECK(refusal.status == 503);
        CHECK_FALSE(refusal.header("retry-after").empty());
        crowd.visitors.clear();
    }
    CHECK(owner.is_well());
    CHECK(status_of(owner) == "active");
}

TEST_CASE("Uploads that stand still hold no preview for long, and those of one address never all of it",
          "[redteam][strangers][full]") {
    Lab lab(Privilege::as_started, {"--preview-domain", "preview.localhost", "--preview-connections", "40",
                                    "--trusted-proxy", "127.0.0.1"});
    Sandbox owner(lab);
    Crowd crowd(lab, owner);
    for (int i = 0; i < 60; ++i)
        crowd.begin("POST /", "192.0.2.1");
    CHECK(eventually([&] { return crowd.answered() >= 60 - 20; }));
    CHECK(crowd.ready("198.51.100.1").status == 200);
    crowd.visitors.clear();
    // The control: many addresses take all of it, for as long as a client may stand still.
    for (int i = 0; i < 60; ++i)
        crowd.begin("POST /", "192.0.2." + std::to_string(i + 1));
    CHECK(eventually([&] { return crowd.answered() >= 20; }));
    CHECK(crowd.ready("198.51.100.1").status == 503);
    // Few bytes, also on a machine where a round takes less than a millisecond.
    CHECK(eventually([&, round = 0]() mutable {
        for (HttpClient& visitor : crowd.visitors) {
            pollfd over{visitor.fd(), POLLIN, 0};
            if (round % 64 == 0 && ::poll(&over, 1, 0) == 0)
                visitor.send_raw("x");
        }
        ++round;
        return crowd.ready("198.51.100.1").status == 200;
    }));
}

TEST_CASE(
    "Pages of other sites reach no private preview through a visitor's browser, and no token goes inside",
    "[redteam][drawn][strangers]") {
    Lab lab(Privilege::as_started, {"--preview-domain", "preview.localhost"});
    Sandbox owner(lab, {{"preview", {{"access", "private"}}}});
    Sandbox other(lab);
    const Json wanted{{"argv", {"python3", "-c", k_dev_server}}};
    lab.api.call(201, "POST", "/v1/sandboxes/" + owner.sandbox_id() + "/processes", wanted.dump());
    const auto token_of = [&](const std::string& scope) {
        const Json asked{{"scope", scope}, {"ttlSeconds", 600}};
        return lab.api.call(201, "POST", "/v1/conversations/" + owner.id() + "/tokens", asked.dump())["token"]
            .get<std::string>();
    };
    const std::string host = "preview-" + owner.sandbox_id() + ".preview.localhost";
    const std::string name = host + lab.server.address().substr(lab.server.address().rfind(':'));
    HttpClient visitor(lab.server.address());
    const std::string set_cookie =
        visitor.request("GET", "/.atoll/enter?token=" + token_of("preview"), "", {{"Host", name}})
            .header("set-cookie");
    const std::string cookie = set_cookie.substr(0, set_cookie.find(';'));
    const auto get = [&](const std::string& origin, const std::string& path = "/",
                         const HeaderList& more = {}) {
        HeaderList headers{{"Host", name}, {"Cookie", cookie}, {"Origin", origin}};
        headers.insert(headers.end(), more.begin(), more.end());
        return HttpClient(lab.server.address()).request("GET", path, "", headers);
    };
    const HeaderList upgrade{{"Connection", "Upgrade"}, {"Upgrade", "echo"}};
    // The control: its own pages are answered, and open sockets.
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (get("http://" + name).status != 200 && std::chrono::steady_clock::now() < until)
        ::poll(nullptr, 0, 20);
    CHECK(get("http://" + name).status == 200);
    CHECK(get("http://" + name, "/", upgrade).status == 101);
    const std::string other_site =
        "http://preview-" + other.sandbox_id() + ".preview.localhost" + name.substr(host.size());
    for (const std::string& origin : {other_site, std::string("https://evil.example"), std::string("null")}) {
        CHECK(get(origin).status == 403);
        CHECK(get(origin, "/", upgrade).status == 403);
    }
    // The control: a dev server has tokens of its own, and gets what is no token of this server by one digit.
    CHECK(get("http://" + name, "/?token=its-own").body == "/?token=its-own");
    const std::string token = token_of("read");
    std::string no_token = token;
    no_token.back() = token.back() == '0' ? '1' : '0';
    const auto fields_inside = [&](const std::string& form) {
        const HeaderList headers{{"Host", name},
                                 {"Cookie", cookie + "; session=" + form},
                                 {"Authorization", "Bearer " + form},
                                 {"X-Any", form}};
        const HttpResponse answer = HttpClient(lab.server.address()).request("GET", "/fields", "", headers);
        CHECK(answer.status == 200);
        return lines_with(answer.body, form);
    };
    for (const std::string& form : forms_of(no_token)) {
        CHECK(get("http://" + name, "/?token=" + form).body == "/?token=" + form);
        CHECK(fields_inside(form) == 3);
    }
    for (const std::string& form : forms_of(token)) {
        CHECK(get("http://" + name, "/?token=" + form).status == 400);
        CHECK(fields_inside(form) == 0);
    }
}

TEST_CASE("Refused requests without a key write a few lines and a count, those with a key a line each",
          "[redteam][drawn][strangers]") {
    constexpr std::size_t k_requests = 200;
    Lab lab(Privilege::as_started);
    // The control: each refusal of a client with a key has its line.
    HttpClient client = lab.api.connect();
    for (std::size_t i = 0; i < k_requests; ++i)
        CHECK(client.request("GET", "/v1/with-a-key").status == 404);
    HttpClient stranger(lab.server.address());
    for (std::size_t i = 0; i < k_requests; ++i)
        CHECK(stranger.request("GET", "/v1/without-a-key").status == 401);
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    std::string log;
    while (lines_with(log, "evt=requests_suppressed") == 0 && std::chrono::steady_clock::now() < until) {
        ::poll(nullptr, 0, 20);
        log = lab.server.log();
    }
    CHECK(lines_with(log, "/v1/with-a-key") == k_requests);
    CHECK(lines_with(log, "/v1/without-a-key") >= 1);
    CHECK(lines_with(log, "/v1/without-a-key") < k_requests / 2);
    CHECK(lines_with(log, "evt=requests_suppressed") >= 1);
}

TEST_CASE("A few blank lines before a request are taken, more are 400 and the end of the connection",
          "[redteam][drawn][strangers]") {
    Lab lab(Privilege::as_started);
    const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // The control: a few are none of an attack.
    HttpClient client(lab.server.address());
    client.send_raw("\r\n\r\n" + request);
    CHECK(client.read_response().status == 200);
    HttpClient stranger(lab.server.address());
    for (int line = 0; line < 5; ++line)
        stranger.send_raw("\r\n");
    CHECK(stranger.read_until_close().starts_with("HTTP/1.1 400 "));
}

}  // namespace strangers_test
