// The proxy of a sandbox without sockets and in time that stands still: the test plays the program inside,
// the upstream, the rules and the resolver.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/task_group.hpp"
#include "http/egress/egress_door.hpp"
#include "http/server/session.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace atl::test {

/// Grants the targets that the settings list as "host:port" or "host:port/tcp", and no address of 10.0.0.0/8.
/// A person may be asked about names that begin with "asked.".
class FakeEgressRules final : public http::EgressRules {
  public:
    explicit FakeEgressRules(std::vector<std::string> allow, bool asks = false)
        : allow_(std::move(allow)), asks_(asks) {}
    base::Result<http::EgressGrant> check(std::string_view authority,
                                          std::uint16_t default_port) const override {
        http::EgressGrant grant;
        const auto colon = authority.rfind(':');
        grant.host = authority.substr(0, colon);
        grant.port = colon == authority.npos
                         ? default_port
                         : static_cast<std::uint16_t>(std::stoi(std::string(authority.substr(colon + 1))));
        if (grant.port == 0)
            return base::Error(base::Errc::invalid_request, "There is no port.");
        grant.address = http::parse_address(grant.host);
        const std::string rule = grant.host + ':' + std::to_string(grant.port);
        grant.any_bytes = lists(rule + "/tcp");
        if (!grant.any_bytes && !lists(rule))
            return base::Error(base::Errc::network_not_allowed, rule + " is not listed.");
        return grant;
    }
    std::optional<http::EgressGrant> askable(std::string_view authority,
                                             std::uint16_t default_port) const override {
        if (!asks_ || !authority.starts_with("asked."))
            return std::nullopt;
        auto grant = FakeEgressRules({std::string(authority)}).check(authority, default_port).value();
        grant.was_asked = true;
        return grant;
    }
    void keep_dialable(const http::EgressGrant&, http::EgressAddresses& addresses) const override {
        std::erase_if(addresses, [](const http::IpAddress& address) {
            return address.to_string().substr(0, 3) == "10.";
        });
    }
    bool is_opened(const http::IpAddress& address, std::uint16_t) const override {
        return address.to_string().substr(0, 3) == "172";
    }
    bool holds(const http::EgressGrant& grant) const override {
        const std::string rule = grant.host + ':' + std::to_string(grant.port);
        return lists(rule + "/tcp") || (!grant.any_bytes && lists(rule)) || (grant.was_asked && asks_);
    }

  private:
    bool lists(const std::string& rule) const {
        return std::find(allow_.begin(), allow_.end(), rule) != allow_.end();
    }
    std::vector<std::string> allow_;
    bool asks_;
};

class FakeEgressPolicy final : public http::EgressPolicy {
  public:
    base::Result<void> check(const sandbox::EgressSettings&) const override { return {}; }
    std::unique_ptr<const http::EgressRules> rules(const sandbox::EgressSettings& settings) const override {
        return std::make_unique<FakeEgressRules>(settings.allow, settings.ask);
    }
};

/// "TLS NAME;" is a ClientHello with a name, "TLS ;" one without.
class FakeOpeningReader final : public http::EgressOpeningReader {
  public:
    http::EgressOpening read(std::string_view input) override {
        if (input.starts_with("GET /"))
            return http::EgressOpening::request;
        if (input.substr(0, 4) != std::string_view("TLS ").substr(0, input.size()))
            return http::EgressOpening::other;
        const auto end = input.find(';');
        if (end == input.npos)
            return http::EgressOpening::more;
        name_ = input.substr(4, end - 4);
        size_ = end + 1;
        return name_.empty() ? http::EgressOpening::no_name : http::EgressOpening::name;
    }
    const std::string& server_name() const override { return name_; }
    std::size_t size() const override { return size_; }

  private:
    std::string name_;
    std::size_t size_ = 0;
};

/// Each end as a line: "box CONNECT a.example:443 not_listed", "box/ROUTE GET a.example:443 allowed 12 34".
class ReportedLines final : public http::EgressReports {
  public:
    base::SteadyTime now() const override { return {}; }
    void looked_up(bool was_found) override { lines.push_back(was_found ? "found" : "not found"); }
    void opened() override { ++open; }
    void ended(const http::EgressRequest& request, const http::EgressEnd& end) override {
        std::string line = request.sandbox_id + (request.route.empty() ? "" : '/' + request.route) + ' ' +
                           request.method + ' ' + request.host + ':' + std::to_string(request.port) + ' ';
        if (end.denied)
            line += to_string(*end.denied);
        else
            line += end.failed ? base::code_name(*end.failed) : "allowed";
        if (end.was_open)
            --open;
        if (end.was_open || request.form == http::EgressForm::tunneled)
            line += ' ' + std::to_string(end.bytes_up) + ' ' + std::to_string(end.bytes_down);
        lines.push_back(std::move(line));
    }
    std::vector<std::string> take() { return std::exchange(lines, {}); }

    std::vector<std::string> lines;
    int open = 0;
};

class EgressLab {
  public:
    /// With `questions` a person may be asked.
    explicit EgressLab(std::vector<std::string> allow, std::shared_ptr<http::EgressReports> reports = nullptr,
                       http::EgressQuestions* questions = nullptr)
        : questions_(questions),
          door(std::make_shared<http::EgressDoor>(
              "box", parts(reports), sandbox::EgressSettings{allow, "", {}, questions != nullptr})),
          neighbour(std::make_shared<http::EgressDoor>("neighbour", parts(reports),
                                                       sandbox::EgressSettings{allow, ""})) {}
    ~EgressLab() { end(); }
    /// Ends all sessions. To be called while the objects that they use are still there.
    void end() {
        for (const auto& session : sessions_)
            session->abort();
        run();
    }
    EgressLab(const EgressLab&) = delete;
    EgressLab& operator=(const EgressLab&) = delete;

    /// A program inside that has sent this.
    std::shared_ptr<FakePeer> connect(std::string_view bytes) { return connect(bytes, *door->services()); }
    std::shared_ptr<FakePeer> connect(std::string_view bytes, http::EgressDoor& to) {
        return connect(bytes, *to.services());
    }
    std::shared_ptr<FakePeer> connect(std::string_view bytes, const http::Services& services) {
        auto peer = std::make_shared<FakePeer>(loop_.get_executor());
        auto connection = std::make_shared<http::Connection>(std::make_unique<FakeStream>(peer), clock_,
                                                             timers_, state_.settings);
        sessions_.push_back(
            std::make_shared<http::Session>(state_, services, std::move(connection), http::PeerAddress{},
                                            http::ListenerScope::loopback, http::CountLimiter::Lease()));
        tasks_.spawn(async_serve(sessions_.back()));
        run();
        send(*peer, bytes);
        return peer;
    }
    void run() {
        loop_.restart();
        loop_.poll();
    }
    /// Runs one handler; false if there is none.
    bool run_one() {
        loop_.restart();
        return loop_.poll_one() > 0;
    }
    void send(FakePeer& peer, std::string_view bytes) {
        peer.send(bytes);
        run();
    }
    std::string take(FakePeer& peer) {
        run();
        return peer.take();
    }
    void advance(base::Millis by) {
        run();
        timers_.advance(by, [this] { run(); });
    }
    FakePeer& upstream() { return *upstreams.back(); }

  private:
    http::EgressParts parts(std::shared_ptr<http::EgressReports> reports) {
        http::EgressParts made{
            policy,
            [this](const std::string& sandbox, const std::string& host, auto done) {
                looked_up.push_back(sandbox + ' ' + host);
                const auto found = names.find(host);
                if (found == names.end())
                    return done(base::Error(base::Errc::upstream_failed, "no address"));
                done(found->second);
            },
            [this](http::EgressAddresses addresses, std::uint16_t port, http::EgressDialDone done) {
                dialed.push_back(addresses.front().to_string() + ' ' + std::to_string(port));
                upstreams.push_back(std::make_shared<FakePeer>(loop_.get_executor()));
                done(std::make_unique<FakeStream>(upstreams.back()));
            },
            [] { return std::make_unique<FakeOpeningReader>(); }};
        made.secure = [this](std::unique_ptr<http::ByteStream> stream, const std::string& name,
                             http::EgressDialDone done) {
            secured.push_back(name);
            if (has_bad_certificate)
                return done(base::Error(base::Errc::upstream_failed, "TLS failed: certificate has expired"));
            done(std::move(stream));
        };
        made.bounds = bounds;
        made.reports = std::move(reports);
        made.questions = questions_;
        return made;
    }
    static base::Task<> async_serve(std::shared_ptr<http::Session> session) { co_await session->async_run(); }

    boost::asio::io_context loop_{1};
    FakeClock clock_;
    FakeTimers timers_{clock_};
    http::EgressQuestions* const questions_;

  public:
    std::vector<std::string> secured;  // names that upstreams were to prove
    bool has_bad_certificate = false;
    FakeEgressPolicy policy;
    std::map<std::string, http::EgressAddresses> names{
        {"a.example", {*http::parse_address("192.0.2.1"), *http::parse_address("192.0.2.2")}},
        {"inner.example", {*http::parse_address("10.0.0.1")}},
        {"mixed.example", {*http::parse_address("10.0.0.1"), *http::parse_address("192.0.2.3")}}};
    std::vector<std::string> looked_up;
    std::vector<std::string> dialed;
    std::vector<std::shared_ptr<FakePeer>> upstreams;
    const std::shared_ptr<http::EgressBounds> bounds = std::make_shared<http::EgressBounds>(
        loop_.get_executor(), clock_, timers_,
        [](const std::string& id) { return base::ShareHolder::thing(id); },
        http::EgressBounds::Totals{base::k_max_connections});
    const std::shared_ptr<http::EgressDoor> door;
    const std::shared_ptr<http::EgressDoor> neighbour;  // of another sandbox

  private:
    http::ServerState state_{clock_, timers_, http::Settings{}};
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::vector<std::shared_ptr<http::Session>> sessions_;
};

}  // namespace atl::test
