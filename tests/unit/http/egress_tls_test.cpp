// TLS towards the upstream of a route: the stream comes once the server is verified, or a reason does.
#include "http/egress/egress_tls.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/plain/egress_limits.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/tls_upstream.hpp"

namespace egress_tls_test {

using namespace atl;
using namespace atl::test;

namespace {

struct Bench {
    explicit Bench(const CertificatePem& pem) : server(pem) {
        http::Socket socket(loop.get_executor());
        socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), server.client_end.release());
        const auto secure = http::make_egress_tls(timers, trusting_context());
        secure(std::make_unique<http::SocketStream>(std::move(socket)), "a.example",
               [this](base::Result<std::unique_ptr<http::ByteStream>> result) {
                   told.emplace(std::move(result));
               });
    }
    void run() {
        loop.restart();
        loop.poll();
    }
    void settle() {
        for (int turns = 0; turns < 20; ++turns) {
            run();
            server.shake_hands();
        }
    }

    boost::asio::io_context loop{1};
    FakeClock clock;
    FakeTimers timers{clock};
    TlsUpstream server;
    std::optional<base::Result<std::unique_ptr<http::ByteStream>>> told;
};

}  // namespace

TEST_CASE("an upstream with a good certificate gives a stream") {
    Bench bench(issued("DNS:a.example"));
    CHECK_FALSE(bench.told);
    bench.settle();
    REQUIRE(bench.told);
    REQUIRE(bench.told->has_value());
    boost::system::error_code error;
    CHECK((**bench.told)->write_some("hello", error) == 5);
    CHECK(bench.server.read() == "hello");
}

TEST_CASE("an upstream with the certificate of another name gives a reason") {
    Bench bench(issued("DNS:b.example"));
    bench.settle();
    REQUIRE(bench.told);
    REQUIRE(bench.told->has_error());
    CHECK(bench.told->error().code() == base::Errc::upstream_failed);
    CHECK(std::string(bench.told->error().detail()).starts_with("TLS failed: "));
}

TEST_CASE("an upstream that says nothing has so much time") {
    Bench bench(issued("DNS:a.example"));
    bench.run();
    bench.timers.advance(base::k_egress_handshake_time + base::Millis(1), [&] { bench.run(); });
    REQUIRE(bench.told);
    REQUIRE(bench.told->has_error());
    CHECK(bench.told->error().code() == base::Errc::deadline_exceeded);
}

}  // namespace egress_tls_test
