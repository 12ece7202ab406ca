// Bytes on the way out of a sandbox are no activity of its conversation.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>

#include "core/plain/unique_fd.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/deadline.hpp"

namespace integration_egress_idle_test {

using namespace atl::test;
using atl::base::UniqueFd;

namespace {

// Sends a byte for each that comes back, until its one client has gone.
class PingPong {
  public:
    PingPong() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&here), size) == 0);
        REQUIRE(::listen(listener_.get(), 1) == 0);
        REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size) == 0);
        port_ = std::to_string(ntohs(here.sin_port));
        thread_ = std::thread([this] { play(); });
    }
    ~PingPong() {
        ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept(2)
        thread_.join();
    }
    PingPong(const PingPong&) = delete;
    PingPong& operator=(const PingPong&) = delete;

    const std::string& port() const { return port_; }
    int rounds() const { return rounds_; }

  private:
    void play() {
        const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        char ball = 'x';
        while (::send(client.get(), &ball, 1, MSG_NOSIGNAL) == 1 && ::recv(client.get(), &ball, 1, 0) == 1)
            ++rounds_;
    }

    UniqueFd listener_;
    std::string port_;
    std::atomic<int> rounds_ = 0;
    std::thread thread_;
};

}  // namespace

TEST_CASE("A conversation is paused for its idle time while bytes go through a tunnel of its sandbox") {
    PingPong upstream;
    ServerOptions options;
    options.arguments = {"--egress-private", "127.0.0.1/32:" + upstream.port()};
    const ServerProcess server(options);
    ApiClient api(server);
    const std::string target = "127.0.0.1:" + upstream.port();
    const Json network{{"mode", "egress"}, {"allow", Json::array({target + "/tcp"})}};
    const Json made = api.create({{"agent", "shell"}, {"network", network}});
    const std::string id = made["id"];
    // The answer of the proxy is read to its empty line; every byte behind it is sent back.
    api.message(id, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"CONNECT " + target +
                        " HTTP/1.1\\r\\nHost: " + target +
                        "\\r\\n\\r\\n\" >&3; while read -r line <&3 && [ ${#line} -gt 1 ]; do :; done; "
                        "cat <&3 >&3' >/dev/null 2>&1 &");
    // Control: they do go through.
    const int before = upstream.rounds();
    REQUIRE(eventually([&] { return upstream.rounds() > before + 100; }));
    api.call(200, "PATCH", "/v1/conversations/" + id, Json{{"idleSeconds", 2}}.dump());
    CHECK(api.await_status(id, "paused")["statusReason"] == "idle");
    CHECK(upstream.rounds() > before + 100);
}

}  // namespace integration_egress_idle_test
