#include "core/conversation/turn.hpp"

#include <cstdlib>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/committed_reply.hpp"
#include "core/conversation/digest.hpp"
#include "core/conversation/event_json.hpp"
#include "core/conversation/journal.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {
namespace {

namespace evt = base::evt;

// The cost of an event in the log beyond its data.
constexpr std::size_t k_envelope_bytes = 96;
// The room that a truncated turn keeps for telling how it ended.
constexpr std::size_t k_closing_bytes = 64 * 1024;
// An event of an agent that is not logged: what follows from it is.
constexpr std::string_view k_permission_cancel = "permission_cancel";

/// True if the log gets the times of turns, by the variable that agents' adapters read, too.
bool tells_times() {
    static const bool is_set = [] {
        const char* const value = std::getenv("ASH_DEBUG_TIMING");
        return value != nullptr && std::string_view(value) == "1";
    }();
    return is_set;
}

void tell_times(const base::LogLine& line) {
    tells_times() ? line.info() : line.debug();
}

}  // namespace

Turn::Turn(Context& context, TurnOwner& owner, const Record& conversation, EventLog& log)
    : context_(context),
      owner_(owner),
      conversation_(conversation),
      log_(log),
      self_(std::make_shared<Turn*>(this)) {}

Turn::~Turn() {
    *self_ = nullptr;
    cancel_timers();
}

void Turn::open(Message message, std::uint64_t number, MessageReply when, const Reply<TurnTicket>& reply) {
    record_ = TurnRecord{};
    record_.conversation_key = conversation_.key;
    record_.turn = number;
    record_.first_seq = log_.last_seq() + 1;
    if (!message.idempotency_key.empty()) {
        record_.content_digest = digest(message.content);
        record_.idempotency_key = message.idempotency_key;
        keyed_batch_ = context_.journal.batch_number();
    }
    // The bound of a turn is for the agent's output. The commit takes along what the agent says at once.
    start_ = log_.append(EventType::turn_start, number, start_data(message), Journal::When::lazily);
    if (start_->json.size() > base::k_kept_start_bytes)
        start_ = nullptr;
    content_ = std::move(message.content);
    logged_bytes_ = dropped_bytes_ = 0;
    complaints_ = 0;
    truncated_ = last_was_error_ = false;
    started_ = context_.clock.steady_now();
    started_at_ = context_.clock.wall_now();
    ++context_.stats.turns_started;
    first_event_.reset();
    if (tells_times() || base::logs_debug())
        tell_times(base::LogLine(evt::turn_started)
                       .field("conv", conversation_.id)
                       .field("turn", turn_name(number)));

    TurnTicket ticket;
    ticket.turn = record_.turn;
    ticket.after = record_.first_seq - 1;
    if (when == MessageReply::at_once && record_.idempotency_key.empty()) {
        // The record is written with its turn_start: a start of the server looks for open turns by their
        // rows.
        context_.journal.add(PutTurn{record_}, Journal::When::lazily);
        reply(ticket);
    } else {
        context_.journal.add(PutTurn{record_});
        // A turn with a key is run when it is stored, any other at once.
        const std::string fate =
            record_.idempotency_key.empty()
                ? "it runs, and its events can be read when the database takes writes again"
                : "it has not run, and runs when the database takes writes again, unless it "
                  "is interrupted; the same Idempotency-Key finds it then";
        reply_after_commit<TurnTicket>(
            context_.journal, reply, [ticket] { return ticket; },
            base::Error(base::Errc::storage_failed,
                        "the database does not take the turn " + turn_name(number) + ": " + fate));
    }
    if (context_.settings.turn_limit.count() > 0) {
        limit_timer_ = context_.timers.arm(context_.settings.turn_limit, [this] {
            limit_timer_ = 0;
            owner_.turn_timed_out();
        });
    }
}

void Turn::replay(const std::shared_ptr<const Message>& message, const Reply<TurnTicket>& reply,
                  const std::function<void()>& is_new) {
    if (record_.idempotency_key == message->idempotency_key)
        return answer_again(record_, *message, reply);
    // The last turn that a key started is over already, and the store does not know it yet.
    if (!context_.journal.is_committed(keyed_batch_)) {
        const auto is_answered = std::make_shared<bool>(false);
        return context_.journal.answer_after_commit(
            [self = self_, message, reply, is_new, is_answered] {
                if (!*is_answered)
                    *self == nullptr ? is_new() : (*self)->replay(message, reply, is_new);
            },
            [reply, is_answered] {
                *is_answered = true;
                reply(base::Error(
                    base::Errc::storage_failed,
                    "the database refuses writes: the message was not taken; send it again later"));
            });
    }
    auto answer = [self = self_, message, reply, is_new,
                   known = keyed_batch_](const base::Result<TurnRecord>& found) {
        if (*self == nullptr)
            return is_new();
        Turn& turn = **self;
        if (!found)
            return turn.context_.timers.defer([reply, error = found.error()] { reply(error); });
        if (found->turn != 0)
            return turn.answer_again(*found, *message, reply);
        // A key started a turn after the store looked: perhaps this key.
        if (turn.keyed_batch_ != known)
            return turn.replay(message, reply, is_new);
        is_new();
    };
    context_.store.find_turn(conversation_.key, message->idempotency_key, std::move(answer));
}

void Turn::answer_again(const TurnRecord& record, const Message& message, const Reply<TurnTicket>& reply) {
    if (record.content_digest != digest(message.content))
        return context_.timers.defer([reply] {
            reply(base::Error(base::Errc::idempotency_key_reused,
                              "this Idempotency-Key was used for another message"));
        });
    TurnTicket ticket;
    ticket.turn = record.turn;
    ticket.after = record.first_seq - 1;
    ticket.replayed = true;
    reply_after_commit<TurnTicket>(
        context_.journal, reply, [ticket] { return ticket; },
        base::Error(base::Errc::storage_failed, "the database does not take the turn " +
                                                    turn_name(record.turn) +
                                                    " of this Idempotency-Key; ask again later"));
}

OpenTurn Turn::view() const {
    return {record_.turn, started_at_, record_.first_seq, start_};
}

void Turn::restore(const TurnRecord& record) {
    record_ = record;
    append(EventType::error, error_data("server_restart", "the server was restarted"));
    append(EventType::done, "{}");
}

bool Turn::is_running(std::uint64_t turn) const {
    return record_.turn == turn && owner_.turn_machine().turn_running();
}

void Turn::send() {
    if (record_.idempotency_key.empty())
        return send_query();
    // A retry of its message must find the turn.
    context_.journal.after_commit([self = self_, turn = record_.turn] {
        if (*self != nullptr && (*self)->is_running(turn))
            (*self)->send_query();
    });
}

void Turn::send_query() {
    sandbox::Channel* const channel = owner_.channel();
    // The sandbox went down between the commit and now; its exit ends the turn through the grace timer.
    if (channel == nullptr)
        return owner_.query_ended(sandbox::QueryEnd::connect_failed, "the sandbox went down");
    const std::string content = std::exchange(content_, {});
    if (context_.sandboxes.is_crowded(conversation_.sandbox_id))
        channel->end_stray_processes();
    query_ = channel->query(turn_name(record_.turn), content, "{}", *this);
}

void Turn::interrupt() {
    sandbox::Channel* const channel = owner_.channel();
    if (channel == nullptr)
        return;
    const std::uint64_t turn = record_.turn;
    channel->interrupt(turn_name(turn), [self = self_, turn](const base::Result<void>& done) {
        if (done || *self == nullptr)
            return;
        // The guest has not seen the query yet: the two go by different connections. Grace bounds the
        // retries.
        (*self)->context_.timers.arm(base::k_interrupt_retry, [self, turn] {
            if (*self != nullptr && (*self)->is_running(turn) &&
                (*self)->owner_.turn_machine().interrupting())
                (*self)->interrupt();
        });
    });
}

void Turn::drop_query() {
    if (!query_)
        return;
    // The destruction is deferred: this may run inside a callback of the query itself.
    context_.timers.defer([query = std::shared_ptr<sandbox::Query>(std::move(query_))] {});
}

void Turn::close() {
    context_.timers.cancel(std::exchange(limit_timer_, 0));
    start_ = nullptr;
    record_.last_seq = log_.last_seq();
    record_.bytes = log_.close_turn();
    context_.journal.add_lazily(PutTurn{record_});
    const auto took = context_.clock.steady_now() - started_;
    // A turn of an earlier run began at no time that this run knows.
    if (started_ != base::SteadyTime{})
        context_.stats.turn_duration.add(took);
    if (tells_times() || base::logs_debug()) {
        base::LogLine line(evt::turn_ended);
        line.field("conv", conversation_.id)
            .field("turn", turn_name(record_.turn))
            .field("bytes", static_cast<std::int64_t>(logged_bytes_));
        if (first_event_)
            line.field("first_ms", first_event_->count());
        line.field("dur_ms", std::chrono::duration_cast<base::Millis>(took).count());
        tell_times(line);
    }
}

void Turn::arm_grace(base::Millis wait) {
    context_.timers.cancel(grace_timer_);
    grace_timer_ = context_.timers.arm(wait, [this] {
        grace_timer_ = 0;
        owner_.interrupt_grace_passed();
    });
}

void Turn::disarm_grace() {
    if (grace_timer_ != 0)
        context_.timers.cancel(std::exchange(grace_timer_, 0));
}

void Turn::cancel_timers() {
    disarm_grace();
    if (limit_timer_ != 0)
        context_.timers.cancel(std::exchange(limit_timer_, 0));
}

void Turn::append(EventType type, std::string_view data) {
    const EventPtr event = log_.append(type, record_.turn, data);
    logged_bytes_ += event->json.size();
    last_was_error_ = type == EventType::error;
}

TurnOwner::Logged Turn::append_admitted(EventType type, std::string_view data) {
    if (!admit(type, data.size()))
        return TurnOwner::Logged::no;
    append(type, data);
    return TurnOwner::Logged::yes;
}

bool Turn::admit(EventType type, std::size_t bytes) {
    const bool closing = type == EventType::turn_complete || type == EventType::error;
    const std::size_t bound = context_.settings.log_bounds.turn_bytes + (closing ? k_closing_bytes : 0);
    const bool has_room = closing || log_.has_room(bytes + k_envelope_bytes);
    if ((!truncated_ || closing) && has_room && logged_bytes_ + bytes + k_envelope_bytes <= bound)
        return true;
    truncated_ = true;
    dropped_bytes_ += bytes;
    return false;
}

void Turn::on_event(const sandbox::AgentEvent& event) {
    if (!owner_.turn_machine().turn_running())
        return;
    if (!first_event_)
        first_event_ = std::chrono::duration_cast<base::Millis>(context_.clock.steady_now() - started_);
    const bool is_cancel = event.name == k_permission_cancel;
    const auto type = agent_event_type(event.name);
    if (!type && !is_cancel) {
        on_bad_line("an event of an unknown name");
        return;
    }
    if ((is_cancel || *type == EventType::permission_request) &&
        event.data.size() > base::k_max_permission_request_bytes)
        return on_bad_line("a " + std::string(event.name) + " beyond " +
                           std::to_string(base::k_max_permission_request_bytes) + " bytes");
    if (is_cancel) {
        // It is not logged, but it counts: beyond the bound of the log the turn is read slowly.
        if (admit(EventType::permission_resolved, event.data.size()))
            logged_bytes_ += event.data.size() + k_envelope_bytes;
        return owner_.permission_cancelled(event.data);
    }
    if (*type != EventType::done) {
        const auto logged = append_admitted(*type, event.data);
        if (*type == EventType::permission_request)
            owner_.permission_asked(event.data, logged);
        return;
    }
    owner_.turn_ends();
    if (dropped_bytes_ > 0)
        append(EventType::output_truncated, "{\"droppedBytes\":" + std::to_string(dropped_bytes_) + "}");
    if (const auto limit = owner_.limit_at_end())
        append(EventType::error, error_data(error_code_of(limit->exit_class), limit->detail));
    append(EventType::done, event.data.size() <= k_closing_bytes ? event.data : "{}");
    owner_.turn_done();
}

void Turn::on_bad_line(std::string_view what) {
    if (!owner_.turn_machine().turn_running() || complaints_++ >= base::k_max_protocol_complaints)
        return;
    base::LogLine(evt::agent_protocol).field("conv", conversation_.id).quoted("err", what).warn();
    const std::string data = error_data("agent_protocol", what);
    if (admit(EventType::error, data.size())) {
        append(EventType::error, data);
        // A refused line does not tell why a turn ended.
        last_was_error_ = false;
    }
}

void Turn::on_end(sandbox::QueryEnd end, std::string_view detail) {
    if (owner_.turn_machine().turn_running() && end != sandbox::QueryEnd::done)
        owner_.query_ended(end, detail);
}

}  // namespace atl::conversation
