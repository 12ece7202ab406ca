#include "http/egress/egress_flow.hpp"

#include <utility>

#include "core/plain/egress_limits.hpp"
#include "http/proxy/tunnel.hpp"
#include "http/server/server_state.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::uint16_t k_http_port = 80;
constexpr std::string_view k_established = "HTTP/1.1 200 Connection Established\r\n\r\n";

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
      ports_(std::move(ports)) {}

EgressFlow::~EgressFlow() = default;

base::Task<Relay::Outcome> EgressFlow::async_run(Connection& connection, RequestParser& request,
                                                 const ServerState& state) {
    const std::shared_ptr<const void> open = ports_.open(connection);
    if (form_ == EgressForm::connect)
        co_return co_await async_connect(connection, state);
    const auto relay = exchange();
    co_return co_await relay->async_run(connection, request, state);
}

std::unique_ptr<Exchange> EgressFlow::exchange() const {
    auto refuse = [this](const Error& error) {
        if (ports_.report != nullptr)
            ports_.report->refuse(error);
        const bool is_late = error.code() == Errc::deadline_exceeded;
        const bool is_upstream = is_late || error.code() == Errc::upstream_failed;
        const std::string who = egress_authority(grant_, k_http_port);
        return ports_.refuse(!is_upstream ? error
                                          : Error(error.code(), who + (is_late ? " did not answer in time."
                                                                               : " broke HTTP, or ended its "
                                                                                 "connection too early.")));
    };
    auto heads = ports_.make_heads ? ports_.make_heads()
                                   : std::make_unique<ForwardHeads>(egress_authority(grant_, k_http_port));
    auto made = std::make_unique<Exchange>(upstream_, std::move(heads), std::move(refuse),
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
    } else {
        const auto upstream = std::make_shared<Connection>(upstream_->take(), client);
        upstream->charge_to(client.payer());
        const std::function<void(Traffic)> nobody;
        const TunnelTimes times{base::k_relay_stuck_time, base::k_egress_idle_time};
        co_await async_tunnel(client, *upstream, state, times, nobody, ports_.turns.get());
        upstream->close();
    }
    co_return outcome;
}

base::Task<EgressFlow::Way> EgressFlow::async_find_way(Connection& client) {
    if (grant_.any_bytes)
        co_return Way::tunnel;
    const auto reader = ports_.make_reader();
    client.use_buffer(BufferSize::full);
    client.set_deadline(base::k_egress_opening_time);
    for (;;) {
        const EgressOpening opening = reader->read(client.input());
        if (opening != EgressOpening::more)
            co_return way_of(opening, *reader);
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

EgressFlow::Way EgressFlow::way_of(EgressOpening opening, const EgressOpeningReader& reader) const {
    switch (opening) {
        case EgressOpening::name:
            return reader.server_name() == grant_.host ? Way::tunnel : cut(EgressReason::sni_mismatch);
        case EgressOpening::no_name:  // of a literal no client sends one (RFC 6066 section 3)
            return grant_.address ? Way::tunnel : cut(EgressReason::sni_mismatch);
        case EgressOpening::request:
            return grant_.port == k_http_port ? Way::requests : cut(EgressReason::not_tls);
        case EgressOpening::more:
        case EgressOpening::other:
            break;
    }
    return cut(EgressReason::not_tls);
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
        const auto relay = exchange();
        relay->end_with_upstream();
        const Outcome outcome = co_await relay->async_run(client, parser, state);
        if (outcome.instead)
            client.cut();
        if (outcome.instead || outcome.after != After::again)
            co_return outcome.instead ? After::close : outcome.after;
        if (!upstream_->is_open())
            co_return After::close;
    }
}

// False: the connection ended, or what came is no request that passes.
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
    const std::string_view method = parser.request().method_text;
    // CONNECT would make a tunnel of the upstream's connection, whose requests nobody reads.
    co_return method != "TRACE" && method != "CONNECT";
}

}  // namespace atl::http
