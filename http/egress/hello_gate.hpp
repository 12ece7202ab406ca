// A tunnel of TLS between its first ClientHello and the answer to it. A server that answers with a
// HelloRetryRequest (RFC 8446 section 4.1.4) takes the name of the second ClientHello, so that one has to be
// for the same host. Until it is known whether there is a second one, no record that could be it reaches the
// upstream. Hostile input of both sides: what waits is in the connection's buffer, and of the answer 38 bytes
// are kept. Not here: the first ClientHello (egress_flow.hpp), how bytes pass (http/proxy/tunnel.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/egress/egress_parts.hpp"
#include "http/proxy/tunnel.hpp"

namespace atl::http {

class HelloGate final : public TunnelGate {
  public:
    /// True for a ClientHello that is for the host of the tunnel.
    using Judge = std::function<bool(EgressOpening opening, const EgressOpeningReader& reader)>;
    /// `first_bytes`: of the first ClientHello, which passes. `second` has read nothing yet.
    HelloGate(std::size_t first_bytes, std::unique_ptr<EgressOpeningReader> second, Judge is_good);

    std::size_t open_for(std::string_view waiting, bool is_all) override;
    void passed(std::size_t count) override;
    void saw(std::string_view answer) override;
    void saw_end() override;
    /// The second ClientHello is for another host, or is none.
    bool is_shut() const noexcept override { return state_ == State::shut; }

  private:
    enum class State : std::uint8_t {
        first,    // the answer to the first ClientHello is not known
        retried,  // it asks for a second one
        open,
        shut,
    };

    void look(std::string_view waiting, bool is_all);
    void read_header();
    void read_message(std::string_view piece);

    State state_ = State::first;
    std::size_t free_;  // bytes of the client that may pass before the next decision
    std::unique_ptr<EgressOpeningReader> second_;
    const Judge is_good_;
    // The answer of the upstream.
    std::string header_;           // the part of a record's header that has come
    std::size_t record_left_ = 0;  // bytes of the record that have not come
    bool is_handshake_ = false;    // the record is a part of a handshake message
    std::string message_;          // the beginning of the first one
};

}  // namespace atl::http
