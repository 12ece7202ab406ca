#include "http/proxy/tunnel.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "http/server/server_state.hpp"

namespace atl::http {
namespace {

// Reads go into a small buffer until one fills it, and into a large one until one leaves most of it empty.
constexpr std::size_t k_small_is_full_bytes = 3UL * 1024;
constexpr std::size_t k_small_bytes = 4UL * 1024;
constexpr std::size_t k_large_in_use_bytes = 16UL * 1024;

struct Way {
    Connection& from;
    Connection& to;
    TunnelGate* asked = nullptr;  // how much may pass
    TunnelGate* told = nullptr;   // all that has passed
    bool ended = false;
    bool is_held = false;  // by the gate
    bool pump() {
        const std::string_view input = from.input();
        is_held = false;
        if (to.has_peer_stopped_reading() && !ended) {
            from.consume(input.size());
            ended = true;
            return true;
        }
        if (!input.empty()) {
            const std::size_t open =
                asked == nullptr ? input.size() : asked->open_for(input, from.status() != Io::ok);
            is_held = open < input.size();
            if (open == 0)
                return false;
            fit_buffer(from);
            const std::size_t sent = to.send_some(input.substr(0, std::min(open, base::k_relay_piece_bytes)));
            if (asked != nullptr)
                asked->passed(sent);
            if (told != nullptr)
                told->saw(input.substr(0, sent));
            from.consume(sent);
            return sent > 0;
        }
        if (ended || from.status() == Io::ok)
            return false;
        ended = true;
        if (told != nullptr)
            told->saw_end();
        to.end_sending();
        return true;
    }
    void arm() {
        if ((from.input().empty() || is_held) && !ended)
            from.begin_read();
    }
};

}  // namespace

void fit_buffer(Connection& from) {
    const std::size_t size = from.input().size();
    const bool is_long =
        size >= k_large_in_use_bytes || (size >= k_small_is_full_bytes && size <= k_small_bytes);
    from.use_buffer(is_long ? BufferSize::full : BufferSize::small);
}

RelayTurns::RelayTurns(const base::Executor& executor, std::size_t bytes)
    : executor_(executor),
      queue_(boost::asio::use_service<base::DeferQueue>(executor.context())),
      bytes_(bytes) {}

bool RelayTurns::may_move(const std::shared_ptr<WakeEvent>& wake) {
    if (granted_ == wake) {
        granted_ = nullptr;
        return true;
    }
    const bool is_waiting = std::find(waiting_.begin(), waiting_.end(), wake) != waiting_.end();
    if (!is_waiting && left_ > 0 && granted_ == nullptr && waiting_.empty())
        return true;
    if (!is_waiting)
        waiting_.push_back(wake);
    begin_next();
    return false;
}

void RelayTurns::moved(std::size_t bytes) {
    left_ -= std::min(left_, bytes);
    if (bytes > 0)
        begin_next();
}

// After the wake that was posted before, and then behind all that the loop has to do now.
void RelayTurns::begin_next() {
    if (std::exchange(is_next_begun_, true))
        return;
    queue_.add(
        [self = shared_from_this()] { boost::asio::post(self->executor_, [self] { self->refill(); }); });
}

void RelayTurns::refill() {
    is_next_begun_ = false;
    left_ = bytes_;
    granted_ = nullptr;
    if (waiting_.empty())
        return;
    granted_ = std::move(waiting_.front());
    waiting_.pop_front();
    granted_->post();
    begin_next();
}

bool RelayTurn::may_move() {
    if (turns_ == nullptr)
        return true;
    const std::uint64_t now = sent();
    turns_->moved(now - std::exchange(counted_, now));
    return turns_->may_move(client_.wake());
}

base::Task<> async_tunnel(Connection& client, Connection& upstream, const ServerState& state,
                          TunnelTimes times, const std::function<void(Traffic)>& told, RelayTurns* turns,
                          TunnelGate* gate) {
    client.clear_deadline();
    Way up{client, upstream, gate};
    Way down{upstream, client, nullptr, gate};
    RelayTurn turn(turns, client, upstream);
    std::size_t moves = 0;
    bool moved_since = false;  // the deadline was set
    base::Millis timed{0};
    while (!(up.ended && down.ended) && !is_over(client.status()) && !is_over(upstream.status()) &&
           !state.stopping) {
        const bool may_move = turn.may_move();
        const bool moved_up = may_move && up.pump();
        if (gate != nullptr && gate->is_shut())
            co_return;
        const bool moved_down = may_move && down.pump();
        const bool moved = moved_up || moved_down;
        if (moved && told)
            told(moved_up ? Traffic::tunnelled_in : Traffic::served);
        moved_since = moved_since || moved;
        if (moved && ++moves % (base::k_relay_turn_bytes / base::k_relay_piece_bytes) != 0)
            continue;
        if (moved)
            client.wake()->post();
        up.arm();
        down.arm();
        const bool is_stuck = up.ended || down.ended || !client.input().empty() || !upstream.input().empty();
        const base::Millis time = is_stuck ? times.stuck : times.idle;
        if (time == base::Millis(0))
            client.clear_deadline();
        else if (moved_since || time != timed)
            client.set_deadline(time);
        timed = time;
        moved_since = false;
        const Io io = co_await client.async_pause();
        if (io == Io::stopped || io == Io::deadline)
            co_return;
    }
}

}  // namespace atl::http
