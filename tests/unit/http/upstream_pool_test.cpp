// Connections to dev servers: real sockets, whose other ends the test holds.
#include "http/proxy/upstream_pool.hpp"

#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <future>

#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace upstream_pool_test {

using namespace atl;
using namespace atl::test;
namespace asio = boost::asio;
using base::Errc;
using http::Reuse;

namespace {

struct Bench {
    explicit Bench(http::UpstreamBounds bounds) {
        pool = std::make_shared<http::UpstreamPool>(
            loop.get_executor(), clock, timers,
            [this](const std::string&, std::uint16_t) -> base::Result<sandbox::InnerSocket> {
                if (nobody_listens)
                    return base::Error(Errc::no_listener);
                int ends[2];
                REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
                inside.emplace_back(ends[0]);
                return sandbox::InnerSocket{base::UniqueFd(ends[1]), nullptr};
            },
            bounds);
    }
    /// Requests of one visitor that are let in, each with a connection, until one is refused with this.
    Errc fill(http::UpstreamVisitor visitor) {
        for (;;) {
            auto port = pool->port({"a", 1, 5173}, visitor);
            auto made = port->connect(Reuse::no);
            if (made.has_error())
                return made.error().code();
            open.emplace_back(std::move(port), std::move(made->stream));
        }
    }
    base::Result<http::Upstream> connect(const std::string& id, Reuse reuse = Reuse::no,
                                         std::uint16_t port = 5173) {
        return pool->port({id, 1, port})->connect(reuse);
    }
    void keep(const std::string& id, http::Upstream upstream) {
        pool->port({id, 1, 5173})->keep(std::move(upstream.stream));
    }

    bool nobody_listens = false;
    std::vector<base::UniqueFd> inside;
    boost::asio::io_context loop{1};
    FakeClock clock;
    FakeTimers timers{clock};
    std::shared_ptr<http::UpstreamPool> pool;
    std::vector<std::pair<std::shared_ptr<http::UpstreamPort>, std::unique_ptr<http::ByteStream>>> open;
};

}  // namespace

TEST_CASE("upstream pool: one sandbox takes so many connections, and none from another one") {
    Bench bench({.of_sandbox = 2, .of_all = 3});
    auto first = bench.connect("a");
    auto second = bench.connect("a", Reuse::no, 3000);
    REQUIRE((first.has_value() && second.has_value()));
    const auto refused = bench.connect("a");
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == Errc::capacity);
    CHECK(refused.error().retry_after().count() > 0);
    const auto other = bench.connect("b");
    CHECK(other.has_value());
    CHECK(bench.connect("c").error().code() == Errc::capacity);
    second->stream.reset();
    CHECK(bench.pool->open() == 2);
    CHECK(bench.connect("a").has_value());
}

TEST_CASE("upstream pool: connections that the guest makes leave it room for the server's other ones") {
    asio::io_context loop{1};
    FakeClock clock;
    FakeTimers timers{clock};
    std::vector<base::UniqueFd> inside;
    const auto pool = std::make_shared<http::UpstreamPool>(
        loop.get_executor(), clock, timers,
        [](const std::string&, std::uint16_t) -> base::Result<sandbox::InnerSocket> {
            return base::Error(Errc::host_unsupported);
        },
        http::UpstreamBounds{.of_sandbox = 10, .of_all = 20, .dialed_of_sandbox = 2},
        [&](const std::string&, std::uint16_t,
            std::shared_ptr<const void> held) -> base::Result<std::unique_ptr<http::ByteStream>> {
            int ends[2];
            REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
            inside.emplace_back(ends[0]);
            http::Socket socket(loop.get_executor(), asio::generic::stream_protocol(AF_UNIX, 0), ends[1]);
            return std::make_unique<http::SocketStream>(std::move(socket), std::move(held));
        });
    auto first = pool->port({"a", 1, 5173})->connect(Reuse::no);
    const auto second = pool->port({"a", 1, 3000})->connect(Reuse::no);
    REQUIRE((first.has_value() && second.has_value()));
    CHECK(pool->port({"a", 1, 5173})->connect(Reuse::no).error().code() == Errc::capacity);
    CHECK(pool->open() == 2);
    CHECK(pool->port({"b", 1, 5173})->connect(Reuse::no).has_value());
    first->stream.reset();
    CHECK(pool->port({"a", 1, 5173})->connect(Reuse::no).has_value());
}

TEST_CASE("upstream pool: visitors have half of the sockets of a sandbox") {
    Bench bench({.of_sandbox = 100, .of_all = 1000});
    CHECK(bench.fill({.max_sockets = 41}) == Errc::capacity);
    CHECK(bench.open.size() == 20);
    CHECK(bench.fill({.max_sockets = 1'000}) == Errc::capacity);
    CHECK(bench.open.size() == 100);
}

TEST_CASE("upstream pool: an address has as many connections of a sandbox as it leaves to others") {
    Bench bench({.of_sandbox = 64, .of_all = 1000});
    CHECK(bench.fill({.address = 1}) == Errc::too_many_connections);
    CHECK(bench.open.size() == 32);
    CHECK(bench.fill({.address = 2}) == Errc::too_many_connections);
    CHECK(bench.open.size() == 48);
    bench.open.erase(bench.open.begin() + 16, bench.open.end());
    CHECK(bench.fill({.address = 2}) == Errc::too_many_connections);
    CHECK(bench.open.size() == 16 + 24);
    // A visitor without a bound takes the rest.
    CHECK(bench.fill({}) == Errc::capacity);
    CHECK(bench.open.size() == 64);
    bench.open.clear();
    CHECK(bench.pool->open() == 0);
}

TEST_CASE("upstream pool: where few connections are allowed an address has what a browser opens") {
    Bench bench({.of_sandbox = 20, .of_all = 1000});
    CHECK(bench.fill({.address = 1}) == Errc::too_many_connections);
    CHECK(bench.open.size() == base::k_upstreams_of_address);
}

TEST_CASE("upstream pool: a preview is crowded once half of its connections serve a request") {
    Bench bench({.of_sandbox = 4, .of_all = 10});
    bench.keep("a", *bench.connect("a"));
    bench.keep("a", *bench.connect("a"));
    const auto first = bench.pool->port({"a", 1, 5173});
    const auto upstream = first->connect(Reuse::allowed);
    CHECK_FALSE(first->is_crowded());
    const auto second = bench.pool->port({"a", 1, 3000});
    const auto other = second->connect(Reuse::no);
    CHECK(first->is_crowded());
}

TEST_CASE("upstream pool: visitors of one user's sandboxes leave others theirs") {
    const bool has_all = GENERATE(false, true);
    asio::io_context loop{1};
    FakeClock clock;
    FakeTimers timers{clock};
    std::vector<std::shared_ptr<const void>> open;
    const auto pool = std::make_shared<http::UpstreamPool>(
        loop.get_executor(), clock, timers,
        [](const std::string&, std::uint16_t) -> base::Result<sandbox::InnerSocket> {
            return base::Error(Errc::host_unsupported);
        },
        http::UpstreamBounds{.of_sandbox = 4096,
                             .of_all = 2000,
                             .dialed_of_sandbox = 4096,
                             .user_share_percent = has_all ? 100U : 50U},
        [&](const std::string&, std::uint16_t,
            std::shared_ptr<const void> held) -> base::Result<std::unique_ptr<http::ByteStream>> {
            open.push_back(std::move(held));
            return std::make_unique<FakeStream>(std::make_shared<FakePeer>(loop.get_executor()));
        });
    const auto connect = [&pool](const std::string& id, const char* user) {
        return pool->port({id, 1, 5173}, {.owner = base::ShareHolder::user(user)})->connect(Reuse::no);
    };
    for (int i = 0; i < (has_all ? 2000 : 1000); ++i)
        REQUIRE(connect("a" + std::to_string(i % 4), "ann").has_value());
    const auto refused = connect("a0", "ann");
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == (has_all ? Errc::capacity : Errc::user_share));
    CHECK(refused.error().retry_after().count() > 0);
    CHECK(connect("b", "bob").has_value() == !has_all);
    open.clear();
    CHECK(pool->open() == 0);
    CHECK(connect("b", "bob").has_value());
}

TEST_CASE("upstream pool: kept connections of one user's sandboxes leave others theirs") {
    Bench bench({.of_sandbox = 4, .of_all = 1000, .user_share_percent = 15});
    const auto keep = [&bench](const std::string& id, const char* user) {
        const auto port = bench.pool->port({id, 1, 5173}, {.owner = base::ShareHolder::user(user)});
        port->keep(std::move(port->connect(Reuse::no)->stream));
    };
    constexpr std::size_t k_share = base::k_max_kept_upstreams_of_all * 15 / 100;
    for (std::size_t i = 0; i < k_share + 4; ++i)
        keep("a" + std::to_string(i), "ann");
    CHECK(bench.pool->kept() == k_share);
    CHECK(bench.pool->open() == k_share);
    keep("b", "bob");
    CHECK(bench.pool->kept() == k_share + 1);
}

TEST_CASE("upstream pool: a write waits for no dev server") {
    Bench bench({.of_sandbox = 1, .of_all = 1});
    const auto upstream = bench.connect("a");
    REQUIRE(upstream.has_value());
    // A peer that never reads has filled its socket. A write that waits for it ends once the peer is gone.
    const std::string bytes(64 * 1024, 'x');
    while (::send(upstream->stream->native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
    boost::system::error_code error;
    auto written = std::async(std::launch::async, [&] { upstream->stream->write_some("x", error); });
    if (written.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
        bench.inside.clear();
    written.get();
    CHECK(error == asio::error::would_block);
}

TEST_CASE("upstream pool: one that could not be made counts nothing") {
    Bench bench({.of_sandbox = 1, .of_all = 1});
    bench.nobody_listens = true;
    for (int i = 0; i < 3; ++i)
        CHECK(bench.connect("a").error().code() == Errc::no_listener);
    CHECK(bench.pool->open() == 0);
    bench.nobody_listens = false;
    CHECK(bench.connect("a").has_value());
}

TEST_CASE("upstream pool: one that only waits is used again, or gives way") {
    Bench bench({.of_sandbox = 1, .of_all = 1});
    bench.keep("a", *bench.connect("a"));
    CHECK(bench.pool->kept() == 1);
    {
        const auto again = bench.connect("a", Reuse::allowed);
        REQUIRE(again.has_value());
        CHECK(again->is_reused);
        CHECK(bench.pool->open() == 1);
    }
    bench.keep("a", *bench.connect("a"));
    const auto fresh = bench.connect("a");
    REQUIRE(fresh.has_value());
    CHECK_FALSE(fresh->is_reused);
    CHECK(bench.pool->kept() == 0);
    CHECK(bench.pool->open() == 1);
}

TEST_CASE("upstream pool: what a dev server says unasked, or ends, on a kept connection is no answer") {
    Bench bench({.of_sandbox = 4, .of_all = 4});
    bench.keep("a", *bench.connect("a"));
    SECTION("says") {
        REQUIRE(::send(bench.inside[0].get(), "HTTP/1.1 200 OK\r\n\r\n", 19, 0) == 19);
    }
    SECTION("ends") {
        bench.inside[0].reset();
    }
    const auto fresh = bench.connect("a", Reuse::allowed);
    REQUIRE(fresh.has_value());
    CHECK_FALSE(fresh->is_reused);
    CHECK(bench.inside.size() == 2);
    CHECK(bench.pool->open() == 1);
}

TEST_CASE(
    "upstream pool: a kept connection is closed after a while, and the pool may end before its streams") {
    Bench bench({.of_sandbox = 4, .of_all = 4});
    bench.keep("a", *bench.connect("a"));
    const auto held = bench.connect("a");
    bench.timers.advance(2 * base::k_kept_upstream_time, [] {});
    CHECK(bench.pool->kept() == 0);
    CHECK(bench.pool->open() == 1);
    bench.pool.reset();
}

TEST_CASE("upstream pool: a connection that only waits gives its place to a request that cannot have it") {
    Bench bench({.of_sandbox = 1, .of_all = 1});
    bench.keep("a", *bench.connect("a"));
    const auto fresh = bench.connect("a", Reuse::no);
    REQUIRE(fresh.has_value());
    CHECK_FALSE(fresh->is_reused);
    CHECK(bench.pool->kept() == 0);
    CHECK(bench.connect("a", Reuse::no).error().code() == base::Errc::capacity);
}

TEST_CASE(
    "upstream pool: one that waits gives its place to another port of its sandbox, and to all where they are "
    "many") {
    SECTION("of the sandbox") {
        Bench bench({.of_sandbox = 1, .of_all = 3});
        bench.keep("a", *bench.connect("a"));
        bench.keep("b", *bench.connect("b"));
        CHECK(bench.connect("a", Reuse::allowed, 3000).has_value());
        CHECK(bench.pool->kept() == 1);
    }
    SECTION("of all") {
        Bench bench({.of_sandbox = 2, .of_all = 2});
        bench.keep("b", *bench.connect("b"));
        bench.keep("c", *bench.connect("c"));
        CHECK(bench.connect("a").has_value());
        CHECK(bench.pool->kept() == 1);
    }
}

TEST_CASE("upstream pool: a kept connection is of its sandbox, generation and port alone") {
    Bench bench({.of_sandbox = 4, .of_all = 4});
    bench.keep("a", *bench.connect("a"));
    for (const http::UpstreamKey& other : {http::UpstreamKey{"b", 1, 5173}, http::UpstreamKey{"a", 2, 5173},
                                           http::UpstreamKey{"a", 1, 3000}}) {
        const auto fresh = bench.pool->port(other)->connect(Reuse::allowed);
        REQUIRE(fresh.has_value());
        CHECK_FALSE(fresh->is_reused);
    }
    CHECK(bench.connect("a", Reuse::allowed)->is_reused);
}

}  // namespace upstream_pool_test
