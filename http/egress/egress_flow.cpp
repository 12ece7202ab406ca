#include "http/egress/egress_flow.hpp"

#include <poll.h>

#include <utility>

#include "core/base/limits.hpp"
#include "core/plain/egress_limits.hpp"
#include "http/proxy/tunnel.hpp"
#include "http/proxy/upstream_pool.hpp"
#include "http/server/server_state.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr std::uint16_t k_http_port = 80;
// A small buffer holds all that a reader of the first bytes may want.
static_assert(base::k_max_egress_opening_bytes <= base::k_read_ahead_bytes);
constexpr std::string_view k_established = "HTTP/1.1 200 Connection Established\r\n\r\n";

// The other end has ended, also where something lies before that: tickets of TLS come before the first
// request.
bool has_ended(ByteStream& stream) {
    pollfd ends{stream.native_handle(), POLLRDHUP, 0};
    return ::poll(&ends, 1, 0) > 0;
}

Relay::Outcome closed(unsigned status) {
    Relay::Outcome outcome;
    outcome.status = status;
    return outcome;
}

}  // namespace

/// The one connection to the target: requests of a tunnel may use it one after the other.
class EgressFlow::Upstream final : public UpstreamPort {
  public:
    explicit Upstream(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
    base::Result<http::Upstream> connect(Reuse) override {
        if (stream_ == nullptr)
            return Error(Errc::upstream_failed, "it has closed the connection");
        return http::Upstream{std::move(stream_), std::exchange(is_used_, true)};
    }
    void keep(std::unique_ptr<ByteStream> stream) override { stream_ = std::move(stream); }
    bool is_crowded() const override { return false; }
    std::unique_ptr<ByteStream> take() { return std::move(stream_); }
    bool is_open() const noexcept { return stream_ != nullptr; }
    bool is_used() const noexcept { return is_used_; }
    /// It has ended the connection, or said something behind its answers.
    bool is_stale() const {
        return stream_ != nullptr && (is_used_ ? !is_quiet(*stream_) : has_ended(*stream_));
    }
    void renew(std::unique_ptr<ByteStream> stream) {
        stream_ = std::move(stream);
        is_used_ = false;
    }

  private:
    std::unique_ptr<ByteStream> stream_;
    bool is_used_ = false;
};

std::string egress_authority(const EgressGrant& grant, std::uint16_t usual_port) {
    std::string text = grant.address && grant.address->is_v6() ? '[' + grant.host + ']' : grant.host;
    if (grant.port != usual_port)
        text += ':' + std::to_string(grant.port);
    return text;
}

EgressFlow::EgressFlow(EgressForm form, EgressGrant grant, std::unique_ptr<ByteStream> upstream, Ports ports)
    : form_(form),
      grant_(std::move(grant)),
      upstream_(std::make_shared<Upstream>(std::move(upstream))),
      ports_(std::move(ports)),
      asked_(ports_.report) {}

EgressFlow::~EgressFlow() = default;

base::Task<Relay::Outcome> EgressFlow::async_run(Connection& connection, RequestParser& request,
                                                 const ServerState& state) {
    const std::shared_ptr<const void> open = ports_.open(connection);
    if (form_ == EgressForm::connect)
        co_return co_await async_connect(connection, state);
    const auto relay = exchange(request.request());
    if (relay.has_error()) {
        Outcome refused;
        refused.instead = ports_.refuse(relay.error());
        co_return refused;
    }
    co_return co_await (*relay)->async_run(connection, request, state);
}

Result<std::unique_ptr<Exchange>> EgressFlow::exchange(const Request& request) const {
    // The answer to TRACE would show what is set here; CONNECT would make a tunnel of the upstream's
    // connection, whose requests nobody reads.
    const std::string method(request.method_text);
    if (method == "TRACE" || method == "CONNECT")
        return Error(Errc::method_not_allowed, "This proxy does not pass " + method + " on.");
    auto heads = ports_.make_heads ? ports_.make_heads(request, *asked_)
                                   : Result<std::unique_ptr<HeadPolicy>>(std::make_unique<ForwardHeads>(
                                         egress_authority(grant_, k_http_port)));
    if (heads.has_error())
        return heads.error();
    auto refuse = [this](const Error& error) {
        const bool is_late = error.code() == Errc::deadline_exceeded;
        const bool is_upstream = is_late || error.code() == Errc::upstream_failed;
        const std::string who = egress_authority(grant_, k_http_port);
        return refusal_of(!is_upstream ? error
                                       : Error(error.code(), who + (is_late ? " did not answer in time."
                                                                            : " broke HTTP, or ended its "
                                                                              "connection too early.")));
    };
    auto made = std::make_unique<Exchange>(upstream_, std::move(*heads), std::move(refuse),
                                           ExchangeDeadlines{.idle = base::k_egress_idle_time});
    made->take_turns(ports_.turns);
    return made;
}

base::Task<Relay::Outcome> EgressFlow::async_connect(Connection& client, const ServerState& state) {
    const Io io = co_await client.async_send(k_established);
    if (io != Io::ok)
        co_return closed(200);
    const Way way = co_await async_find_way(client);
    client.clear_deadline();
    Outcome outcome = closed(200);
    if (way == Way::cut) {
        upstream_->take()->close();
        client.cut();
    } else if (way == Way::requests) {
        outcome.after = co_await async_serve_requests(client, state);
    } else if (way == Way::opened) {
        outcome.after = co_await async_serve_opened(client, state);
    } else {
        const auto upstream = std::make_shared<Connection>(upstream_->take(), client);
        upstream->charge_to(client.payer());
        const std::function<void(Traffic)> nobody;
        const TunnelTimes times{base::k_relay_stuck_time, base::k_egress_idle_time};
        co_await async_tunnel(client, *upstream, state, times, nobody, ports_.turns.get(), gate_.get());
        upstream->close();
        if (gate_ != nullptr && gate_->is_shut()) {
            cut(EgressReason::sni_mismatch);
            client.cut();
        }
    }
    co_return outcome;
}

base::Task<EgressFlow::Way> EgressFlow::async_find_way(Connection& client) {
    if (grant_.any_bytes && ports_.tls == nullptr)
        co_return Way::tunnel;
    const auto reader = ports_.make_reader();
    client.set_deadline(base::k_egress_opening_time);
    for (;;) {
        const EgressOpening opening = reader->read(client.input());
        if (opening != EgressOpening::more) {
            const Way way = way_of(opening, *reader);
            if (way == Way::tunnel)
                gate_ = std::make_unique<HelloGate>(
                    reader->size(), ports_.make_reader(),
                    [this](EgressOpening second, const EgressOpeningReader& read) {
                        return is_for_host(second, read);
                    });
            co_return way;
        }
        const Io io = co_await client.async_fill();
        if (io != Io::ok)
            co_return io == Io::deadline || !client.input().empty() ? cut(EgressReason::not_tls) : Way::cut;
    }
}

EgressFlow::Way EgressFlow::cut(EgressReason reason) const {
    if (ports_.report != nullptr)
        ports_.report->deny(reason);
    return Way::cut;
}

bool EgressFlow::is_for_host(EgressOpening opening, const EgressOpeningReader& reader) const {
    if (opening == EgressOpening::no_name)  // a client names no literal (RFC 6066 section 3)
        return grant_.address.has_value();
    return opening == EgressOpening::name && reader.server_name() == grant_.host;
}

EgressFlow::Way EgressFlow::way_of(EgressOpening opening, const EgressOpeningReader& reader) const {
    switch (opening) {
        case EgressOpening::name:
        case EgressOpening::no_name:
            if (!is_for_host(opening, reader))
                return cut(EgressReason::sni_mismatch);
            return ports_.tls == nullptr ? Way::tunnel : Way::opened;
        case EgressOpening::request:
            return grant_.port == k_http_port && ports_.tls == nullptr ? Way::requests
                                                                       : cut(EgressReason::not_tls);
        case EgressOpening::more:
        case EgressOpening::other:
            break;
    }
    return cut(EgressReason::not_tls);
}

base::Task<Relay::After> EgressFlow::async_serve_opened(Connection& client, const ServerState& state) {
    client.start_tls(ports_.tls);
    const Io io = co_await client.async_open();
    if (io != Io::ok) {
        // The usual cause is a program that trusts issuers of its own alone.
        if (ports_.report != nullptr)
            ports_.report->refuse(Error(Errc::invalid_request, "no handshake"));
        client.cut();
        co_return After::close;
    }
    co_return co_await async_serve_requests(client, state);
}

std::unique_ptr<Response> EgressFlow::refusal_of(const Error& error) const {
    if (asked_ != nullptr)
        asked_->refuse(error);
    return ports_.refuse(error);
}

// The rest of the request is not read.
base::Task<Relay::After> EgressFlow::async_refuse(Connection& client, const Request& request,
                                                  const Response& refusal) const {
    std::string text = "HTTP/1.1 " + std::to_string(refusal.status) + ' ' + refusal.phrase +
                       "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
                       std::to_string(refusal.body.size()) + "\r\n\r\n";
    if (request.method_text != "HEAD")
        text += refusal.body;
    const Io io = co_await client.async_send(text);
    co_return io == Io::ok ? After::linger : After::close;
}

// Null: the upstream is connected again.
base::Task<std::unique_ptr<Response>> EgressFlow::async_renew() {
    auto fresh = co_await ports_.reconnect(asked_);
    if (fresh.has_error())
        co_return refusal_of(fresh.error());
    upstream_->renew(std::move(*fresh));
    co_return nullptr;
}

// Some clients open a tunnel for http: addresses, too. The requests in it are read as any other, or Host
// could name another site than the one that is granted.
base::Task<Relay::After> EgressFlow::async_serve_requests(Connection& client, const ServerState& state) {
    RequestParser parser({state.settings.max_header_bytes, 0});
    client.use_buffer(BufferSize::small);
    for (;;) {
        parser.reset();
        const bool is_there = co_await async_read_head(client, parser, state);
        if (!is_there) {
            client.cut();
            co_return After::close;
        }
        parser.stream_body();
        if (ports_.report != nullptr)
            asked_ = ports_.report->tunneled(parser.request().method_text);
        std::unique_ptr<Response> refusal;
        // Before the head is made: the value of a secret waits for no connection.
        if (ports_.reconnect && upstream_->is_stale())
            refusal = co_await async_renew();
        if (refusal != nullptr)
            co_return co_await async_refuse(client, parser.request(), *refusal);
        const auto relay = exchange(parser.request());
        if (relay.has_error()) {
            refusal = refusal_of(relay.error());
            co_return co_await async_refuse(client, parser.request(), *refusal);
        }
        (*relay)->end_with_upstream();
        const bool was_used = upstream_->is_used();
        const Outcome outcome = co_await (*relay)->async_run(client, parser, state);
        if (outcome.instead && !was_used)
            co_return co_await async_refuse(client, parser.request(), *outcome.instead);
        // The upstream may have ended as the request went out: programs try again after a reset.
        if (outcome.instead)
            client.cut();
        if (outcome.instead || outcome.after != After::again)
            co_return outcome.instead ? After::close : outcome.after;
        if (!upstream_->is_open())
            co_return After::close;
        asked_ = ports_.report;
    }
}

// False: the connection ended, or what came is no request.
base::Task<bool> EgressFlow::async_read_head(Connection& client, RequestParser& parser,
                                             const ServerState& state) {
    client.set_deadline(state.settings.idle_deadline);
    bool begun = false;
    for (;;) {
        const auto used = parser.feed(client.input());
        if (used.has_error())
            co_return false;
        client.consume(*used);
        if (parser.head_done())
            break;
        if (!std::exchange(begun, begun || parser.started()) && begun)
            client.set_deadline(state.settings.header_deadline);
        const Io io = co_await client.async_fill();
        if (io != Io::ok)
            co_return false;
    }
    client.clear_deadline();
    co_return true;
}

}  // namespace atl::http
