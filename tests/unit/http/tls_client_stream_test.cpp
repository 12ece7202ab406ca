// TLS towards a server as a byte stream: real sockets, whose other ends the test drives.
#include "http/wire/tls_client_stream.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/unit/http/tls_upstream.hpp"

namespace tls_client_stream_test {

using namespace atl;
using namespace atl::test;
namespace asio = boost::asio;
using Error = boost::system::error_code;

namespace {

struct Bench {
    explicit Bench(const CertificatePem& pem = issued("DNS:a.example")) : server(pem) {
        use(server.client_end.release());
    }
    void use(int fd) {
        http::Socket socket(loop.get_executor());
        socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), fd);
        stream = std::make_unique<http::TlsClientStream>(
            std::make_unique<http::SocketStream>(std::move(socket)), trusting_context(), "a.example",
            [this](const char* failure) { opened.emplace(failure == nullptr ? "open" : failure); });
    }
    void run() {
        loop.restart();
        loop.poll();
    }
    /// Both sides until neither does anything more.
    void settle() {
        for (int turns = 0; turns < 20; ++turns) {
            run();
            if (server.own_end)
                server.shake_hands();
        }
    }
    void read() {
        got.reset();
        stream->async_read_some(room, [this](Error error, std::size_t count) {
            got.emplace(std::string(room.data(), count), error);
        });
    }
    void wait(http::Socket::wait_type event) {
        waited.reset();
        stream->async_wait(event, [this](Error error) { waited = error; });
    }
    std::size_t write(std::string_view bytes) {
        written = {};
        return stream->write_some(bytes, written);
    }
    void open() {
        wait(http::Socket::wait_write);
        settle();
        REQUIRE(opened == "open");
        REQUIRE(waited == Error());
    }

    asio::io_context loop{1};
    TlsUpstream server;
    std::unique_ptr<http::TlsClientStream> stream;
    std::optional<std::string> opened;
    std::array<char, 100> room{};
    std::optional<std::pair<std::string, Error>> got;
    std::optional<Error> waited;
    Error written;
};

}  // namespace

TEST_CASE("a client stream shakes hands by itself and then passes bytes both ways") {
    Bench bench;
    CHECK(bench.write("early") == 0);
    CHECK(bench.written == asio::error::would_block);
    bench.read();
    CHECK_FALSE(bench.opened);  // it comes from the loop
    bench.settle();
    CHECK(bench.opened == "open");
    CHECK_FALSE(bench.got);
    CHECK(bench.write("hello") == 5);
    CHECK(bench.server.read() == "hello");
    bench.server.write("answer");
    bench.run();
    REQUIRE(bench.got);
    CHECK(bench.got->first == "answer");
    CHECK_FALSE(bench.got->second);
}

TEST_CASE("what does not fit a reader's room is there for the next, and the socket's number says so") {
    Bench bench;
    bench.open();
    bench.read();
    bench.run();
    CHECK(bench.stream->native_handle() >= 0);
    bench.server.write(std::string(150, 'x'));
    bench.run();
    REQUIRE(bench.got);
    CHECK(bench.got->first.size() == 100);
    CHECK(bench.stream->native_handle() == -1);
    bench.wait(http::Socket::wait_read);
    bench.run();
    CHECK(bench.waited == Error());
    bench.read();
    bench.run();
    REQUIRE(bench.got);
    CHECK(bench.got->first.size() == 50);
    CHECK(bench.stream->native_handle() >= 0);
}

TEST_CASE("a full socket takes a part, and a wait tells of room for the rest") {
    Bench bench;
    bench.open();
    const std::string all(4'000'000, 'x');
    std::string_view left = all;
    std::size_t received = 0;
    int waits = 0;
    while (!left.empty()) {
        left.remove_prefix(bench.write(left));
        REQUIRE((!bench.written || bench.written == asio::error::would_block));
        if (!bench.written)
            continue;
        ++waits;
        bench.wait(http::Socket::wait_write);
        bench.run();
        CHECK_FALSE(bench.waited);
        for (std::string piece = bench.server.read(); !piece.empty(); piece = bench.server.read())
            received += piece.size();
        bench.run();
        REQUIRE(bench.waited == Error());
    }
    for (std::string piece = bench.server.read(); !piece.empty(); piece = bench.server.read())
        received += piece.size();
    CHECK(waits > 1);
    CHECK(received == all.size());
}

TEST_CASE("a server that is not the right one ends reads and writes, and the reason is told") {
    Bench bench(issued("DNS:b.example"));
    bench.read();
    bench.settle();
    CHECK(bench.opened == "hostname mismatch");
    REQUIRE(bench.got);
    CHECK(bench.got->second == asio::error::connection_reset);
    CHECK(bench.write("x") == 0);
    CHECK(bench.written == asio::error::connection_reset);
    bench.wait(http::Socket::wait_write);
    bench.run();
    CHECK(bench.waited == Error());
}

TEST_CASE("a connection that is refused fails the handshake") {
    Bench bench;
    const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const base::UniqueFd silent(taken);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    // Bound without listening: nobody else can answer there.
    REQUIRE(::bind(taken, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size);
    bench.use(fd);
    bench.read();
    bench.settle();
    REQUIRE(bench.opened);
    CHECK(bench.opened != "open");
    REQUIRE(bench.got);
    CHECK(bench.got->second == asio::error::connection_reset);
}

TEST_CASE("a handshake lets others run between its steps") {
    Bench bench;
    bench.read();
    int turns = 0;
    bench.loop.restart();
    while (!bench.opened && turns < 50) {
        bench.loop.poll_one();
        bench.loop.restart();
        bench.server.shake_hands();
        ++turns;
    }
    CHECK(bench.opened == "open");
    CHECK(turns >= 5);
}

TEST_CASE("an end without close_notify is a reset, and with it an end") {
    for (const bool says_it : {true, false}) {
        Bench bench;
        bench.open();
        if (says_it)
            SSL_shutdown(bench.server.ssl());
        bench.server.own_end.reset();
        bench.read();
        bench.run();
        REQUIRE(bench.got);
        CHECK(bench.got->second ==
              (says_it ? Error(asio::error::eof) : Error(asio::error::connection_reset)));
    }
}

TEST_CASE("close ends what is under way, and tells the server of it only where nothing was cut off") {
    for (const bool cuts : {false, true}) {
        Bench bench;
        bench.open();
        bench.read();
        bench.run();
        if (cuts)
            bench.stream->cut();
        bench.stream->close();
        bench.run();
        REQUIRE(bench.got);
        CHECK(bench.got->second == asio::error::operation_aborted);
        bench.server.read();
        CHECK(((SSL_get_shutdown(bench.server.ssl()) & SSL_RECEIVED_SHUTDOWN) != 0) == !cuts);
    }
}

TEST_CASE("a stream may go while its handshake is under way") {
    Bench bench;
    bench.read();
    bench.run();
    bench.stream.reset();
    bench.settle();
    CHECK_FALSE(bench.opened);
    REQUIRE(bench.got);
    CHECK(bench.got->second == asio::error::operation_aborted);
}

TEST_CASE("the end of what is sent is close_notify, also when it was asked for before the handshake") {
    Bench bench;
    bench.read();
    bench.stream->shutdown_send();
    bench.settle();
    CHECK(bench.opened == "open");
    bench.server.read();
    CHECK((SSL_get_shutdown(bench.server.ssl()) & SSL_RECEIVED_SHUTDOWN) != 0);
}

}  // namespace tls_client_stream_test
