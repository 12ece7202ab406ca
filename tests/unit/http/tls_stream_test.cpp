#include "http/wire/tls_stream.hpp"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <optional>

#include "core/plain/unique_fd.hpp"
#include "tests/support/tls_client.hpp"
#include "tests/unit/http/test_tls.hpp"

namespace tls_stream_test {

using namespace atl;
using namespace atl::test;
using Step = http::TlsStream::Step;

namespace {

/// Both ends of a connection, each driven by hand: nothing blocks and nothing waits.
struct Pair {
    explicit Pair(const TlsClientOptions& options = {}) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
        server_end.reset(ends[0]);
        client_end.reset(ends[1]);
        server.emplace(tls_for("a.example"), server_end.get());
        client.emplace(client_end.get(), options);
    }
    /// Runs until both sides are done, or until the server's step is neither of the two waits.
    Step shake_hands() {
        for (int turns = 0; turns < 10; ++turns) {
            const auto wants = client->handshake();
            const Step step = server->handshake();
            const bool waits = step == Step::want_read || step == Step::want_write;
            if (!waits && (step != Step::done || wants == TlsClient::Want::nothing))
                return step;
            if (step == Step::done)
                return client->handshake() == TlsClient::Want::nothing ? Step::done : Step::failed;
        }
        return Step::want_read;
    }
    void send_plain(std::string_view bytes) const {
        REQUIRE(::send(client_end.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
    }

    base::UniqueFd server_end;
    base::UniqueFd client_end;
    std::optional<http::TlsStream> server;
    std::optional<TlsClient> client;
};

std::string read_all(TlsClient& client) {
    std::string out;
    std::array<char, 65'536> piece{};
    for (;;) {
        const auto moved = client.read(piece.data(), piece.size());
        if (moved.bytes == 0)
            return out;
        out.append(piece.data(), moved.bytes);
    }
}

}  // namespace

TEST_CASE("a handshake goes on as bytes come, and bytes go both ways then") {
    Pair pair;
    CHECK(pair.server->handshake() == Step::want_read);
    REQUIRE(pair.shake_hands() == Step::done);
    CHECK(pair.client->server_name() == "a.example");
    std::array<char, 100> buffer{};
    CHECK(pair.server->read(buffer.data(), buffer.size()).step == Step::want_read);
    CHECK(pair.client->write("hello").bytes == 5);
    const auto read = pair.server->read(buffer.data(), buffer.size());
    CHECK(read.step == Step::done);
    CHECK(std::string_view(buffer.data(), read.bytes) == "hello");
    CHECK(pair.server->write("answer").bytes == 6);
    CHECK(read_all(*pair.client) == "answer");
}

TEST_CASE("what does not fit the reader's buffer is pending, not lost") {
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    const std::string sent(10'000, 'x');
    REQUIRE(pair.client->write(sent).bytes == sent.size());
    std::array<char, 4096> buffer{};
    CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 4096);
    CHECK(pair.server->has_pending());
    CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 4096);
    CHECK(pair.server->has_pending());
    CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 10'000 - 2 * 4096);
    CHECK_FALSE(pair.server->has_pending());
}

TEST_CASE("records are read one by one, and the socket tells of the next") {
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    for (const char* text : {"a", "bc", "def"})
        REQUIRE(pair.client->write(text).bytes > 0);
    std::array<char, 100> buffer{};
    for (const char* text : {"a", "bc", "def"}) {
        const auto read = pair.server->read(buffer.data(), buffer.size());
        CHECK(std::string_view(buffer.data(), read.bytes) == text);
        CHECK_FALSE(pair.server->has_pending());
    }
}

TEST_CASE("a full socket takes a part, and the rest goes on where it stopped") {
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    std::string all(4'000'000, ' ');
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<char>('a' + i % 23);
    std::string_view left = all;
    std::string received;
    int waits = 0;
    while (!left.empty()) {
        // Another copy each time, as a session's buffer may move.
        const std::string copy(left);
        const auto moved = pair.server->write(copy);
        left.remove_prefix(moved.bytes);
        REQUIRE((moved.step == Step::done || moved.step == Step::want_write));
        if (moved.step == Step::want_write) {
            ++waits;
            received += read_all(*pair.client);
        }
    }
    received += read_all(*pair.client);
    CHECK(waits > 1);
    CHECK(received == all);
}

TEST_CASE("one write does a bounded amount of work") {
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    const int bytes = 8'000'000;
    ::setsockopt(pair.server_end.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    const std::string all(1'000'000, 'x');
    CHECK(pair.server->write(all).bytes < all.size());
}

TEST_CASE("close_notify ends what was sent whole, and is not said within a record") {
    {
        Pair pair;
        REQUIRE(pair.shake_hands() == Step::done);
        REQUIRE(pair.server->write("all").step == Step::done);
        pair.server->send_close_notify();
        CHECK(read_all(*pair.client) == "all");
        CHECK(pair.client->saw_close_notify());
    }
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    const std::string much(4'000'000, 'x');
    std::string_view left = much;
    for (auto moved = pair.server->write(left); moved.step != Step::want_write;
         moved = pair.server->write(left))
        left.remove_prefix(moved.bytes);
    pair.server->send_close_notify();
    pair.server.reset();
    pair.server_end.reset();
    read_all(*pair.client);
    CHECK_FALSE(pair.client->saw_close_notify());
}

TEST_CASE("both ends of what a client sends are an end: close_notify, and that of the connection alone") {
    std::array<char, 100> buffer{};
    {
        Pair pair;
        REQUIRE(pair.shake_hands() == Step::done);
        pair.client->write("last");
        pair.client->close_notify();
        CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 4);
        CHECK(pair.server->read(buffer.data(), buffer.size()).step == Step::eof);
        // It may still listen (RFC 8446 section 6.1).
        CHECK(pair.server->write("answer").bytes == 6);
    }
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    pair.client->write("last");
    ::shutdown(pair.client_end.get(), SHUT_WR);
    CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 4);
    CHECK(pair.server->read(buffer.data(), buffer.size()).step == Step::eof);
    CHECK(pair.server->write("answer").bytes == 6);
    CHECK(read_all(*pair.client) == "answer");
}

TEST_CASE("a record that was tampered with breaks the connection") {
    Pair pair;
    REQUIRE(pair.shake_hands() == Step::done);
    pair.send_plain(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'));
    std::array<char, 100> buffer{};
    const auto read = pair.server->read(buffer.data(), buffer.size());
    CHECK(read.step == Step::failed);
    CHECK(read.bytes == 0);
    // OpenSSL 3.0 says "decryption failed or bad record mac", 3.5 "record layer failure".
    CHECK(std::string(pair.server->reason()).find("record") != std::string::npos);
    pair.server->send_close_notify();  // says nothing any more
}

TEST_CASE("HTTP without TLS is told from TLS, from garbage and from silence, and left in the socket") {
    {
        Pair pair;
        pair.send_plain("GET / HTTP/1.1\r\n");
        CHECK(pair.server->handshake() == Step::plaintext);
        std::array<char, 3> kept{};
        CHECK(::recv(pair.server_end.get(), kept.data(), kept.size(), 0) == 3);
        CHECK(std::string_view(kept.data(), 3) == "GET");
    }
    for (const std::string& bytes : {std::string(1, '\0'), std::string("\r\n"), std::string("get / HTTP/1.1"),
                                     std::string("\x80\x2e\x01\x00\x02", 5)}) {
        Pair pair;
        pair.send_plain(bytes);
        CHECK(pair.server->handshake() == Step::failed);
    }
    Pair pair;
    pair.client_end.reset();
    CHECK(pair.server->handshake() == Step::eof);
}

TEST_CASE("a handshake that goes wrong is answered with an alert") {
    Pair pair;
    pair.send_plain(std::string("\x16\x03\x01\x00\x05", 5) + "junk!");
    CHECK(pair.server->handshake() == Step::failed);
    std::array<char, 7> alert{};
    REQUIRE(::recv(pair.client_end.get(), alert.data(), alert.size(), 0) == 7);
    CHECK(alert[0] == 21);  // RFC 8446 section 5.1
}

TEST_CASE("TLS 1.2 and 1.3 with forward secrecy are spoken, nothing older or weaker") {
    const auto result = [](const TlsClientOptions& options) {
        Pair pair(options);
        try {
            return pair.shake_hands();
        } catch (const std::runtime_error&) {
            return Step::failed;
        }
    };
    CHECK(result({.version = TLS1_3_VERSION}) == Step::done);
    CHECK(result({.version = TLS1_2_VERSION}) == Step::done);
    CHECK(result({.version = TLS1_1_VERSION}) == Step::failed);
    CHECK(result({.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-AES128-GCM-SHA256"}) == Step::done);
    CHECK(result({.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-CHACHA20-POLY1305"}) == Step::done);
    CHECK(result({.version = TLS1_2_VERSION, .suites = "ECDHE-ECDSA-AES128-SHA"}) == Step::failed);
    CHECK(result({.version = TLS1_2_VERSION, .suites = "AES128-GCM-SHA256"}) == Step::failed);
}

TEST_CASE("clients that speak HTTP/1.1 or do not say are served, others are refused") {
    Pair named({.alpn = "http/1.1"});
    CHECK(named.shake_hands() == Step::done);
    CHECK(named.client->protocol() == "http/1.1");
    Pair silent;
    CHECK(silent.shake_hands() == Step::done);
    CHECK(silent.client->protocol().empty());
    Pair other({.alpn = "h2"});
    CHECK(other.shake_hands() == Step::failed);
    CHECK_THROWS_WITH(other.client->handshake(),
                      "tls client: handshake: tlsv1 alert no application protocol");
}

TEST_CASE("renegotiation is refused and changes nothing") {
    Pair pair({.version = TLS1_2_VERSION});
    REQUIRE(pair.shake_hands() == Step::done);
    REQUIRE(SSL_renegotiate(pair.client->native()) == 1);
    SSL_do_handshake(pair.client->native());
    std::array<char, 100> buffer{};
    CHECK(pair.server->read(buffer.data(), buffer.size()).step == Step::want_read);
    CHECK_THROWS_WITH(
        [&] {
            while (pair.client->handshake() != TlsClient::Want::nothing) {
            }
        }(),
        "tls client: handshake: no renegotiation");
}

TEST_CASE("a client that only asks for new keys is cut off, and takes no more than its share before") {
    Pair pair({.version = TLS1_3_VERSION});
    REQUIRE(pair.shake_hands() == Step::done);
    int asked = 0;
    for (; asked < 1000; ++asked) {
        REQUIRE(SSL_key_update(pair.client->native(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        if (SSL_do_handshake(pair.client->native()) != 1)
            break;
    }
    REQUIRE(asked > 200);
    std::array<char, 100> buffer{};
    CHECK(pair.server->read(buffer.data(), buffer.size()).step == Step::failed);
    // The bytes that the server did not read are still in the socket.
    std::array<char, 65'536> left{};
    CHECK(::recv(pair.server_end.get(), left.data(), left.size(), 0) > 100 * 27);
}

TEST_CASE("new traffic keys are taken and given") {
    Pair pair({.version = TLS1_3_VERSION});
    REQUIRE(pair.shake_hands() == Step::done);
    std::array<char, 100> buffer{};
    for (int i = 0; i < 3; ++i) {
        REQUIRE(SSL_key_update(pair.client->native(), SSL_KEY_UPDATE_REQUESTED) == 1);
        REQUIRE(pair.client->write("ask").bytes == 3);
        CHECK(pair.server->read(buffer.data(), buffer.size()).bytes == 3);
        CHECK(pair.server->write("answer").bytes == 6);
        CHECK(read_all(*pair.client) == "answer");
    }
}

}  // namespace tls_stream_test
