// Bytes between two connections, both ways until both have ended: what follows a 101, or CONNECT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"
#include "core/plain/preview_limits.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The bytes that went on: those of a request or of its answer, or of a tunnel on their way out; or bytes
/// that the client sent through a tunnel.
enum class Traffic : std::uint8_t { served, tunnelled_in };

/// Gives the connection a buffer that fits what it has got now: a long body is read in long pieces, and an
/// idle stream keeps little memory.
void fit_buffer(Connection& from);

/// True if a connection is of no more use.
inline bool is_over(Io status) noexcept {
    return status == Io::failed || status == Io::stopped;
}

/// The turns of all relays of one sandbox: together they move so many bytes in a turn of the loop, a little
/// more at most. So however many they are, other sandboxes and clients wait for them no longer than for one.
class RelayTurns : public std::enable_shared_from_this<RelayTurns> {
  public:
    /// `bytes` of a turn, at least 1.
    explicit RelayTurns(const base::Executor& executor, std::size_t bytes = base::k_relay_piece_bytes);

    /// True if a relay may move bytes now. False: `wake` is posted when its turn comes, after those that have
    /// asked before; a relay that does not ask then has lost its turn.
    bool may_move(const std::shared_ptr<WakeEvent>& wake);
    /// Counts what a relay has moved.
    void moved(std::size_t bytes);

  private:
    void begin_next();
    void refill();

    base::Executor executor_;
    base::DeferQueue& queue_;
    const std::size_t bytes_;
    std::size_t left_ = bytes_;  // of this turn
    bool is_next_begun_ = false;
    std::shared_ptr<WakeEvent> granted_;  // this turn is its own; null: of any relay
    std::deque<std::shared_ptr<WakeEvent>> waiting_;
};

/// A relay's part in the turns. Its two connections share a wake; they and the turns outlive it.
class RelayTurn {
  public:
    /// With null it may always move bytes.
    RelayTurn(RelayTurns* turns, const Connection& client, const Connection& upstream)
        : turns_(turns), client_(client), upstream_(upstream), counted_(sent()) {}
    /// Counts what was sent since the last call. As RelayTurns::may_move().
    bool may_move();

  private:
    std::uint64_t sent() const { return client_.sent_bytes() + upstream_.sent_bytes(); }

    RelayTurns* const turns_;
    const Connection& client_;
    const Connection& upstream_;
    std::uint64_t counted_;
};

struct TunnelTimes {
    base::Millis stuck;    // for a side that takes nothing, or does not end as the other did
    base::Millis idle{0};  // without a byte in either direction; 0: it may stay
};

/// Holds bytes of a tunnel's client back.
class TunnelGate {
  public:
    virtual ~TunnelGate() = default;
    /// So many of the client's bytes may pass now. `waiting`: all that have come and not passed; `is_all`: no
    /// more come.
    virtual std::size_t open_for(std::string_view waiting, bool is_all) = 0;
    /// So many of them have passed.
    virtual void passed(std::size_t count) = 0;
    /// These bytes of the upstream have passed, in their order.
    virtual void saw(std::string_view answer) = 0;
    /// The upstream sends nothing more.
    virtual void saw_end() = 0;
    /// The tunnel has to end.
    virtual bool is_shut() const noexcept = 0;
};

/// Passes bytes until both directions have ended, each as fast as its reader, or one of the times is over, or
/// the gate is shut. `told` may be empty, `turns` and `gate` null. The connections share a wake (Connection's
/// second constructor), and are not closed. Not cancellable: the client's waits say when it was aborted, and
/// it ends when the server stops.
base::Task<> async_tunnel(Connection& client, Connection& upstream, const ServerState& state,
                          TunnelTimes times, const std::function<void(Traffic)>& told,
                          RelayTurns* turns = nullptr, TunnelGate* gate = nullptr);

}  // namespace atl::http
