// A body as pieces, in either direction: what a client sends, or what a response consists of. Whoever reads
// decides when, so nothing piles up behind a slow reader. Not here: events, which wait for a wake and have
// heartbeats (BodyStream).
#pragma once

#include <cstddef>
#include <functional>
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
    /// True if the next read gives 0 at once; false where that is not known.
    virtual bool is_at_end() const { return false; }
    /// From now on a read that waits for a peer ends with an error once `is_over()`, which is asked inside
    /// async_read_some() only, at each wake of the connection (RequestContext::waker()). For who knows better
    /// than that error why nobody wants the rest. A source without a peer may ignore it.
    virtual void give_up_if(std::function<bool()> /*is_over*/) {}
};

}  // namespace atl::http
