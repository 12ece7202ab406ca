// Bytes between two connections, both ways until both have ended: what follows a 101, or CONNECT.
#pragma once

#include <functional>

#include "core/base/clock.hpp"
#include "core/base/task.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// What went on: bytes of a request or of its answer, or of a tunnel on their way out; or bytes that the
/// client sent through a tunnel.
enum class Traffic : std::uint8_t { served, tunnelled_in };

/// Gives the connection a buffer that fits what it has got now: a long body is read in long pieces, and an
/// idle stream keeps little memory.
void fit_buffer(Connection& from);

/// Whether a connection is of no more use.
inline bool is_over(Io status) noexcept {
    return status == Io::failed || status == Io::stopped;
}

/// Passes bytes until both directions have ended, each as fast as its reader. An idle tunnel may stay; a side
/// that takes nothing, or does not end as the other did, is waited for `stuck` long. `told` may be empty. The
/// connections share a wake (Connection's second constructor), and are not closed. Not cancellable: the
/// client's waits say when it was aborted, and it ends when the server stops.
base::Task<> async_tunnel(Connection& client, Connection& upstream, const ServerState& state,
                          base::Millis stuck, const std::function<void(Traffic)>& told);

}  // namespace atl::http
