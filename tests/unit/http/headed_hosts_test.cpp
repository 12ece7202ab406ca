// Hosts of a list whose rules set headers: their TLS ends at the proxy, with OpenSSL on both sides of it.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/http/headed_lab.hpp"

namespace headed_hosts_test {

TEST_CASE(
    "Ordinary HTTPS to a host whose rule sets headers has them, and nothing of its own that says who asks") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    program->write(
        "POST /v1/x?y=1 HTTP/1.1\r\nHost: a.example\r\nX-Api-Key: own\r\nAuthorization: Bearer own\r\n"
        "X-Kept: 1\r\nContent-Length: 3\r\n\r\nabc");
    const std::string asked = lab.upstream_read();
    CHECK(asked.starts_with("POST /v1/x?y=1 HTTP/1.1\r\nHost: a.example\r\n"));
    CHECK(has_part(asked, "x-api-key: value-of-mine\r\n"));
    CHECK(has_part(asked, "X-Kept: 1\r\n"));
    CHECK(asked.ends_with("\r\n\r\nabc"));
    CHECK_FALSE(has_part(asked, "own"));
    lab.upstreams.back()->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    const std::string answer = lab.read(*program);
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(answer.ends_with("\r\n\r\nhi"));

    // Another request on the same connection has them, too, and the same upstream.
    program->write("GET / HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    CHECK(has_part(lab.upstream_read(), "x-api-key: value-of-mine\r\n"));
    CHECK(lab.upstreams.size() == 1);
}

TEST_CASE("An upstream that ends its connection between two requests is connected again") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    for (int i = 0; i < 3; ++i) {
        program->write("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc");
        const std::string asked = lab.upstream_read();
        CHECK(has_part(asked, "x-api-key: value-of-mine\r\n"));
        CHECK(asked.ends_with("\r\n\r\nabc"));
        lab.upstreams.back()->write("HTTP/1.1 204 No Content\r\n\r\n");
        CHECK(lab.read(*program).starts_with("HTTP/1.1 204 "));
        // The control: one that stays is used again.
        if (i > 0)
            REQUIRE(::shutdown(lab.upstreams.back()->own_end.get(), SHUT_RDWR) == 0);
        lab.run();
    }
    CHECK(lab.upstreams.size() == 2);
    CHECK_FALSE(program->is_cut);
    // An upstream that cannot be verified any more gets nothing, and the program the reason. No secret is
    // opened before.
    lab.certificate = issued("DNS:b.example");
    const int opened = lab.secrets.opened;
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().empty());
    CHECK(lab.read(*program).starts_with("HTTP/1.1 502 "));
    CHECK(lab.secrets.opened == opened);
}

TEST_CASE("An upstream that ends its connection before the first request is connected again") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    REQUIRE(::shutdown(lab.upstreams.back()->own_end.get(), SHUT_RDWR) == 0);
    lab.run();
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().starts_with("GET / HTTP/1.1\r\n"));
    CHECK(lab.upstreams.size() == 2);
}

TEST_CASE("A rule that changes while its upstream is connected again sets no header any more") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    REQUIRE(::shutdown(lab.upstreams.back()->own_end.get(), SHUT_RDWR) == 0);
    lab.run();
    lab.on_dial = [&] { lab.door->change(with({})); };
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().empty());
    CHECK(lab.upstreams.size() == 2);
    CHECK(lab.secrets.opened == 0);
    lab.advance(base::Millis(1));
    (void)lab.read(*program);
    CHECK(program->is_cut);
}

TEST_CASE("A program cannot choose a key exchange that holds up the server") {
    HeadedLab lab;
    // The last one is the control.
    for (const char* group : {"ffdhe2048", "ffdhe8192", "X25519"}) {
        INFO(group);
        const auto program = lab.tunnel();
        REQUIRE(SSL_CTX_set1_groups_list(program->settings(), group) == 1);
        program->begin_tls("a.example", "a.example");
        CHECK(lab.shake(*program) == (std::string_view(group) == "X25519"));
    }
}

TEST_CASE("The first answer of an upstream that breaks HTTP is a 502 in the tunnel") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().starts_with("GET / "));
    lab.upstreams.back()->write("SSH-2.0-x\r\n\r\n");
    CHECK(lab.read(*program).starts_with("HTTP/1.1 502 "));
}

TEST_CASE("A host without headers stays a tunnel that nobody opens") {
    HeadedLab lab(with({headed()}), issued("DNS:b.example"));
    const auto program = lab.tunnel("b.example:443");
    REQUIRE(lab.answer.starts_with("HTTP/1.1 200 "));
    program->begin_tls("b.example", "b.example");
    // The sandbox's issuer is not the one that the upstream has.
    CHECK_FALSE(lab.shake(*program));
    CHECK(SSL_get_verify_result(program->ssl()) != X509_V_OK);
    CHECK(lab.issuer->leaves() == 0);
}

TEST_CASE("SNI, the name of the tunnel and Host of each request are one") {
    HeadedLab lab;
    const auto other = lab.tunnel();
    other->begin_tls("b.example", "b.example");
    CHECK_FALSE(lab.shake(*other));
    CHECK(other->is_cut);
    for (int i = 0; i < 10; ++i) {
        const std::string name = "b" + std::to_string(i) + ".example";
        const auto one_more = lab.tunnel();
        one_more->begin_tls(name, name);
        CHECK_FALSE(lab.shake(*one_more));
    }
    CHECK(lab.issuer->leaves() == 1);  // for the name of the tunnel, whatever names a program asks for

    const auto program = lab.open();
    REQUIRE(program);
    program->write("GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    REQUIRE(has_part(lab.upstream_read(), "GET /1 "));
    lab.upstreams.back()->write("HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(lab.read(*program).starts_with("HTTP/1.1 204 "));
    for (const char* head : {"GET /2 HTTP/1.1\r\nHost: b.example\r\n\r\n",
                             "GET https://b.example/2 HTTP/1.1\r\nHost: a.example\r\n\r\n",
                             "GET /2 HTTP/1.1\r\nHost: a.example:8443\r\n\r\n"}) {
        INFO(head);
        const auto asks = lab.open();
        REQUIRE(asks);
        asks->write(head);
        CHECK(lab.upstream_read().empty());
        CHECK(lab.read(*asks).starts_with("HTTP/1.1 403 "));
        CHECK(asks->is_cut);
    }
    // The second request of a connection is looked at as the first is.
    program->write("GET /2 HTTP/1.1\r\nHost: b.example\r\n\r\n");
    CHECK(lab.read(*program).starts_with("HTTP/1.1 403 "));
}

TEST_CASE("A second ClientHello with another name chooses neither the certificate nor the upstream") {
    HeadedLab lab;
    const auto program = lab.tunnel();
    tls_bytes::name_another_on_retry(program->settings(), "b.example");
    program->begin_tls("a.example", "a.example");
    REQUIRE(lab.shake(*program));
    CHECK(lab.issuer->leaves() == 1);
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().starts_with("GET / HTTP/1.1\r\nHost: a.example\r\n"));
    lab.upstreams.back()->write("HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(lab.read(*program).starts_with("HTTP/1.1 204 "));
    program->write("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
    CHECK(lab.upstream_read().empty());
    CHECK(lab.read(*program).starts_with("HTTP/1.1 403 "));
}

TEST_CASE("Bytes that are no HTTP/1.1 over TLS do not reach the upstream") {
    HeadedLab lab;
    const auto plain = lab.tunnel();
    plain->send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().empty());
    (void)plain->receive();
    CHECK(plain->is_cut);

    const auto preface = lab.open();
    REQUIRE(preface);
    preface->write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    CHECK(lab.upstream_read().empty());
    CHECK(lab.read(*preface).empty());
    CHECK(preface->is_cut);

    const auto http2 = lab.tunnel();
    constexpr std::array<unsigned char, 3> k_h2{2, 'h', '2'};
    REQUIRE(SSL_CTX_set_alpn_protos(http2->settings(), k_h2.data(), k_h2.size()) == 0);
    http2->begin_tls("a.example", "a.example");
    CHECK_FALSE(lab.shake(*http2));
    CHECK(http2->is_cut);
}

TEST_CASE("What would show the headers that are set is refused, and a refusal of HEAD has no body") {
    EgressRoute host = headed();
    host.methods = {"GET", "TRACE", "CONNECT"};
    HeadedLab lab(with({host}));
    for (const char* method : {"TRACE", "CONNECT", "HEAD", "GET"}) {
        INFO(method);
        const auto program = lab.open();
        REQUIRE(program);
        program->write(std::string(method) + " / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        const bool passes = std::string_view(method) == "GET";  // the control
        CHECK(lab.upstream_read().empty() != passes);
        const std::string answer = lab.read(*program);
        const bool is_head = std::string_view(method) == "HEAD";
        CHECK(answer.starts_with(is_head ? "HTTP/1.1 403 " : "HTTP/1.1 405 ") != passes);
        CHECK(answer.ends_with("\r\n\r\n") == is_head);
        CHECK(program->is_cut != passes);
    }
}

TEST_CASE("Nobody is asked about a host whose rule sets headers, and what a person grants stays shut") {
    EgressSettings settings = with({headed()});
    settings.ask = true;
    HeadedLab lab(settings, issued("DNS:a.example,DNS:asked.example"));
    CHECK(lab.open());
    CHECK(lab.asked.empty());
    for (const auto decision : {http::EgressDecision::once, http::EgressDecision::always}) {
        const auto program = lab.tunnel("asked.example:443");
        CHECK(lab.answer.empty());
        REQUIRE_FALSE(lab.asked.empty());
        bool is_decided = false;
        lab.questions.decide("box", lab.asked.back(), decision, "",
                             [&](const base::Result<void>& done) { is_decided = done.has_value(); });
        CHECK(is_decided);
        lab.await_answer(*program);
        REQUIRE(lab.answer.starts_with("HTTP/1.1 200 "));
        program->begin_tls("asked.example", "asked.example");
        CHECK_FALSE(lab.shake(*program));
        CHECK(SSL_get_verify_result(program->ssl()) != X509_V_OK);
    }
    CHECK(lab.asked.size() == 2);
    CHECK(lab.issuer->leaves() == 1);
    // The rule that the last decision added has left the headers of the other one.
    CHECK(lab.open());
}

TEST_CASE("A program of TLS 1.2 is served, and its renegotiation is not") {
    HeadedLab lab;
    const auto program = lab.tunnel();
    REQUIRE(SSL_CTX_set_max_proto_version(program->settings(), TLS1_2_VERSION) == 1);
    program->begin_tls("a.example", "a.example");
    REQUIRE(lab.shake(*program));
    // The control.
    program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().starts_with("GET / "));
    lab.upstreams.back()->write("HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(lab.read(*program).starts_with("HTTP/1.1 204 "));
    CHECK_FALSE(program->is_cut);
    REQUIRE(SSL_renegotiate(program->ssl()) == 1);
    CHECK_FALSE(program->shake_hands());
    (void)lab.read(*program);
    CHECK(program->is_cut);
}

TEST_CASE("Only the methods and paths of a host's rule pass") {
    EgressRoute host = headed();
    host.methods = {"GET"};
    host.paths = {"/v1/*"};
    HeadedLab lab(with({host}));
    for (const char* line : {"POST /v1/x", "GET /v2", "GET /v1/../v2", "GET /v1/%2e%2e/v2"}) {
        INFO(line);
        const auto program = lab.open();
        REQUIRE(program);
        program->write(std::string(line) + " HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
        CHECK(lab.upstream_read().empty());
        const std::string answer = lab.read(*program);
        CHECK(answer.starts_with("HTTP/1.1 403 The rule for a.example:443 "));
        const std::string told = "box " + std::string(line, 4) + (line[0] == 'P' ? " " : "");
        CHECK(lab.reports->take() == std::vector<std::string>{told + "a.example:443 rule 0 0",
                                                              "box CONNECT a.example:443 allowed 0 0"});
    }
    const auto control = lab.open();
    REQUIRE(control);
    control->write("GET /v1/x HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.upstream_read().starts_with("GET /v1/x HTTP/1.1\r\n"));
}

TEST_CASE(
    "An upstream with a bad certificate, a secret that is gone or another's, are 502 before it has a byte") {
    HeadedLab bad(with({headed()}), issued("DNS:b.example"));
    (void)bad.tunnel();
    CHECK(bad.answer.starts_with("HTTP/1.1 502 "));

    EgressSettings of_alice = with({headed()});
    of_alice.of_user = {"alice", {"a.example:443"}};
    for (const EgressSettings& settings : {with({headed()}), of_alice}) {
        HeadedLab lab(settings);
        const auto program = lab.open();
        REQUIRE(program);
        lab.secrets.is_gone = settings.of_user.rules.empty();
        program->write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        CHECK(lab.upstream_read().empty());
        CHECK(lab.read(*program).starts_with("HTTP/1.1 502 "));
    }
}

TEST_CASE("A change of a host's rule cuts what is open by it, also where the host stays listed") {
    HeadedLab lab;
    const auto program = lab.open();
    REQUIRE(program);
    lab.door->change(with({headed()}));
    lab.advance(base::Millis(1));
    CHECK(lab.door->open() == 1);
    lab.door->change(with({}));
    lab.advance(base::Millis(1));
    lab.run();
    CHECK(lab.door->open() == 0);
    (void)lab.read(*program);
    CHECK(program->is_cut);
    // A tunnel that was open before its host got headers is cut as well.
    (void)lab.tunnel("b.example:443");
    CHECK(lab.door->open() == 1);
    lab.door->change(with({headed("b.example:443")}));
    lab.advance(base::Millis(1));
    lab.run();
    CHECK(lab.door->open() == 0);
}

TEST_CASE("Plain http: to a host whose rule sets headers is refused") {
    HeadedLab lab;
    const auto program = lab.connect();
    program->send("GET http://a.example:443/ HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    lab.await_answer(*program);
    CHECK(lab.answer.starts_with("HTTP/1.1 403 "));
    CHECK(lab.upstreams.empty());
    CHECK(lab.reports->take() == std::vector<std::string>{"box GET a.example:443 rule"});
}

TEST_CASE("Rules that set headers are checked as they are set") {
    HeadedLab lab;
    const http::EgressParts parts{lab.policy, {}, {}, {}, {}, &lab.secrets};
    CHECK(http::check_routes(parts, with({headed()})).has_value());
    const auto far = http::check_routes(parts, with({headed("b.example:443")}));
    REQUIRE(far.has_error());
    CHECK(far.error().code() == base::Errc::secret_host);
    CHECK(far.error().pointer() == "/network/allow/1");
    EgressSettings of_user = with({headed()});
    of_user.of_user = {"alice", {"a.example:443"}};
    CHECK(http::check_routes(parts, of_user).error().code() == base::Errc::secret_not_found);
}

TEST_CASE("An issuer keeps few leaves, whatever names it is asked for, and each sandbox has its own") {
    const auto issuer = http::SandboxCa::make().value();
    const auto first = issuer->leaf("a.example").value();
    CHECK(issuer->leaf("a.example").value() == first);
    for (int i = 0; i < 100; ++i)
        REQUIRE(issuer->leaf(std::string(200, 'a') + std::to_string(i) + ".example").has_value());
    CHECK(issuer->leaves() == http::SandboxCa::k_max_leaves);
    CHECK(issuer->leaf("a.example").value() != first);
    CHECK(issuer->pem().starts_with("-----BEGIN CERTIFICATE-----"));
    CHECK_FALSE(has_part(issuer->pem(), "PRIVATE"));
    CHECK(http::SandboxCa::make().value()->pem() != issuer->pem());
}

}  // namespace headed_hosts_test
