// The client's side of a TLS stream: whom it trusts, and what it speaks. tls_stream_test.cpp has the
// server's.
#include <openssl/ssl.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <set>

#include "http/wire/tls_stream.hpp"
#include "tests/unit/http/tls_upstream.hpp"

namespace tls_client_side_test {

using namespace atl;
using namespace atl::test;
using http::TlsStream;
using Step = TlsStream::Step;

namespace {

struct Pair {
    explicit Pair(const CertificatePem& pem, const std::string& name = "a.example")
        : server(pem), client(std::in_place, trusting_context(), server.client_end.get(), name) {}
    /// Runs until the client's step is neither of the two waits.
    Step shake_hands() {
        for (int turns = 0; turns < 40; ++turns) {
            const Step step = client->handshake();
            if (step != Step::want_read && step != Step::want_write) {
                server.shake_hands();
                return step;
            }
            server.shake_hands();
        }
        return Step::want_read;
    }

    TlsUpstream server;
    std::optional<TlsStream> client;
};

/// Why the client refuses a server with this certificate; empty: it does not.
std::string refusal(const CertificatePem& pem, const std::string& name = "a.example") {
    Pair pair(pem, name);
    return pair.shake_hands() == Step::done ? "" : pair.client->reason();
}

Step with_server(const CertificatePem& pem, void (*set)(SSL_CTX*)) {
    Pair pair(pem);
    set(pair.server.settings());
    return pair.shake_hands();
}

/// A root and `count` issuers below it: the last.
CertificatePem issuers(int count) {
    CertificatePem last = test_issuer();
    for (int i = 0; i < count; ++i)
        last = make_certificate({"Issuer " + std::to_string(i), ""}, &last);
    return last;
}

/// The types of the extensions in a ClientHello in one record.
std::set<unsigned> extensions_of(std::string_view hello) {
    const auto number = [&](std::size_t at, std::size_t size) {
        unsigned value = 0;
        for (std::size_t i = 0; i < size; ++i)
            value = value << 8U | static_cast<unsigned char>(hello.at(at + i));
        return value;
    };
    std::size_t at = 5 + 4 + 2 + 32;
    for (const std::size_t width : {1U, 2U, 1U})
        at += width + number(at, width);
    std::set<unsigned> types;
    for (at += 2; at < hello.size(); at += 4 + number(at + 2, 2))
        types.insert(number(at, 2));
    return types;
}

}  // namespace

TEST_CASE("a client takes the server whose certificate is right, over TLS 1.2 and 1.3, and says its name") {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        Pair pair(issued("DNS:a.example"));
        SSL_CTX_set_max_proto_version(pair.server.settings(), version);
        REQUIRE(pair.shake_hands() == Step::done);
        CHECK(SSL_version(pair.server.ssl()) == version);
        CHECK(SSL_get_servername(pair.server.ssl(), TLSEXT_NAMETYPE_host_name) == std::string("a.example"));
        const unsigned char* protocol = nullptr;
        unsigned size = 0;
        SSL_get0_alpn_selected(pair.server.ssl(), &protocol, &size);
        CHECK(std::string(reinterpret_cast<const char*>(protocol), size) == "http/1.1");
        CHECK(pair.client->write("hello").bytes == 5);
        CHECK(pair.server.read() == "hello");
        pair.server.write("answer");
        std::array<char, 100> buffer{};
        const auto read = pair.client->read(buffer.data(), buffer.size());
        CHECK(std::string_view(buffer.data(), read.bytes) == "answer");
    }
}

TEST_CASE(
    "a certificate that is expired, not yet good, for another name or of an unknown issuer is refused") {
    CHECK(refusal(issued("DNS:a.example")).empty());
    CHECK(refusal(issued("DNS:a.example", Validity::over)) == "certificate has expired");
    CHECK(refusal(issued("DNS:a.example", Validity::later)) == "certificate is not yet valid");
    CHECK(refusal(issued("DNS:b.example")) == "hostname mismatch");
    CHECK(refusal(issued("DNS:a.example.b.example")) == "hostname mismatch");
    CHECK(refusal(make_certificate("a.example")).starts_with("self"));  // 3.0 says "self-signed certificate"
    const CertificatePem other = make_certificate({"Other issuer", ""}, nullptr);
    CHECK(refusal(make_certificate({"leaf", "DNS:a.example"}, &other)).starts_with("self"));
    // The same name with another key: it has only taken the place of the test's issuer.
    const CertificatePem impostor = make_certificate({"Test issuer", ""}, nullptr);
    CHECK_FALSE(refusal(make_certificate({"leaf", "DNS:a.example"}, &impostor)).empty());
    // A leaf that plays the issuer.
    const CertificatePem leaf = issued("DNS:b.example");
    CHECK(refusal(make_certificate({"below", "DNS:a.example"}, &leaf)) == "invalid CA certificate");
}

TEST_CASE("the common name says nothing, and a star stands for one whole label") {
    CHECK(refusal(make_certificate({"a.example", "DNS:b.example"}, &test_issuer())) == "hostname mismatch");
    CHECK(refusal(make_certificate({"a.example", "IP:127.0.0.1"}, &test_issuer())) == "hostname mismatch");
    CHECK(refusal(issued("DNS:*.a.example"), "x.a.example").empty());
    CHECK(refusal(issued("DNS:*.a.example"), "x.y.a.example") == "hostname mismatch");
    CHECK(refusal(issued("DNS:*.a.example"), "a.example") == "hostname mismatch");
    CHECK(refusal(issued("DNS:x*.a.example"), "xy.a.example") == "hostname mismatch");
}

TEST_CASE("an address is checked as one, and no server name is sent for it") {
    Pair pair(issued("IP:127.0.0.1,IP:::1"), "127.0.0.1");
    REQUIRE(pair.shake_hands() == Step::done);
    CHECK(SSL_get_servername(pair.server.ssl(), TLSEXT_NAMETYPE_host_name) == nullptr);
    CHECK(refusal(issued("IP:127.0.0.1,IP:::1"), "::1").empty());
    CHECK(refusal(issued("IP:127.0.0.1"), "127.0.0.2") == "IP address mismatch");
    CHECK(refusal(issued("DNS:127.0.0.1"), "127.0.0.1") == "IP address mismatch");
}

TEST_CASE("without a name that can be asked for there is no handshake") {
    using namespace std::string_literals;
    for (const std::string& name : {""s, "a.example\0.b"s}) {
        Pair pair(issued("DNS:a.example"), name);
        CHECK(pair.client->handshake() == Step::failed);
    }
}

TEST_CASE("a chain may have eight issuers below the root, and certificates 32 KiB") {
    const CertificatePem eight = issuers(8);
    CHECK(refusal(make_certificate({"leaf", "DNS:a.example"}, &eight)).empty());
    const CertificatePem nine = issuers(9);
    CHECK_FALSE(refusal(make_certificate({"leaf", "DNS:a.example"}, &nine)).empty());
    const auto named = [](int count) {
        std::string names = "DNS:a.example";
        for (int i = 0; i < count; ++i)
            names += ",DNS:name" + std::to_string(10'000 + i) + ".example";
        return names;
    };
    CHECK(refusal(issued(named(1'500))).empty());
    CHECK(refusal(issued(named(1'900))) == "excessive message size");
}

TEST_CASE("a client speaks TLS 1.2 and 1.3 with ECDHE, nothing older or weaker") {
    const CertificatePem pem = issued("DNS:a.example");
    CHECK(with_server(pem, [](SSL_CTX* context) {
              SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
              SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-GCM-SHA256");
          }) == Step::done);
    CHECK(with_server(pem, [](SSL_CTX* context) {
              SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
              SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-SHA");
          }) == Step::failed);
    CHECK(with_server(pem, [](SSL_CTX* context) {
              SSL_CTX_set_security_level(context, 0);
              SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
              SSL_CTX_set_min_proto_version(context, TLS1_1_VERSION);
              SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION);
          }) == Step::failed);
    CHECK(with_server(pem, [](SSL_CTX* context) { SSL_CTX_set1_groups_list(context, "P-384"); }) ==
          Step::done);
    CHECK(with_server(pem, [](SSL_CTX* context) { SSL_CTX_set1_groups_list(context, "ffdhe2048"); }) ==
          Step::failed);
}

TEST_CASE("a ClientHello offers neither tickets nor early data nor kept sessions") {
    const TlsUpstream server(issued("DNS:a.example"));
    TlsStream client(trusting_context(), server.client_end.get(), "a.example");
    REQUIRE(client.handshake() == Step::want_read);
    std::array<char, 4'096> bytes{};
    const ssize_t got = ::recv(server.own_end.get(), bytes.data(), bytes.size(), 0);
    const auto types = extensions_of({bytes.data(), static_cast<std::size_t>(got)});
    CHECK(types.contains(0));         // server_name
    CHECK(types.contains(43));        // supported_versions
    CHECK_FALSE(types.contains(35));  // session_ticket
    CHECK_FALSE(types.contains(41));  // pre_shared_key
    CHECK_FALSE(types.contains(42));  // early_data
}

TEST_CASE("a handshake goes on one message a call, and the certificates are checked in a call of their own") {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        Pair pair(issued("DNS:a.example"));
        SSL_CTX_set_max_proto_version(pair.server.settings(), version);
        REQUIRE(pair.client->handshake() == Step::want_read);
        // All that the server says comes at once.
        pair.server.shake_hands();
        int reads = 0;
        int checks = 0;
        for (;;) {
            const Step step = pair.client->handshake();
            if (step == Step::want_write)
                ++checks;
            else if (step == Step::want_read)
                ++reads;
            if (step != Step::want_write && (step != Step::want_read || reads == 4))
                break;
        }
        CHECK(checks == 1);
        // Messages before the last: ServerHello and Certificate, and one or two between and behind.
        CHECK(reads >= 3);
        CHECK(pair.shake_hands() == Step::done);
    }
}

TEST_CASE("a server that speaks no TLS is no server") {
    Pair pair(issued("DNS:a.example"));
    REQUIRE(pair.client->handshake() == Step::want_read);
    const std::string_view plain = "HTTP/1.1 400 Bad Request\r\n\r\n";
    REQUIRE(::send(pair.server.own_end.get(), plain.data(), plain.size(), 0) > 0);
    CHECK(pair.client->handshake() == Step::failed);
    CHECK(pair.client->reason() == std::string("wrong version number"));
}

TEST_CASE("a server may not renegotiate, and one that only sends new keys is cut off") {
    std::array<char, 100> buffer{};
    {
        Pair pair(issued("DNS:a.example"));
        SSL_CTX_set_max_proto_version(pair.server.settings(), TLS1_2_VERSION);
        SSL_CTX_clear_options(pair.server.settings(), SSL_OP_NO_RENEGOTIATION);
        REQUIRE(pair.shake_hands() == Step::done);
        REQUIRE(SSL_renegotiate(pair.server.ssl()) == 1);
        SSL_do_handshake(pair.server.ssl());
        CHECK(pair.client->read(buffer.data(), buffer.size()).step == Step::want_read);
        pair.server.read();  // the answer, an alert
        CHECK(SSL_get_state(pair.server.ssl()) != TLS_ST_SR_CLNT_HELLO);
    }
    Pair pair(issued("DNS:a.example"));
    REQUIRE(pair.shake_hands() == Step::done);
    for (int asked = 0; asked < 100; ++asked) {
        REQUIRE(SSL_key_update(pair.server.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        REQUIRE(SSL_do_handshake(pair.server.ssl()) == 1);
    }
    CHECK(pair.client->read(buffer.data(), buffer.size()).step == Step::failed);
    CHECK(pair.client->reason() == std::string("too many new keys or tickets"));
}

TEST_CASE("an end without close_notify is a failure for a client, and with it an end") {
    std::array<char, 100> buffer{};
    for (const bool says_it : {true, false}) {
        Pair pair(issued("DNS:a.example"));
        REQUIRE(pair.shake_hands() == Step::done);
        pair.server.write("last");
        if (says_it)
            SSL_shutdown(pair.server.ssl());
        pair.server.own_end.reset();
        CHECK(pair.client->read(buffer.data(), buffer.size()).bytes == 4);
        CHECK(pair.client->read(buffer.data(), buffer.size()).step == (says_it ? Step::eof : Step::failed));
    }
}

TEST_CASE("a file of issuers that is missing or holds none is named") {
    const TempDir dir;
    const auto missing = http::TlsContext::make_client({dir.path() / "no.pem"});
    REQUIRE(missing.has_error());
    CHECK(missing.error().detail().find("no.pem") != std::string::npos);
    std::ofstream(dir.path() / "empty.pem") << "nothing\n";
    const auto empty = http::TlsContext::make_client({dir.path() / "empty.pem"});
    REQUIRE(empty.has_error());
    CHECK(empty.error().code() == base::Errc::invalid_field);
    CHECK(empty.error().detail().find("empty.pem") != std::string::npos);
}

}  // namespace tls_client_side_test
