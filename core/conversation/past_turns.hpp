// The turns before it, for an agent that begins anew: the newest finished turns, read from the log. It reads
// as a follower does, a page a handler and the newest first, until the bound is full. So it waits for events
// that are not committed yet, and a store may answer later. A read that fails or takes too long leaves the
// older turns out: an agent can begin without them. Internal to core/conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/event_log.hpp"
#include "core/conversation/subscription.hpp"

namespace atl::conversation {

/// The most that is read of the log, or the newest turn, if that is longer: tools and thoughts take most of a
/// log, and an agent is not told of them.
inline constexpr std::size_t k_past_read_bytes = 4UL * 1024 * 1024;
/// The longest time for which the start of an agent waits for its past turns.
inline constexpr base::Millis k_past_patience{3000};

class PastTurns {
  public:
    /// `turns`: the text of a JSON array, the oldest turn first; empty if there are none.
    using Done = std::function<void(std::string turns)>;

    /// Calls `done` once, from the loop, which destroys this. If this is destroyed before, `done` is not
    /// called.
    PastTurns(base::Timers& timers, const EventLog& log, std::string conversation_id, Done done);
    ~PastTurns();
    PastTurns(const PastTurns&) = delete;
    PastTurns& operator=(const PastTurns&) = delete;

  private:
    struct PastTurn {
        std::uint64_t turn = 0;
        std::string content;  // JSON text
        std::string text;
        std::optional<std::string> result;
        bool is_complete = false;  // `result` is what the agent said
        bool is_done = false;
    };

    void schedule();
    void step();
    bool open_stretch();
    void take(const Event& event);
    bool keep_stretch();
    static std::string shortened(PastTurn& told);
    void finish();

    base::Timers& timers_;
    const EventLog& log_;
    std::string conversation_id_;
    Done done_;
    EventLog::TurnRange stretch_;         // the stretch that is being read
    std::optional<Subscription> reader_;  // its reader
    std::vector<PastTurn> turns_;         // its turns so far
    std::vector<std::string> kept_;       // turns as JSON text, the newest first
    std::size_t kept_bytes_ = 0;
    std::uint64_t read_bytes_ = 0;
    bool scheduled_ = false;
    base::TimerId patience_ = 0;
    std::shared_ptr<PastTurns*> self_;  // null inside once it is destroyed
};

/// The first line of an agent that begins anew, at most sandbox::k_max_resume_bytes with its end.
std::string resume_command(std::string_view conversation_id, std::uint32_t generation,
                           std::string_view turns);

}  // namespace atl::conversation
