// A conversation takes over the store's state of it, gives its log up, and tells the ports of its sandbox.
#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/event_json.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/log_shares.hpp"
#include "core/conversation/stored_turns.hpp"
#include "core/conversation/view.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

void Conversation::restore(const StoredConversation& stored) {
    // A status `active` or `starting` comes from a server that ended without changing it.
    stored_generation_ = sandbox_record_.generation;
    const bool ran = record_.status == Status::active || record_.status == Status::starting;
    if (ran) {
        record_.status = Status::paused;
        record_.reason = PauseReason::server_restart;
    }
    lifetime_.add_age(context_.ages.age_of(record_.created_at));
    machine_.restore(record_.status, record_.reason);
    log_->restore(record_.first_seq, record_.last_seq);
    kept_processes_.restore(stored.kept_processes);
    recount();
    std::uint64_t counted = 0;
    for (const TurnRecord& turn : stored.turns)
        counted += turn.bytes;
    std::uint64_t bytes = stored.open_bytes;
    bool is_resolved = false;
    for (const TurnRecord& turn : restored_turns(stored, context_.journal)) {
        bytes += turn.bytes;
        record_.last_turn = std::max(record_.last_turn, turn.turn);
        if (turn.last_seq == 0 && !std::exchange(is_resolved, true))
            resolve(stored.open_questions, turn.turn);
        restore_turn(turn);
    }
    if (ran && !is_resolved)
        resolve(stored.open_questions, 0);
    last_batch_ = context_.journal.batch_number();
    log_->restore_open(stored.open_bytes);
    const std::uint64_t own = record_bytes(record_.metadata);
    context_.logs.on_loaded(record_.user_id, bytes + own, std::max(counted, record_.log_bytes) + own);
    if (ran) {
        run(action::LogSandboxPaused{PauseReason::server_restart, PauseMode::cold,
                                     "the server was restarted"});
        run(action::Persist{});
    }
    if (record_.status == Status::ended && !sandbox_record_.gone)
        run(action::RemoveSandbox{});
    arm_life();
}

/// Nobody decides any more what the last server asked.
void Conversation::resolve(const OpenQuestions& questions, std::uint64_t turn) {
    for (const std::string& id : questions.permissions) {
        const PermissionDecision decision{
            id, PermissionDecision::Outcome::cancelled, PermissionDecision::Reason::turn_ended, {}};
        log_->append(EventType::permission_resolved, turn, permission_data(decision));
    }
    for (const std::string& id : questions.hosts)
        log_->append(EventType::egress_resolved, turn, decision_data(id, "deny"));
}

void Conversation::restore_turn(const TurnRecord& turn) {
    if (turn.last_seq != 0)
        return log_->restore_turn(turn.last_seq, turn.bytes);
    turn_.restore(turn);
    run(action::CloseTurn{});
}

std::uint32_t Conversation::generation() const {
    const sandbox::Record* const living = context_.sandboxes.find(record_.sandbox_id);
    return living != nullptr ? living->generation : sandbox_record_.generation;
}

std::uint64_t Conversation::cut_log(std::uint64_t bytes) {
    const std::uint64_t before = log_->bytes();
    if (!machine_.created() || erasing_)
        return 0;
    log_->cut_to(before - std::min(bytes, before - before / 2));
    const std::uint64_t cut = before - log_->bytes();
    if (cut > 0) {
        base::LogLine(base::evt::log_cut).field("conv", id()).field("bytes", cut).warn();
        run(action::Persist{});
    }
    return cut;
}

void Conversation::look_at_ports() {
    // The ports of a generation that is there for requests alone, or still starts, are told when it is
    // active; those of a frozen generation stay as they are.
    if (!machine_.created() || !machine_.sandbox_up() || machine_.is_borrowed())
        return;
    port_events_.update(open_ports_of(context_, sandbox_record_));
}

}  // namespace atl::conversation
