#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/manager_impl.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::LogLine;
using base::Result;
using Kind = Action::Kind;
namespace evt = base::evt;

namespace {

std::string text_of(const nlohmann::json& data) {
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string exit_data(const sandbox::Exit& exit) {
    nlohmann::json data{{"class", to_string(exit.exit_class)}, {"code", exit.code}, {"detail", exit.detail}};
    if (exit.limit_bytes)
        data["limitBytes"] = *exit.limit_bytes;
    if (exit.peak_bytes)
        data["peakBytes"] = *exit.peak_bytes;
    return text_of(data);
}

/// What to tell who waits for a start: that there is no place passes by itself, all else is the sandbox's.
Error refused_start(const Conversation& conversation, const Action& action) {
    const Error& why = conversation.start_error;
    if (why.code() == Errc::capacity && why.detail() == action.text)
        return why;
    return {Errc::sandbox_failed, action.text};
}

}  // namespace

void Manager::Impl::perform(Conversation& conversation, const Actions& actions) {
    recount(conversation);
    // An action may be the end of the conversation: look it up again rather than hold on to it.
    const std::string id = conversation.record.id;
    for (const Action& action : actions) {
        Conversation* still = find(id);
        if (still == nullptr)
            return;
        perform(*still, action);
    }
}

void Manager::Impl::perform(Conversation& conversation, const Action& action) {
    switch (action.kind) {
        case Kind::log_session_start:
        case Kind::log_sandbox_ready:
        case Kind::log_sandbox_resumed:
        case Kind::log_sandbox_paused:
        case Kind::log_sandbox_terminated:
        case Kind::log_turn_error:
        case Kind::log_turn_done:
            return log_action(conversation, action);
        case Kind::close_turn:
            return close_turn(conversation);
        case Kind::start_sandbox:
            return start_sandbox(conversation);
        case Kind::stop_sandbox:
            return stop_sandbox(conversation, action.text);
        case Kind::freeze_sandbox:
            return freeze_sandbox(conversation);
        case Kind::thaw_sandbox:
            return thaw_sandbox(conversation);
        case Kind::remove_sandbox:
            return remove_sandbox(conversation);
        case Kind::send_query:
            return schedule_query(conversation);
        case Kind::drop_query:
            return drop_query(conversation);
        case Kind::send_interrupt:
            return send_interrupt(conversation);
        case Kind::arm_grace:
            return arm_grace(conversation);
        case Kind::disarm_grace:
            timers_.cancel(std::exchange(conversation.grace_timer, 0));
            return;
        case Kind::persist:
            return persist(conversation);
        case Kind::answer_started:
            return answer(conversation, conversation.start_waiters, action);
        case Kind::answer_paused:
            return answer(conversation, conversation.pause_waiters, action);
        case Kind::discard:
            return discard(conversation, action);
    }
}

void Manager::Impl::log_action(Conversation& conversation, const Action& action) {
    const sandbox::Record* sandbox_record = sandboxes_.find(conversation.record.sandbox_id);
    const std::uint32_t generation =
        sandbox_record != nullptr ? sandbox_record->generation : conversation.sandbox_record.generation;
    EventLog& log = *conversation.log;
    switch (action.kind) {
        case Kind::log_session_start:
            log.append(EventType::session_start, 0,
                       text_of({{"agent", conversation.record.agent},
                                {"sandboxId", conversation.record.sandbox_id}}));
            return;
        case Kind::log_sandbox_ready:
            log.append(EventType::sandbox_ready, 0, text_of({{"generation", generation}}));
            return;
        case Kind::log_sandbox_resumed:
            log.append(EventType::sandbox_resumed, 0,
                       text_of({{"generation", generation}, {"mode", to_string(action.mode)}}));
            return;
        case Kind::log_sandbox_paused:
            LogLine(evt::conversation_paused)
                .field("conv", conversation.record.id)
                .field("reason", to_string(action.reason))
                .field("mode", to_string(action.mode))
                .info();
            log.append(EventType::sandbox_paused, 0,
                       text_of({{"reason", to_string(action.reason)},
                                {"mode", to_string(action.mode)},
                                {"detail", action.text}}));
            return;
        case Kind::log_sandbox_terminated:
            log.append(EventType::sandbox_terminated, 0, exit_data(action.exit));
            return;
        case Kind::log_turn_error:
            return conversation.append_of_turn(EventType::error, error_data(action.code, action.text));
        case Kind::log_turn_done:
            return conversation.append_of_turn(EventType::done, "{}");
        default:
            return;
    }
}

void Manager::Impl::start_sandbox(Conversation& conversation) {
    const sandbox::AgentSpec* spec = agent(conversation.record.agent);
    const std::string id = conversation.record.id;
    if (spec == nullptr) {
        timers_.defer([this, id] {
            on_started(id, Error(Errc::unknown_agent, "the conversation's agent is no longer configured"));
        });
        return;
    }
    if (!conversation.machine.created() && sandboxes_.channel(conversation.record.sandbox_id) != nullptr)
        return timers_.defer([this, id] { take_over_warm(id); });
    admission_.admit(id, conversation.sandbox_record.limits,
                     [this, id](const Result<void>& admitted) { start_admitted(id, admitted); });
}

void Manager::Impl::start_admitted(const std::string& id, const Result<void>& admitted) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return;
    if (!admitted) {
        timers_.defer([this, id, error = admitted.error()] { on_started(id, error); });
        return;
    }
    started_.insert(conversation);
    // A generation that is still going down ends first; then the machine has been told already.
    sandboxes_.start(conversation->record.sandbox_id, *agent(conversation->record.agent),
                     [this, id](const Result<void>& result) { on_started(id, result); });
}

void Manager::Impl::take_over_warm(const std::string& id) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return;
    if (sandboxes_.channel(conversation->record.sandbox_id) != nullptr) {
        started_.insert(conversation);
        return on_started(id, Result<void>());
    }
    on_started(id, Error(Errc::sandbox_failed, "the sandbox from the pool had just ended; try again"));
}

void Manager::Impl::stop_sandbox(Conversation& conversation, const std::string& why) {
    const std::string id = conversation.record.id;
    if (admission_.cancel(id)) {
        timers_.defer([this, id] { on_started(id, Error(Errc::sandbox_failed, "it was stopped first")); });
        return;
    }
    sandboxes_.stop(conversation.record.sandbox_id, sandbox::ExitClass::killed, why, [] {});
}

void Manager::Impl::on_started(const std::string& id, const Result<void>& result) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return;
    if (const sandbox::Record* sandbox_record = sandboxes_.find(conversation->record.sandbox_id))
        conversation->sandbox_record = *sandbox_record;
    if (result) {
        const bool is_new = !conversation->machine.created();
        if (is_new) {
            standalone_.enlist(conversation->sandbox_record);
            LogLine(evt::conversation_created)
                .field("conv", id)
                .field("sbx", conversation->record.sandbox_id)
                .field("agent", conversation->record.agent)
                .info();
        }
        const std::string sandbox_id = conversation->record.sandbox_id;
        perform(*conversation, conversation->machine.sandbox_started());
        // After the answer, which that commit gives.
        if (is_new)
            journal_.after_commit([this, sandbox_id] { sandboxes_.claim(sandbox_id); });
        arm_life(*conversation);
        return;
    }
    conversation->start_error = result.error();
    perform(*conversation, conversation->machine.sandbox_start_failed(result.error().detail()));
}

void Manager::Impl::pause_warm(Conversation& conversation, PauseReason reason, const std::string& text) {
    // One that is frozen, or on its way to, stays so.
    const bool can =
        !conversation.machine.sandbox_up() || sandboxes_.can_freeze(conversation.record.sandbox_id);
    perform(conversation, settings_.warm_limit.count() > 0 && can
                              ? conversation.machine.freeze(reason, text)
                              : conversation.machine.pause(reason, "paused", text));
}

void Manager::Impl::freeze_sandbox(Conversation& conversation) {
    const auto frozen = [this, id = conversation.record.id](const Result<void>& result) {
        on_frozen(id, result);
    };
    sandboxes_.freeze(conversation.record.sandbox_id, frozen);
}

void Manager::Impl::on_frozen(const std::string& id, const Result<void>& result) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return;
    if (!result) {
        LogLine(evt::pause_cold).field("conv", id).field("err", result.error().detail()).warn();
        return perform(*conversation, conversation->machine.sandbox_freeze_failed());
    }
    conversation->frozen_at = clock_.steady_now();
    perform(*conversation, conversation->machine.sandbox_frozen());
    if (Conversation* still = find(id))
        arm_life(*still);
}

void Manager::Impl::thaw_sandbox(Conversation& conversation) {
    sandboxes_.thaw(conversation.record.sandbox_id);
    arm_life(conversation);
}

void Manager::Impl::schedule_query(Conversation& conversation) {
    if (conversation.turn.record.idempotency_key.empty())
        return send_query(conversation);
    // Only once the turn is committed: a retry of its message must find it.
    journal_.after_commit([this, id = conversation.record.id, turn = conversation.turn.record.turn] {
        Conversation* still = find(id);
        if (still != nullptr && still->turn.record.turn == turn && still->machine.turn_running())
            send_query(*still);
    });
}

void Manager::Impl::send_query(Conversation& conversation) {
    sandbox::Channel* channel = sandboxes_.channel(conversation.record.sandbox_id);
    if (channel == nullptr) {
        // It went down between the commit and now; its exit ends the turn through the grace timer.
        query_ended(conversation.record.id, sandbox::QueryEnd::connect_failed, "the sandbox went down");
        return;
    }
    const std::string content = std::exchange(conversation.turn.content, {});
    conversation.query =
        channel->query(turn_name(conversation.turn.record.turn), content, "{}", conversation);
}

void Manager::Impl::send_interrupt(Conversation& conversation) {
    sandbox::Channel* channel = sandboxes_.channel(conversation.record.sandbox_id);
    if (channel == nullptr)
        return;
    const std::string id = conversation.record.id;
    const std::uint64_t turn = conversation.turn.record.turn;
    channel->interrupt(turn_name(turn), [this, id, turn](const Result<void>& done) {
        if (done)
            return;
        // The guest has not seen the query yet: the two go by different connections. Grace bounds the
        // retries.
        timers_.arm(base::k_interrupt_retry, [this, id, turn] {
            Conversation* still = find(id);
            if (still != nullptr && still->turn.record.turn == turn && still->machine.interrupting())
                send_interrupt(*still);
        });
    });
}

void Manager::Impl::drop_query(Conversation& conversation) {
    if (!conversation.query)
        return;
    // Deferred: this may run inside a callback of the query itself.
    timers_.defer([query = std::shared_ptr<sandbox::Query>(std::move(conversation.query))] {});
}

void Manager::Impl::close_turn(Conversation& conversation) {
    OpenTurn& turn = conversation.turn;
    timers_.cancel(std::exchange(conversation.turn_timer, 0));
    const std::uint64_t first_seq = conversation.log->first_seq();
    turn.record.last_seq = conversation.log->last_seq();
    turn.record.bytes = conversation.log->close_turn();
    journal_.add_lazily(PutTurn{turn.record});
    if (conversation.log->first_seq() != first_seq)
        persist(conversation);
    conversation.last_activity = clock_.steady_now();
    const auto took = conversation.last_activity - turn.started;
    // One of an earlier run began at no time that this one knows.
    if (turn.started != base::SteadyTime{})
        stats_.turn_duration.add(took);
    if (base::logs_debug()) {
        LogLine(evt::turn_ended)
            .field("conv", conversation.record.id)
            .field("turn", turn.record.turn)
            .field("bytes", static_cast<std::int64_t>(turn.logged_bytes))
            .field("dur_ms", std::chrono::duration_cast<base::Millis>(took).count())
            .debug();
    }
    arm_life(conversation);
}

void Manager::Impl::persist(Conversation& conversation) {
    conversation.record.status = conversation.machine.status();
    conversation.record.reason = conversation.machine.reason();
    conversation.record.first_seq = conversation.log->first_seq();
    // One that is being deleted does not come back after a crash; its sandbox does, to be removed.
    if (conversation.erasing)
        journal_.add(EraseConversation{conversation.record.key});
    else
        journal_.add(PutConversation{conversation.record});
    journal_.add(PutSandbox{conversation.sandbox_record});
}

void Manager::Impl::arm_grace(Conversation& conversation) {
    timers_.cancel(conversation.grace_timer);
    conversation.grace_timer = timers_.arm(base::k_interrupt_deadline, [this, id = conversation.record.id] {
        if (Conversation* late = find(id)) {
            late->grace_timer = 0;
            perform(*late, late->machine.grace_passed());
        }
    });
}

void Manager::Impl::answer(Conversation& conversation, std::vector<Reply<View>>& waiters,
                           const Action& action) {
    if (waiters.empty())
        return;
    // What the answer says is committed before it is told.
    auto answered = [this, id = conversation.record.id, replies = std::exchange(waiters, {}),
                     code = action.code, error = refused_start(conversation, action)] {
        const auto now = code.empty() ? get(id) : Result<View>(error);
        for (const auto& reply : replies)
            reply(now);
    };
    journal_.after_commit(std::move(answered));
}

void Manager::Impl::end(Conversation& conversation, const std::string& code, const std::string& text) {
    perform(conversation, conversation.machine.end(code, text));
}

void Manager::Impl::remove_sandbox(Conversation& conversation) {
    timers_.cancel(std::exchange(conversation.life_timer, 0));
    timers_.cancel(std::exchange(conversation.grace_timer, 0));
    admission_.cancel(conversation.record.id);
    if (const sandbox::Record* sandbox_record = sandboxes_.find(conversation.record.sandbox_id))
        conversation.sandbox_record = *sandbox_record;
    standalone_.delist(conversation.sandbox_record);
    // Only once its end is committed: a conversation that comes back after a crash must find its workspace.
    awaiting_removal_.insert(conversation.record.id);
    journal_.after_commit([this, id = conversation.record.id] {
        if (Conversation* ended = find(id))
            begin_removal(*ended);
    });
    if (!journal_.healthy())
        on_store_refused();
}

void Manager::Impl::begin_removal(Conversation& conversation) {
    if (awaiting_removal_.erase(conversation.record.id) == 0)
        return;
    const std::string id = conversation.record.id;
    const std::string sandbox_id = conversation.record.sandbox_id;
    sandboxes_.remove(
        sandbox_id, [this, id] { on_removal_answered(id); },
        [this, id, sandbox_id] { on_sandbox_removed(id, sandbox_id); });
}

// A full disk is freed by what is being deleted, so that must not wait for a commit that needs the disk.
// After a crash in this state a conversation may come back without its workspace.
void Manager::Impl::on_store_refused() {
    const std::vector<std::string> waiting(awaiting_removal_.begin(), awaiting_removal_.end());
    for (const std::string& id : waiting) {
        Conversation* conversation = find(id);
        if (conversation != nullptr && conversation->erasing)
            begin_removal(*conversation);
    }
}

// Its processes or its files may be left: then the store keeps the sandbox, and with it the lease of its uid.
void Manager::Impl::on_removal_answered(const std::string& id) {
    Conversation* conversation = find(id);
    if (conversation != nullptr && conversation->erasing)
        erase(*conversation);
}

void Manager::Impl::on_sandbox_removed(const std::string& id, const std::string& sandbox_id) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return journal_.add(EraseSandbox{sandbox_id});
    // The lease is over; the record stays with an ended conversation to be shown.
    conversation->sandbox_record.host_uid = 0;
    conversation->sandbox_record.gone = true;
    conversation->sandbox_record.env.clear();
    perform(*conversation, conversation->machine.removed());
    if (conversation->erasing || !conversation->machine.created())
        return erase(*conversation);
    keep_ended(*conversation, base::Millis{0});
}

void Manager::Impl::discard(Conversation& conversation, const Action& action) {
    const Error error = refused_start(conversation, action);
    auto replies = std::exchange(conversation.start_waiters, {});
    conversation.erasing = true;
    auto waiting = std::make_shared<std::vector<Reply<View>>>(std::move(replies));
    sandboxes_.remove(conversation.record.sandbox_id, [this, id = conversation.record.id, error, waiting] {
        if (Conversation* gone = find(id))
            erase(*gone);
        for (const auto& reply : *waiting)
            reply(error);
    });
}

void Manager::Impl::erase(Conversation& conversation) {
    LogLine(evt::conversation_removed).field("conv", conversation.record.id).info();
    timers_.cancel(conversation.turn_timer);
    timers_.cancel(conversation.life_timer);
    timers_.cancel(conversation.grace_timer);
    conversation.log->close();
    if (conversation.machine.created()) {
        journal_.add(EraseConversation{conversation.record.key});
        if (conversation.sandbox_record.gone)
            journal_.add(EraseSandbox{conversation.record.sandbox_id});
        journal_.purge(conversation.record.key);
    }
    auto removals = std::exchange(conversation.removal_waiters, {});
    auto replies = std::exchange(conversation.pause_waiters, {});
    for (auto& reply : std::exchange(conversation.start_waiters, {}))
        replies.push_back(std::move(reply));
    journal_.after_commit([removals = std::move(removals), replies = std::move(replies)] {
        for (const auto& reply : replies)
            reply(Error(Errc::not_found, "the conversation was deleted"));
        for (const auto& reply : removals)
            reply(Result<void>());
    });
    started_.erase(&conversation);
    awaiting_removal_.erase(conversation.record.id);
    --stats_.by_status[conversation.counted_as];
    roster_.erase(conversation);
    by_sandbox_.erase(conversation.record.sandbox_id);
    // Deferred: a callback of its query may be what led here.
    const auto node = std::make_shared<decltype(by_id_)::node_type>(by_id_.extract(conversation.record.id));
    timers_.defer([node] {});
}

void Manager::Impl::on_sandbox_exit(const std::string& sandbox_id, std::uint32_t, const sandbox::Exit& exit) {
    if (Conversation* conversation = find_by_sandbox(sandbox_id))
        perform(*conversation, conversation->machine.sandbox_exited(exit));
    else
        pool_.lost(sandbox_id);
}

// Whoever waits for a place goes before what is only started ahead.
void Manager::Impl::on_room(const std::string& sandbox_id) {
    admission_.ended(sandbox_id);
    if (admission_.is_idle())
        pool_.fill();
}

void Manager::Impl::on_agent_exit(const std::string& sandbox_id, std::uint32_t, const std::string& detail) {
    if (Conversation* conversation = find_by_sandbox(sandbox_id))
        perform(*conversation, conversation->machine.agent_exited(detail));
    else
        pool_.lost(sandbox_id);
}

void Manager::Impl::on_resource_warning(const std::string& sandbox_id, std::string_view resource,
                                        std::uint64_t used, std::uint64_t limit) {
    Conversation* conversation = find_by_sandbox(sandbox_id);
    if (conversation == nullptr || !conversation->machine.created() || conversation->erasing ||
        conversation->machine.status() == Status::ended)
        return;
    conversation->log->append(EventType::resource_warning, 0,
                              text_of({{"resource", resource}, {"used", used}, {"limit", limit}}));
}

// A shell that lost its command to the kernel's kill ends its turn as well as it can: that is not how it
// ended.
std::optional<sandbox::Exit> Manager::Impl::limit_at_end(const std::string& id) {
    const Conversation* conversation = find(id);
    if (conversation == nullptr || !sandboxes_.is_limit_suspected(conversation->record.sandbox_id))
        return std::nullopt;
    return sandboxes_.limit_reached(conversation->record.sandbox_id);
}

void Manager::Impl::turn_done(const std::string& id) {
    if (Conversation* conversation = find(id))
        perform(*conversation, conversation->machine.turn_done());
}

void Manager::Impl::query_ended(const std::string& id, sandbox::QueryEnd end, std::string_view detail) {
    Conversation* conversation = find(id);
    if (conversation == nullptr)
        return;
    const auto reported = conversation->turn.last_was_error ? Machine::Reported::yes : Machine::Reported::no;
    std::string code = end == sandbox::QueryEnd::protocol_error ? "bridge_failed" : "agent_crashed";
    std::string text = detail.empty() ? "the agent's stream ended before the turn did" : std::string(detail);
    if (auto exit = sandboxes_.limit_reached(conversation->record.sandbox_id)) {
        code = exit->exit_class == sandbox::ExitClass::oom ? "oom" : "disk_limit";
        text = std::move(exit->detail);
    }
    perform(*conversation, conversation->machine.query_failed(std::move(code), std::move(text), reported));
}

}  // namespace atl::conversation
