// Previews where the server speaks TLS itself: with --tls-cert, below a domain of names.
#include <catch2/catch_test_macros.hpp>

#include "tests/integration/preview_site.hpp"
#include "tests/support/test_certificate.hpp"
#include "tests/support/websocket_client.hpp"

namespace preview_tls_test {

using namespace atl::test;

namespace {

struct TlsLab {
    TlsLab()
        : paths(write_certificate(dir.path(), make_certificate("*.preview.localhost"))),
          lab({"--tls-cert", paths.certificate.string(), "--tls-key", paths.key.string()}) {}
    static std::string address(const std::string& sandbox, const PreviewLab& lab) {
        const std::string server = lab.server().address();
        return "https://" + PreviewLab::host(sandbox) + server.substr(server.rfind(':')) + "/";
    }

    TempDir dir;
    CertificatePaths paths;
    PreviewLab lab;
};

}  // namespace

TEST_CASE("A preview over TLS is the dev server's page, its streams and its WebSockets") {
    if (!is_root())
        SKIP("needs root");
    TlsLab tls;
    PreviewLab& lab = tls.lab;
    const std::string id = lab.make_sandbox();
    CHECK(lab.api().call(200, "GET", "/v1/sandboxes/" + id)["sandboxPublicUrl"] == TlsLab::address(id, lab));
    lab.serve(id, "one");
    HttpClient visitor = lab.connect(id);
    visitor.connect();
    REQUIRE(visitor.tls() != nullptr);
    CHECK(visitor.tls()->server_name() == "*.preview.localhost");

    const HttpResponse seen = lab.get(id, "/head");
    CHECK(seen.body.find("\r\nX-Forwarded-Proto: https\r\n") != std::string::npos);
    CHECK(seen.header("location") == "https://" + PreviewLab::host(id) + "/");

    HttpClient events = lab.connect(id);
    events.open_stream("GET", "/events");
    for (int number = 0; number < 3; ++number) {
        const auto event = events.next_event();
        REQUIRE(event.has_value());
        CHECK(event->data == std::to_string(number));
        CHECK(lab.get(id, "/tick").status == 204);
    }

    constexpr std::size_t k_bytes = 8UL * 1024 * 1024;
    CHECK(lab.get(id, "/big?" + std::to_string(k_bytes)).body.size() == k_bytes);
    CHECK(lab.get(id).body == "hello from one");

    WebSocketClient socket(lab.connect(id), "/ws");
    const std::string megabyte(1024UL * 1024, 'm');
    for (const std::string& text : {std::string("hello"), megabyte}) {
        socket.send_text(text);
        CHECK(socket.next_text() == text);
    }
    lab.api().call(204, "DELETE", "/v1/sandboxes/" + id);
    CHECK(socket.http().closes());
}

TEST_CASE("A private preview over TLS opens by its token, for WebSockets too, and for nobody else") {
    if (!is_root())
        SKIP("needs root");
    TlsLab tls;
    PreviewLab& lab = tls.lab;
    const Json wanted{{"agent", "shell"}, {"preview", {{"access", "public"}}}};
    const Json made = lab.api().create(wanted);
    const std::string id = made["sandboxId"];
    const std::string path = "/v1/conversations/" + made["id"].get<std::string>();
    lab.serve(id, "one");
    lab.api().call(200, "PATCH", path, R"({"preview":{"access":"private"}})");
    CHECK(code_of(lab.get(id)) == "preview_private");
    CHECK_THROWS(WebSocketClient(lab.connect(id), "/ws"));

    const Json token = lab.api().call(201, "POST", path + "/tokens", R"({"scope":"preview"})");
    const std::string url = token["url"];
    const std::string own = TlsLab::address(id, lab);
    REQUIRE(url.starts_with(own + ".atoll/enter?token="));
    // A browser names the port in Host, and so does this client.
    const std::string host = own.substr(8, own.size() - 9);
    HttpClient entering(lab.server().address(), {{"Host", host}});
    const HttpResponse entered = entering.request("GET", url.substr(own.size() - 1));
    CHECK(entered.status == 303);
    const std::string cookie = entered.header("set-cookie");
    CHECK(cookie.starts_with("__Host-atoll-preview"));
    for (const char* const attribute : {"; Secure", "; HttpOnly", "; SameSite=None", "; Partitioned"})
        CHECK(cookie.find(attribute) != std::string::npos);

    const HeaderList with_pass{{"Host", host}, {"Cookie", cookie.substr(0, cookie.find(';'))}};
    HttpClient visitor(lab.server().address(), with_pass);
    CHECK(visitor.request("GET", "/").body == "hello from one");
    WebSocketClient socket(HttpClient(lab.server().address(), with_pass), "/ws");
    socket.send_text("hello");
    CHECK(socket.next_text() == "hello");
    CHECK(code_of(lab.get(id)) == "preview_private");
}

}  // namespace preview_tls_test
