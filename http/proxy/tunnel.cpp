#include "http/proxy/tunnel.hpp"

#include "core/plain/preview_limits.hpp"
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
    bool ended = false;
    bool pump() {
        const std::string_view input = from.input();
        if (to.has_peer_stopped_reading() && !ended) {
            from.consume(input.size());
            ended = true;
            return true;
        }
        if (!input.empty()) {
            fit_buffer(from);
            const std::size_t sent = to.send_some(input.substr(0, base::k_relay_piece_bytes));
            from.consume(sent);
            return sent > 0;
        }
        if (ended || from.status() == Io::ok)
            return false;
        ended = true;
        to.end_sending();
        return true;
    }
    void arm() {
        if (from.input().empty() && !ended)
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

base::Task<> async_tunnel(Connection& client, Connection& upstream, const ServerState& state,
                          base::Millis stuck, const std::function<void(Traffic)>& told) {
    client.clear_deadline();
    Way up{client, upstream};
    Way down{upstream, client};
    std::size_t moves = 0;
    bool moved_since = false;  // the deadline was set
    bool is_timed = false;
    while (!(up.ended && down.ended) && !is_over(client.status()) && !is_over(upstream.status()) &&
           !state.stopping) {
        const bool moved_up = up.pump();
        const bool moved_down = down.pump();
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
        if (!is_stuck)
            client.clear_deadline();
        else if (!is_timed || moved_since)
            client.set_deadline(stuck);
        is_timed = is_stuck;
        moved_since = false;
        const Io io = co_await client.async_pause();
        if (io == Io::stopped || io == Io::deadline)
            co_return;
    }
}

}  // namespace atl::http
