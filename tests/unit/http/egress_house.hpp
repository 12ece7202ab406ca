// The proxy of a sandbox with the parts that a server has: rules within the operator's ceilings, look-ups
// that ask the test's name server, the reader of ClientHellos, and connections to upstreams on loopback
// addresses. Sockets are real, except those of the programs inside; time stands still.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "http/egress/egress_adapters.hpp"
#include "http/egress/egress_dial.hpp"
#include "tests/bench/temp_dir.hpp"
#include "tests/unit/http/dns_server.hpp"
#include "tests/unit/http/egress_inside.hpp"

namespace atl::test {

/// A server's end of a connection that the proxy has made.
struct HouseUpstream {
    explicit HouseUpstream(boost::asio::ip::tcp::socket socket_) : socket(std::move(socket_)) {}
    boost::asio::ip::tcp::socket socket;
    std::array<char, 16UL * 1024> room{};
    std::string received;
    bool ended = false;
};

/// All that a test waits for comes long before.
inline constexpr std::chrono::seconds k_house_patience{30};

class EgressHouse : public EgressInside {
  public:
    /// PORT in a rule, a range and what programs send is the port of the upstreams. `ranges`: the prefixes
    /// of --egress-private, for this port.
    explicit EgressHouse(const std::vector<std::string>& allow,
                         const std::vector<std::string>& ranges = {"127.0.0.2"}) {
        for (const std::string& range : ranges)
            REQUIRE(ceilings_.allow_private(range + ':' + port()).has_value());
        std::ofstream(servers_file()) << "nameserver 127.0.0.1\n";
        resolver_ = std::make_unique<http::Resolver>(
            loop_.get_executor(), timers_, clock_,
            http::Resolver::Options{servers_file(), names.port(), http::AddressCache::Bounds{}});
        look_ups_ = std::make_unique<http::EgressLookUps>(*resolver_);
        const auto dial = http::make_egress_dial(loop_.get_executor(), timers_);
        const auto counted = [this, dial](http::EgressAddresses addresses, std::uint16_t to,
                                          http::EgressDialDone done) {
            dialed.push_back(addresses);
            dial(std::move(addresses), to, std::move(done));
        };
        door = std::make_shared<http::EgressDoor>(
            "box", http::EgressParts{policy_, look_ups_->look_up(), counted, &http::make_hello_reader},
            settings(allow));
        accept();
    }
    ~EgressHouse() { end_sessions(); }

    /// A program inside that has sent this.
    std::shared_ptr<FakePeer> connect(const std::string& bytes) {
        return connect_to(*door, with_port(bytes));
    }
    /// The same, once it is connected to an upstream.
    std::shared_ptr<FakePeer> connect_through(const std::string& bytes) {
        const std::size_t before = upstreams.size();
        auto peer = connect(bytes);
        until([&] { return upstreams.size() > before; });
        return peer;
    }
    /// The status that a program gets which sends this, and its connection goes.
    std::string status(const std::string& bytes) {
        const auto peer = connect(bytes);
        std::string text;
        until([&] {
            text += peer->take();
            return text.find("\r\n\r\n") != std::string::npos || peer->is_closed();
        });
        peer->end_sending();
        return text.substr(std::min<std::size_t>(text.size(), 9), 3);
    }
    /// The bytes that come until there are so many bytes, or no more come.
    std::string take_bytes(FakePeer& peer, std::size_t count) {
        std::string text;
        until([&] {
            text += peer.take();
            return text.size() >= count || peer.input_ended();
        });
        return text;
    }
    /// The bytes that the newest upstream has got once they are so many bytes, or all.
    std::string upstream_bytes(std::size_t count) {
        until([&] { return upstreams.back()->received.size() >= count || upstreams.back()->ended; });
        return upstreams.back()->received;
    }
    /// The newest upstream sends this, as fast as it is read.
    void answer(const std::string& bytes) {
        const auto sent = std::make_shared<const std::string>(bytes);
        boost::asio::async_write(upstreams.back()->socket, boost::asio::buffer(*sent),
                                 [sent](const boost::system::error_code&, std::size_t) {});
        run();
    }
    template <class Done>
    void until(const Done& done) {
        for (run(); !done(); run()) {
            loop_.restart();
            REQUIRE(loop_.run_one_for(k_house_patience) > 0);
        }
    }
    void change(const std::vector<std::string>& allow) { door->change(settings(allow)); }
    std::string port() const { return std::to_string(acceptor_.local_endpoint().port()); }
    std::string with_port(std::string text) const {
        for (auto at = text.find("PORT"); at != std::string::npos; at = text.find("PORT"))
            text.replace(at, 4, port());
        return text;
    }

  private:
    using Tcp = boost::asio::ip::tcp;

    sandbox::EgressSettings settings(const std::vector<std::string>& allow) const {
        sandbox::EgressSettings made;
        for (const std::string& rule : allow)
            made.allow.push_back(with_port(rule));
        REQUIRE(policy_.check(made).has_value());
        return made;
    }
    std::string servers_file() const { return (folder_.path() / "resolv.conf").string(); }
    void accept() {
        acceptor_.async_accept([this](const boost::system::error_code& error, Tcp::socket socket) {
            if (error)
                return;
            upstreams.push_back(std::make_shared<HouseUpstream>(std::move(socket)));
            read(upstreams.back());
            accept();
        });
    }
    void read(const std::shared_ptr<HouseUpstream>& upstream) {
        upstream->socket.async_read_some(
            boost::asio::buffer(upstream->room),
            [this, upstream](const boost::system::error_code& error, std::size_t size) {
                upstream->received.append(upstream->room.data(), size);
                upstream->ended = error.failed();
                if (!error)
                    read(upstream);
            });
    }

    bench::TempDir folder_;
    // At each address of 127.0.0.0/8.
    Tcp::acceptor acceptor_{loop_, Tcp::endpoint(Tcp::v4(), 0)};
    egress::Ceilings ceilings_;
    http::CeilingPolicy policy_{ceilings_};

  public:
    DnsServer names{loop_};
    std::vector<http::EgressAddresses> dialed;
    std::vector<std::shared_ptr<HouseUpstream>> upstreams;

  private:
    std::unique_ptr<http::Resolver> resolver_;
    std::unique_ptr<http::EgressLookUps> look_ups_;

  public:
    std::shared_ptr<http::EgressDoor> door;
};

}  // namespace atl::test
