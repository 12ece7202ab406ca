// One conversation as the manager holds it: the record, the machine, the log, the open turn, who waits for
// what. Also the observer of its query: it writes what the agent says into the log, within the turn's bound.
// Internal to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/conversation/event_log.hpp"
#include "core/conversation/machine.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::conversation {

/// The open turn, or the last one.
struct OpenTurn {
    TurnRecord record;
    std::string content;  // until it has been sent
    std::uint64_t logged_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    std::size_t complaints = 0;
    bool truncated = false;
    bool last_was_error = false;
    base::SteadyTime started{};
};

/// What a conversation tells the manager of its query, for the machine.
class TurnEvents {
  public:
    virtual ~TurnEvents() = default;
    /// The agent says that the turn is over; the limit that its sandbox is ended for, if there is one.
    virtual std::optional<sandbox::Exit> limit_at_end(const std::string& id) = 0;
    virtual void turn_done(const std::string& id) = 0;
    virtual void query_ended(const std::string& id, sandbox::QueryEnd end, std::string_view detail) = 0;
};

struct Conversation final : sandbox::QueryObserver {
    Conversation(TurnEvents& to, Record of, const LogBounds& with)
        : events(to), record(std::move(of)), bounds(with) {}

    TurnEvents& events;
    Record record;
    LogBounds bounds;
    sandbox::Record sandbox_record;  // as last known; outlives the sandbox
    Machine machine;
    Status counted_as = Status::starting;  // in the manager's stats
    bool counts = false;                   // for the bounds (roster.hpp)
    std::shared_ptr<EventLog> log;
    OpenTurn turn;
    std::unique_ptr<sandbox::Query> query;  // of the open turn, or of one that ended with `done`
    base::TimerId grace_timer = 0;
    base::TimerId turn_timer = 0;
    base::TimerId life_timer = 0;  // idle and time to live
    base::SteadyTime born{};       // created_at on the clock that never jumps
    base::SteadyTime last_activity{};
    base::SteadyTime frozen_at{};
    base::Error start_error;  // of the last start that failed
    bool erasing = false;
    std::vector<Manager::Reply<View>> start_waiters;
    std::vector<Manager::Reply<View>> pause_waiters;
    std::vector<Manager::Reply<void>> removal_waiters;

    /// Appends an event of the open turn that the server itself writes.
    void append_of_turn(EventType type, std::string_view data);

    void on_event(const sandbox::AgentEvent& event) override;
    void on_bad_line(std::string_view what) override;
    void on_end(sandbox::QueryEnd end, std::string_view detail) override;
    bool truncated() const override { return turn.truncated; }
    bool congested() const override { return log->congested(); }

  private:
    bool admit(EventType type, std::size_t bytes);
};

/// {"code":…,"message":…} as text; what is not UTF-8 in `message` is replaced.
std::string error_data(std::string_view code, std::string_view message);

}  // namespace atl::conversation
