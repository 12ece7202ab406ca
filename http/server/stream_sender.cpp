#include "http/server/stream_sender.hpp"

#include <algorithm>
#include <memory>

#include "http/wire/heartbeat.hpp"

namespace atl::http {
namespace {

enum class Wait : std::uint8_t { pull, flush_head, heartbeat, expired, stopping, broken };

// Moves `payload` to the end of `out` in the framing of the response.
void add_payload(std::string& out, std::string& payload, Framing framing) {
    if (framing == Framing::chunked)
        write_chunk(out, payload);
    else
        out += payload;
    payload.clear();
}

bool has_expired(const StreamJob& job, const ServerState& state) {
    return job.expires_at != base::SteadyTime::max() && state.clock.steady_now() >= job.expires_at;
}

base::Millis quiet_time(Wait last, bool head_sent, const ServerState& state) {
    const Settings& settings = state.settings;
    if (!head_sent)
        return settings.stream_head_delay;
    return last == Wait::heartbeat ? settings.heartbeat_interval
                                   : first_heartbeat(settings.heartbeat_interval, state.clock.steady_now());
}

base::Millis deadline_after(Wait last, bool head_sent, const StreamJob& job, const ServerState& state) {
    const base::Millis quiet = quiet_time(last, head_sent, state);
    if (job.expires_at == base::SteadyTime::max())
        return quiet;
    return std::min(quiet, std::chrono::ceil<base::Millis>(job.expires_at - state.clock.steady_now()));
}

// Waits until there is something to do for the stream, until `deadline` from now. `woken` is set by the
// stream's wake.
base::Task<Wait> async_wait_for_work(Connection& connection, const bool& woken, const ServerState& state,
                                     base::Millis deadline, bool head_sent) {
    connection.set_deadline(deadline);
    while (!woken) {
        if (state.stopping)
            co_return Wait::stopping;
        const Io io = co_await connection.async_idle();
        if (io == Io::deadline)
            co_return head_sent ? Wait::heartbeat : Wait::flush_head;
        if (io != Io::ok)
            co_return Wait::broken;
    }
    connection.clear_deadline();
    co_return Wait::pull;
}

// Lets other handlers of the loop run: a long replay to a fast reader would otherwise never give way.
base::Task<Wait> async_yield_stream(Connection& connection, const ServerState& state) {
    connection.wake()->post();
    const Io io = co_await connection.async_idle();
    if (io != Io::ok && io != Io::deadline)
        co_return Wait::broken;
    co_return state.stopping ? Wait::stopping : Wait::pull;
}

}  // namespace

base::Task<Io> async_send_stream(Connection& connection, StreamJob& job, const ServerState& state) {
    const auto woken = std::make_shared<bool>(false);
    job.stream.on_wake([woken, wake = connection.wake()] {
        *woken = true;
        wake->post();
    });
    std::string out = std::move(job.head);
    std::string payload;
    bool head_sent = false;
    auto wait = Wait::pull;
    for (;;) {
        auto stream_state = BodyStream::State::waiting;
        if (wait != Wait::stopping && has_expired(job, state))
            wait = Wait::expired;
        if (wait == Wait::pull) {
            *woken = false;
            stream_state = job.stream.pull(payload, base::k_replay_batch_bytes);
        } else if (wait == Wait::heartbeat) {
            job.stream.heartbeat(payload);
        } else if (wait == Wait::stopping || wait == Wait::expired) {
            job.stream.end_early(
                wait == Wait::expired ? base::Errc::token_expired : base::Errc::shutting_down, payload);
            stream_state = BodyStream::State::finished;
        }
        const bool finished = stream_state == BodyStream::State::finished;
        const bool send_now = !payload.empty() || finished || wait == Wait::flush_head;
        add_payload(out, payload, job.framing);
        if (finished && job.framing == Framing::chunked)
            out += k_last_chunk;
        if (send_now) {
            const Io io = co_await connection.async_send(out);
            out.clear();
            head_sent = true;
            if (io != Io::ok || finished)
                co_return io;
        }
        if (stream_state == BodyStream::State::more)
            wait = co_await async_yield_stream(connection, state);
        else
            wait = co_await async_wait_for_work(connection, *woken, state,
                                                deadline_after(wait, head_sent, job, state), head_sent);
        if (wait == Wait::broken)
            co_return Io::failed;
    }
}

}  // namespace atl::http
