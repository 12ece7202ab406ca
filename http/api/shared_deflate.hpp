// The state that a server's compressing WebSockets share: one zlib state for each direction, and the
// compressed form of an event, made once for all its readers. Decides which events are compressed: events of
// a middling size, and not too many a second, since compression costs ten times as much as sending. Other
// events go out uncompressed, which permessage-deflate allows for any message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/conversation/types.hpp"
#include "http/websocket/deflate.hpp"

namespace atl::http {

/// A budget: a rate in bytes a second, and a burst after a rest.
class ByteBudget {
  public:
    ByteBudget(std::size_t bytes_per_s, std::size_t most_bytes) noexcept
        : bytes_per_s_(bytes_per_s), most_bytes_(most_bytes), left_bytes_(most_bytes) {}
    /// Takes `bytes` from the budget. False, and nothing is taken, if less is left. `now` never goes back.
    bool take(std::size_t bytes, base::SteadyTime now) noexcept;

  private:
    std::size_t bytes_per_s_;
    std::size_t most_bytes_;
    std::size_t left_bytes_;
    base::SteadyTime filled_at_{};
};

class SharedDeflate {
  public:
    SharedDeflate();

    Inflater& inflater() noexcept { return inflater_; }

    struct Payload {
        std::string_view bytes;        // of a compressed message, as long as the event; empty: send its JSON
        std::size_t worked_bytes = 0;  // of JSON that were compressed for it just now
    };
    Payload payload_of(const conversation::Event& event, base::SteadyTime now);

  private:
    Inflater inflater_;
    Deflater deflater_;
    ByteBudget budget_;
    std::string scratch_;
};

}  // namespace atl::http
