// The open turn of a conversation, as a part of it: its record, its query and its deadlines. It writes the
// agent's output into the log within the turn's bound. Its events go to the owner, for its machine. Internal
// to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/conversation/event_log.hpp"
#include "core/conversation/machine.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::conversation {

/// The conversation as its turn sees it.
class TurnOwner {
  public:
    /// The agent says that the turn is over. Returns the limit that its sandbox is ended for, if there is
    /// one.
    virtual std::optional<sandbox::Exit> limit_at_end() = 0;
    /// The channel to the generation; null unless it is ready.
    virtual sandbox::Channel* channel() = 0;
    virtual const Machine& turn_machine() const = 0;
    /// no: the turn's bound dropped it.
    enum class Logged : std::uint8_t { no, yes };
    /// `data`: of a permission_request.
    virtual void permission_asked(std::string_view data, Logged logged) = 0;
    /// `data`: of a permission_cancel.
    virtual void permission_cancelled(std::string_view data) = 0;
    /// The agent says `done`, which is logged next.
    virtual void turn_ends() = 0;
    virtual void turn_done() = 0;
    virtual void query_ended(sandbox::QueryEnd end, std::string_view detail) = 0;
    virtual void turn_timed_out() = 0;
    virtual void interrupt_grace_passed() = 0;

  protected:
    ~TurnOwner() = default;
};

class Turn final : private sandbox::QueryObserver {
  public:
    Turn(Context& context, TurnOwner& owner, const Record& conversation, EventLog& log);
    ~Turn() override;

    /// Opens the turn of this number: writes its turn_start. `reply` gets its ticket.
    void open(Message message, std::uint64_t number, MessageReply when, const Reply<TurnTicket>& reply);
    /// Answers a message whose Idempotency-Key started a turn before; `reply` is called as by open(), once
    /// that turn is committed. Errors: idempotency_key_reused (for a message of another digest),
    /// storage_failed. For any other message it calls `is_new`, once, from inside the call if the store
    /// answers at once; then no turn of this key was started before that. `is_new` is called also when the
    /// turn's owner is gone.
    void replay(const std::shared_ptr<const Message>& message, const Reply<TurnTicket>& reply,
                const std::function<void()>& is_new);
    /// Takes over a turn that the store holds as open, and appends its end: the server was restarted.
    void restore(const TurnRecord& record);
    /// Gives the message to the agent; with an Idempotency-Key only once the turn is committed.
    void send();
    void interrupt();
    void drop_query();
    /// Its last event is appended: this persists it.
    void close();
    void arm_grace(base::Millis wait);
    void disarm_grace();
    void cancel_timers();

    /// Appends an event of the turn that the server itself writes.
    void append(EventType type, std::string_view data);
    /// The same within the turn's bound: beyond it the event is dropped, as one of the agent's is.
    TurnOwner::Logged append_admitted(EventType type, std::string_view data);
    const TurnRecord& record() const noexcept { return record_; }
    /// The open turn as clients see it. Precondition: a turn is open.
    OpenTurn view() const;
    bool last_was_error() const noexcept { return last_was_error_; }

  private:
    void on_event(const sandbox::AgentEvent& event) override;
    void on_bad_line(std::string_view what) override;
    void on_end(sandbox::QueryEnd end, std::string_view detail) override;
    bool truncated() const override { return truncated_; }
    bool congested() const override { return log_.congested(); }

    void answer_again(const TurnRecord& record, const Message& message, const Reply<TurnTicket>& reply);
    void send_query();
    bool is_running(std::uint64_t turn) const;
    bool admit(EventType type, std::size_t bytes);

    Context& context_;
    TurnOwner& owner_;
    const Record& conversation_;
    EventLog& log_;
    TurnRecord record_;
    std::string content_;            // until it has been sent
    std::uint64_t keyed_batch_ = 0;  // the journal's batch with the last turn that a key started
    std::uint64_t logged_bytes_ = 0;
    std::uint64_t dropped_bytes_ = 0;
    std::size_t complaints_ = 0;
    bool truncated_ = false;
    bool last_was_error_ = false;
    base::SteadyTime started_{};
    std::optional<base::Millis> first_event_;  // of the agent, after `started_`
    base::WallTime started_at_{};
    EventPtr start_;  // unless it is long
    base::TimerId grace_timer_ = 0;
    base::TimerId limit_timer_ = 0;
    std::unique_ptr<sandbox::Query> query_;  // the open turn's, or that of a turn that ended with `done`
    std::shared_ptr<Turn*> self_;            // null inside once it is destroyed
};

}  // namespace atl::conversation
