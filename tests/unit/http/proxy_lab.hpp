// A proxy without sockets and in time that stands still: a session between a client and a dev server, both
// played by the test, which sees and sends bytes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/task_group.hpp"
#include "http/proxy/exchange.hpp"
#include "http/proxy/open_previews.hpp"
#include "http/server/session.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace atl::test {

/// The port of a dev server: connections that the test answers.
class FakePort final : public http::UpstreamPort {
  public:
    explicit FakePort(base::Executor executor) : executor_(executor) {}
    base::Result<http::Upstream> connect(http::Reuse reuse) override {
        if (is_closed)
            return base::Error(base::Errc::sandbox_gone, "Nobody listens.");
        if (reuse == http::Reuse::allowed && kept_) {
            peers.push_back(kept_peer_);
            return http::Upstream{std::move(kept_), true};
        }
        peers.push_back(std::make_shared<FakePeer>(executor_));
        return http::Upstream{std::make_unique<FakeStream>(peers.back()), false};
    }
    void keep(std::unique_ptr<http::ByteStream> stream) override {
        kept_ = std::move(stream);
        kept_peer_ = peers.back();
    }
    bool is_crowded() const override { return crowded; }
    bool has_kept() const { return kept_ != nullptr; }

    bool crowded = false;
    bool is_closed = false;
    std::vector<std::shared_ptr<FakePeer>> peers;  // one for each request that was begun

  private:
    base::Executor executor_;
    std::unique_ptr<http::ByteStream> kept_;
    std::shared_ptr<FakePeer> kept_peer_;
};

/// Answers each request by the dev server on port 5173.
class FakePreviews final : public http::Service {
  public:
    explicit FakePreviews(base::Executor executor) : port(std::make_shared<FakePort>(executor)) {}
    http::Decision admit(http::RequestContext&, const http::Arrival&) override {
        http::Decision decision;
        decision.handler = &handler_;
        decision.body = http::BodyKind::stream;
        return decision;
    }
    http::Response refuse(const http::RequestContext&, const base::Error& error) override {
        http::Response response;
        response.status = 502;
        response.body = std::string(base::code_name(error.code()));
        response.content_type = "text/plain";
        return response;
    }

    static constexpr const char* k_sandbox = "sandbox";
    static constexpr std::string_view k_key = "the.api.key";
    std::shared_ptr<FakePort> port;
    http::OpenPreviews open;

  private:
    base::Task<base::Result<http::Response>> async_answer(http::RequestContext& context) {
        http::ProxiedHost host{
            .port = 5173,
            .public_scheme = "https",
            .public_host = context.request.authority,
            .client_address = "192.0.2.1",
            .hidden_cookies = "__Host-atoll-preview",
            .hides_authorization = context.request.has_header("X-Hide"),
            .holds_secret = [](std::string_view text) { return text.find(k_key) != text.npos; }};
        auto refuse_it = [this, &context](const base::Error& error) {
            return std::make_unique<http::Response>(refuse(context, error));
        };
        http::Response response;
        auto exchange = std::make_unique<http::Exchange>(
            port, std::make_unique<http::PreviewHeads>(std::move(host)), std::move(refuse_it));
        response.relay = open.follow({k_sandbox, 5173, false, context.request.method != http::Method::head},
                                     std::move(exchange));
        co_return response;
    }
    const http::Handler handler_ = [this](http::RequestContext& context) { return async_answer(context); };
};

class ProxyLab {
  public:
    ProxyLab() = default;
    ~ProxyLab() {
        for (const auto& session : sessions_)
            session->abort();
        run();
    }
    ProxyLab(const ProxyLab&) = delete;
    ProxyLab& operator=(const ProxyLab&) = delete;

    std::shared_ptr<FakePeer> connect() {
        auto peer = std::make_shared<FakePeer>(loop_.get_executor());
        auto connection = std::make_shared<http::Connection>(std::make_unique<FakeStream>(peer), clock_,
                                                             timers_, state_.settings);
        sessions_.push_back(
            std::make_shared<http::Session>(state_, services_, std::move(connection), http::PeerAddress{},
                                            http::ListenerScope::loopback, http::CountLimiter::Lease()));
        tasks_.spawn(async_serve(sessions_.back()));
        run();
        return peer;
    }
    void run() {
        loop_.restart();
        loop_.poll();
    }
    void advance(base::Millis by) {
        run();
        timers_.advance(by, [this] { run(); });
    }
    std::string take(FakePeer& peer) {
        run();
        return peer.take();
    }
    void send(FakePeer& peer, std::string_view bytes) {
        peer.send(bytes);
        run();
    }
    /// The dev server's end of the request that was begun last.
    FakePeer& upstream() { return *previews.port->peers.back(); }
    std::size_t requests() const { return previews.port->peers.size(); }
    void stop() {
        state_.stopping = true;
        for (const auto& session : sessions_)
            session->stop();
        run();
    }

  private:
    static base::Task<> async_serve(std::shared_ptr<http::Session> session) { co_await session->async_run(); }

    boost::asio::io_context loop_{1};
    FakeClock clock_;
    FakeTimers timers_{clock_};

  public:
    FakePreviews previews{loop_.get_executor()};

  private:
    http::Services services_{previews};
    http::ServerState state_{clock_, timers_, http::Settings{}};
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::vector<std::shared_ptr<http::Session>> sessions_;
};

inline constexpr std::string_view k_get = "GET /a?b=c HTTP/1.1\r\nHost: p.example\r\n\r\n";

inline bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// A client that has sent `request`, which the dev server has in full.
struct Asked {
    explicit Asked(ProxyLab& lab, std::string_view request = k_get) : client(lab.connect()) {
        lab.send(*client, request);
        head = lab.take(lab.upstream());
    }
    std::shared_ptr<FakePeer> client;
    std::string head;
};

}  // namespace atl::test
