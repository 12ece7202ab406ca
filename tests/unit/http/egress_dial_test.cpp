// Connections out of sandboxes, to a listener whose backlog is full and which therefore answers none.
#include "http/egress/egress_dial.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "core/plain/unique_fd.hpp"
#include "tests/support/fake_world.hpp"

namespace egress_dial_test {

using namespace atl;
using namespace atl::test;

namespace {

class FullListener {
  public:
    FullListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const where = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(listener_.get(), where, sizeof address) == 0);
        REQUIRE(::listen(listener_.get(), 0) == 0);
        socklen_t size = sizeof address;
        REQUIRE(::getsockname(listener_.get(), where, &size) == 0);
        port_ = ntohs(address.sin_port);
        pollfd connected{};
        do {
            waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            ::connect(waiting_.back().get(), where, sizeof address);
            connected = {waiting_.back().get(), POLLOUT, 0};
        } while (::poll(&connected, 1, 0) == 1 && waiting_.size() < 16);
        REQUIRE(waiting_.size() < 16);
    }
    std::uint16_t port() const { return port_; }

  private:
    base::UniqueFd listener_;
    std::vector<base::UniqueFd> waiting_;
    std::uint16_t port_ = 0;
};

struct DialBench {
    void dial() {
        http::make_egress_dial(loop.get_executor(), timers)(
            {*http::parse_address("127.0.0.1")}, listener.port(), [this](auto result) {
                error = result.has_error() ? result.error().code() : base::Errc::not_found;
            });
        loop.poll();
    }
    FullListener listener;
    boost::asio::io_context loop{1};
    FakeClock clock;
    FakeTimers timers{clock};
    std::optional<base::Errc> error;
};

}  // namespace

TEST_CASE("A host that takes no connection is given up in time") {
    DialBench bench;
    bench.dial();
    CHECK_FALSE(bench.error.has_value());
    bench.timers.advance(base::k_egress_connect_time, [&] { bench.loop.poll(); });
    bench.loop.restart();
    bench.loop.poll();
    CHECK(bench.error == base::Errc::upstream_failed);
}

TEST_CASE("A server that ends, and whose timers have stopped, waits for no connection") {
    DialBench bench;
    bench.dial();
    CHECK_FALSE(bench.error.has_value());
    bench.timers.clear();
    bench.loop.restart();
    bench.loop.run();
    CHECK(bench.error == base::Errc::deadline_exceeded);
}

}  // namespace egress_dial_test
