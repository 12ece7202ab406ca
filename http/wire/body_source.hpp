// A body as pieces, in either direction: what a client sends, or what a response consists of. Whoever reads
// decides when, so nothing piles up behind a slow reader. Not here: events, which wait for a wake and have
// heartbeats (BodyStream).
#pragma once

#include <cstddef>
#include <span>

#include "core/base/error.hpp"
#include "core/base/task.hpp"

namespace atl::http {

class BodySource {
  public:
    virtual ~BodySource() = default;
    /// Reads at least one byte into `room`, which must not be empty and must live until then, or gives 0 at
    /// the end of the body. One read at a time. An error is final: every later call gives it again. Not
    /// cancellable: it ends by itself, with an error, when the server gives up on the connection.
    virtual base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) = 0;
};

}  // namespace atl::http
