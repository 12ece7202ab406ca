// What the compressing WebSockets of a server share: one zlib state for each direction, and the compressed
// forms of the newest events that were read, each made once for all its readers. Decides what compression is
// worth: events of a middling size, and not too many a second, since it costs ten times what sending does. An
// event that is not compressed goes out as it is, which permessage-deflate allows for any message.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

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
        std::string_view bytes;        // of a compressed message, until the next call; empty: send its JSON
        std::size_t worked_bytes = 0;  // of JSON that were compressed for it just now
    };
    Payload payload_of(const conversation::EventPtr& event, base::SteadyTime now);

  private:
    /// The compressed form of an event, empty where that is not worth it.
    struct Form {
        std::weak_ptr<const conversation::Event> event;
        std::string bytes;
    };

    const Form* find(const conversation::EventPtr& event) const;
    const Form& keep(const conversation::EventPtr& event, std::string bytes);

    Inflater inflater_;
    Deflater deflater_;
    ByteBudget budget_;
    std::string scratch_;
    // By the event's address, which a later event may have: the weak pointer tells them apart.
    std::unordered_map<const conversation::Event*, Form> forms_;
    std::deque<const conversation::Event*> order_;  // of forms_, the oldest first
    std::size_t kept_bytes_ = 0;                    // of the compressed forms
};

}  // namespace atl::http
