#include "core/conversation/conversation.hpp"

#include <algorithm>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/committed_reply.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/conversation/event_json.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/log_shares.hpp"
#include "core/conversation/metadata.hpp"
#include "core/conversation/preview_ports.hpp"
#include "core/conversation/view.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::LogLine;
using base::Result;
namespace evt = base::evt;

namespace {

Error no_conversation() {
    return {Errc::not_found, "there is no such conversation"};
}

}  // namespace

Conversation::Conversation(Context& context, ConversationOwner& owner, Record record,
                           sandbox::Record sandbox_record)
    : context_(context),
      owner_(owner),
      record_(std::move(record)),
      sandbox_record_(std::move(sandbox_record)),
      log_(std::make_shared<EventLog>(context.journal, context.store, context.clock, record_.key,
                                      context.settings.log_bounds.conversation_bytes,
                                      context.settings.log_epoch, context.logs.share_of(record_))),
      turn_(context, *this, record_, *log_),
      permissions_(context.timers, [this](const PermissionDecision& decision) { on_permission(decision); }),
      generations_(context, owner.admission(), *this, record_, sandbox_record_, *log_),
      kept_processes_(context, record_, [this] { last_batch_ = context_.journal.batch_number(); }),
      port_events_(context.clock, context.timers,
                   [this](EventType type, const std::string& data) {
                       if (!erasing_ && machine_.status() != Status::ended)
                           log_event(type, data);
                   }),
      leases_(context.timers,
              [this](LeaseUse use) {
                  touch();
                  perform(machine_.release_lease(use));
                  arm_life();
              }),
      lifetime_(context.clock.steady_now()),
      counted_as_(record_.status) {
    log_->window()->on_unfollowed([this] { owner_.on_quiet(); }, [this] { on_unattended(); });
}

template <class Call>
auto Conversation::weakly(Call call) {
    return [weak = weak_from_this(), call](auto&&... results) {
        const auto self = weak.lock();
        if (self && !self->erased_)
            call(*self, std::forward<decltype(results)>(results)...);
    };
}

template <class T>
void Conversation::refuse(const T& reply, Error error) {
    context_.timers.defer([reply, error = std::move(error)] { reply(error); });
}

void Conversation::stop_timers() {
    log_->window()->on_unfollowed(nullptr, nullptr);
    for (base::TimerId* const timer : {&life_timer_, &lease_timer_, &unattended_timer_})
        context_.timers.cancel(std::exchange(*timer, 0));
    port_events_.stop();
    permissions_.forget();
}

View Conversation::view() const {
    Record record = record_;
    record.status = machine_.status();
    record.reason = machine_.reason();
    record.first_seq = log_->first_seq();
    record.last_seq = log_->committed_seq();
    const sandbox::Record* const living = context_.sandboxes.find(record_.sandbox_id);
    View view = view_of(context_, std::move(record), living != nullptr ? *living : sandbox_record_);
    // Nobody hears of a turn before its turn_start is committed.
    if (machine_.turn_open() && turn_.record().first_seq <= log_->committed_seq())
        view.open_turn = turn_.view();
    return view;
}

bool Conversation::is_resting() const {
    const Status status = machine_.status();
    const bool is_quiet = machine_.created() && !machine_.sandbox_living() && !machine_.turn_open() &&
                          leases_.is_empty() && start_waiters_.empty() && pause_waiters_.empty() &&
                          asked_.use_count() == 1 && log_->is_published() && !log_->is_followed();
    return !erasing_ && !removal_waits_ && is_quiet &&
           is_stored(context_.journal.idle() ? last_batch_ : context_.journal.committed()) &&
           (status == Status::paused || status == Status::error ||
            (status == Status::ended && sandbox_record_.gone));
}

void Conversation::create(Reply<View> reply) {
    start_waiters_.push_back([&context = context_, weak = weak_from_this(), began = last_activity(),
                              reply = std::move(reply)](Result<View> view) {
        const auto self = weak.lock();
        if (view)
            context.stats.create_latency.add(context.clock.steady_now() - began);
        else if (view.error().code() == Errc::storage_failed) {
            view = Error(Errc::storage_failed, "the database takes no writes; nothing was made");
            if (self && !self->erasing_)
                self->remove([](const Result<void>&) {});  // removes what was made by then
        }
        reply(std::move(view));
    });
    perform(machine_.create());
}

Result<void> Conversation::check_open() const {
    if (auto accepted = owner_.accepts_work(); !accepted)
        return accepted;
    if (machine_.status() == Status::ended)
        return Error(Errc::conversation_ended, "the conversation has ended");
    if (!machine_.created())
        return Error(Errc::conversation_starting, "the conversation's first sandbox is not ready yet");
    return {};
}

void Conversation::patch(const PatchRequest& patch, Reply<View> reply) {
    if (auto open = check_open(); !open)
        return refuse(reply, open.error());
    // The owner merges, not the caller: another change may have come between the caller's look and this.
    const auto limits = patch.limits.value_or(sandbox::LimitChanges()).applied_to(sandbox_record_.limits);
    if (auto fits = context_.sandboxes.room_to_grow(record_.sandbox_id, limits); patch.limits && !fits)
        return refuse(reply, fits.error());
    const auto network = changed_network(context_, sandbox_record_, patch.network);
    if (!network)
        return refuse(reply, network.error());
    auto metadata = patch.metadata ? merge_metadata(record_.metadata, *patch.metadata) : record_.metadata;
    if (!metadata)
        return refuse(reply, metadata.error());
    if (auto room = log_->change_record(record_bytes(record_.metadata), record_bytes(*metadata)); !room)
        return refuse(reply, room.error());
    record_.metadata = std::move(*metadata);
    base::change_fields(k_client_fields, record_, patch);
    record_.tools = patch.tools.applied_to(record_.tools);
    record_.ttl_seconds = patch.ttl_seconds.value_or(record_.ttl_seconds);
    if (patch.limits && context_.sandboxes.find(record_.sandbox_id) != nullptr) {
        sandbox_record_.limits = limits;
        if (auto applied = context_.sandboxes.set_limits(record_.sandbox_id, limits); !applied)
            LogLine(evt::limits_deferred).field("conv", id()).field("err", applied.error().detail()).info();
    }
    change_sandbox(context_, sandbox_record_, *network, patch.preview);
    look_at_ports();
    store_change(std::move(reply));
}

void Conversation::remove(Reply<void> reply) {
    erasing_ = true;
    removal_waiters_.push_back(std::move(reply));
    // A conversation whose time was up has no sandbox any more, or is just losing it.
    if (machine_.status() != Status::ended)
        end("conversation_deleted", "the conversation was deleted");
    else if (sandbox_record_.gone)
        erase();
    else if (!removal_waits_)
        context_.sandboxes.remove(record_.sandbox_id,
                                  weakly([](Conversation& it) { it.on_removal_answered(); }));
}

void Conversation::message(Message message, MessageReply when, const Reply<TurnTicket>& reply) {
    if (message.idempotency_key.empty())
        return open_turn(std::move(message), when, reply);
    const auto kept = std::make_shared<Message>(std::move(message));
    turn_.replay(kept, reply, [weak = weak_from_this(), asked = asked_, kept, when, reply] {
        const auto self = weak.lock();
        if (!self || self->erasing_)
            return reply(no_conversation());
        self->open_turn(std::move(*kept), when, reply);
    });
}

void Conversation::open_turn(Message message, MessageReply when, const Reply<TurnTicket>& reply) {
    if (auto open = check_open(); !open)
        return refuse(reply, open.error());
    if (!machine_.can_open_turn())
        return refuse(reply, Error(Errc::turn_in_progress,
                                   "a turn is still open; wait for its `done` event or interrupt it"));
    if (auto room = owner_.room_for_turn(record_, message.content.size()); !room)
        return refuse(reply, room.error());
    if (auto place = check_capacity(); !place)
        return refuse(reply, place.error());
    record_.last_active_at = context_.clock.wall_now();
    touch();
    const auto self = shared_from_this();  // `reply` may be called in open()
    turn_.open(std::move(message), ++record_.last_turn, when, reply);
    perform(machine_.open_turn());
}

Result<View> Conversation::interrupt() {
    if (!machine_.turn_open())
        return Error(Errc::no_turn, "no turn is open");
    perform(machine_.interrupt());
    return view();
}

void Conversation::pause(PauseMode mode, Reply<View> reply) {
    if (machine_.status() == Status::ended)
        return refuse(reply, Error(Errc::conversation_ended, "the conversation has ended"));
    if (mode == PauseMode::warm && machine_.turn_open())
        return refuse(reply,
                      Error(Errc::turn_in_progress,
                            "a turn is still open; interrupt it, wait for its `done` event, or pause cold, "
                            "which ends it"));
    pause_waiters_.push_back(std::move(reply));
    if (mode == PauseMode::warm)
        return pause_warm(PauseReason::user, "the conversation was paused");
    perform(machine_.pause(PauseReason::user, "paused", "the conversation was paused"));
}

void Conversation::pause_warm(PauseReason reason, const std::string& text) {
    // A sandbox that is frozen, or is being frozen, stays so.
    const bool can = !machine_.sandbox_up() || context_.sandboxes.can_freeze(record_.sandbox_id);
    perform(context_.settings.warm_limit.count() > 0 && can ? machine_.freeze(reason, text)
                                                            : machine_.pause(reason, "paused", text));
}

void Conversation::resume(Reply<View> reply) {
    if (auto accepted = owner_.accepts_work(); !accepted)
        return refuse(reply, accepted.error());
    if (machine_.status() == Status::ended)
        return refuse(reply, Error(Errc::conversation_ended, "the conversation has ended"));
    if (auto place = check_capacity(); !place)
        return refuse(reply, place.error());
    touch();
    start_waiters_.push_back(std::move(reply));
    perform(machine_.resume());
    arm_life();
}

void Conversation::lease(LeaseUse use, LeaseReply reply) {
    if (auto open = check_open(); !open)
        return refuse(reply, open.error());
    if (auto place = check_capacity(use); !place)
        return refuse(reply, place.error());
    touch();
    leases_.add(record_.sandbox_id, use, std::move(reply));
    perform(machine_.acquire_lease(use));
    arm_life();
}

void Conversation::forget_kept(const std::string& process_id, Reply<bool> reply) {
    if (!kept_processes_.forget(process_id))
        return reply(false);
    reply_after_commit<bool>(
        context_.journal, std::move(reply), [] { return true; },
        Error(Errc::storage_failed, "the database does not take it; the process is forgotten when it does"));
}

void Conversation::server_stops() {
    if (!machine_.sandbox_living() && !machine_.turn_open())
        return;
    // A paused conversation stays so; the end of its frozen sandbox is no other reason.
    const auto reason = machine_.sandbox_is_frozen() || machine_.is_borrowed() ? machine_.reason()
                                                                               : PauseReason::server_restart;
    perform(machine_.pause(reason, "server_shutdown", "the server was stopped"));
}

std::optional<sandbox::Exit> Conversation::limit_at_end() {
    // A shell whose command the kernel killed ends its turn well, perhaps in a sandbox that is gone by now.
    const sandbox::Exit* const gone = machine_.pending_exit();
    if (gone != nullptr && sandbox::is_limit(gone->exit_class))
        return *gone;
    sandbox::Manager& sandboxes = context_.sandboxes;
    return sandboxes.is_limit_suspected(record_.sandbox_id) ? sandboxes.limit_reached(record_.sandbox_id)
                                                            : std::nullopt;
}

sandbox::Channel* Conversation::channel() {
    return context_.sandboxes.channel(record_.sandbox_id);
}

void Conversation::query_ended(sandbox::QueryEnd end, std::string_view detail) {
    const auto reported = turn_.last_was_error() ? Machine::Reported::yes : Machine::Reported::no;
    std::string text = detail.empty() ? "the agent's stream ended before the turn did" : std::string(detail);
    if (const auto exit = context_.sandboxes.limit_reached(record_.sandbox_id))
        perform(machine_.query_failed(error_code_of(exit->exit_class), exit->detail, Machine::Reported::no));
    else if (end == sandbox::QueryEnd::protocol_error)
        perform(machine_.query_failed("bridge_failed", std::move(text), reported));
    else
        perform(machine_.query_broke("agent_crashed", std::move(text), reported));
}

void Conversation::arm_life() {
    context_.timers.cancel(std::exchange(life_timer_, 0));
    const auto due =
        lifetime_.next(record_, machine_, context_.settings.warm_limit, context_.clock.steady_now());
    if (due.what == Lifetime::Over::nothing)
        return;
    life_timer_ = context_.timers.arm(due.wait, [this] {
        life_timer_ = 0;
        const auto now = context_.clock.steady_now();
        const auto over = lifetime_.next(record_, machine_, context_.settings.warm_limit, now);
        const auto self = shared_from_this();
        if (!erasing_ && over.wait == base::Millis{0})
            on_life_timer(over.what);
        if (!erased_)
            arm_life();
    });
}

void Conversation::on_life_timer(Lifetime::Over over) {
    switch (over) {
        case Lifetime::Over::life:
            return end("conversation_ended", "the conversation's time to live is over");
        case Lifetime::Over::warm_pause:
            return perform(machine_.pause(
                machine_.reason(), "paused",
                "it was frozen for " +
                    std::to_string(context_.settings.warm_limit / std::chrono::seconds{1}) + " s"));
        case Lifetime::Over::idleness:
            return pause_warm(PauseReason::idle,
                              "nothing happened for " + std::to_string(record_.idle_seconds) + " s");
        case Lifetime::Over::nothing:
            return;
    }
}

void Conversation::recount() {
    const Status now = machine_.status();
    if (now == counted_as_)
        return;
    --context_.stats.by_status[counted_as_];
    ++context_.stats.by_status[now];
    counted_as_ = now;
    if (now == Status::ended)
        owner_.on_end(*this);
}

void Conversation::perform(const Actions& actions) {
    const auto self = shared_from_this();
    recount();
    for (const Action& action : actions) {
        // The action before may have been the end of the conversation.
        if (erased_)
            return;
        std::visit([this](const auto& one) { run(one); }, action);
    }
    if (!erased_ && !machine_.sandbox_living())
        owner_.on_quiet();
}

void Conversation::run(const action::LogSandboxPaused& paused) {
    LogLine(evt::conversation_paused)
        .field("conv", id())
        .field("reason", to_string(paused.reason))
        .field("mode", to_string(paused.mode))
        .info();
    if (paused.mode == PauseMode::cold)
        port_events_.close_all();
    log_->append(EventType::sandbox_paused, 0, paused_data(paused));
}

void Conversation::on_started(const Result<void>& result) {
    if (const sandbox::Record* living = context_.sandboxes.find(record_.sandbox_id))
        sandbox_record_ = *living;
    if (!result) {
        start_error_ = result.error();
        perform(machine_.sandbox_start_failed(start_error_.detail(), start_code_of(start_error_.code())));
        return store_generation();
    }
    const bool is_new = !machine_.created();
    if (is_new) {
        LogLine(evt::conversation_created)
            .field("conv", id())
            .field("sbx", record_.sandbox_id)
            .field("agent", record_.agent)
            .info();
    }
    perform(machine_.sandbox_started());
    // The sandbox is claimed after the answer, which that commit gives.
    if (is_new)
        context_.journal.after_commit([&sandboxes = context_.sandboxes, sandbox_id = record_.sandbox_id] {
            sandboxes.claim(sandbox_id);
        });
    store_generation();
    arm_life();
}

void Conversation::on_agent_started(const Result<void>& result) {
    if (result)
        return perform(machine_.agent_started());
    const Error& why = result.error();
    const auto limit = context_.sandboxes.limit_reached(record_.sandbox_id);
    perform(machine_.agent_start_failed(limit ? error_code_of(limit->exit_class) : start_code_of(why.code()),
                                        limit ? limit->detail : why.detail()));
    const bool is_unknown = why.code() == Errc::bridge_failed || why.code() == Errc::deadline_exceeded;
    // The guest alone knows if an agent runs now, and it does not answer.
    if (is_unknown && machine_.sandbox_up() && !limit)
        perform(machine_.pause(PauseReason::crash, "sandbox_crashed", why.detail()));
}

void Conversation::on_frozen(const Result<void>& result) {
    if (!result) {
        LogLine(evt::pause_cold).field("conv", id()).field("err", result.error().detail()).warn();
        return perform(machine_.sandbox_freeze_failed());
    }
    lifetime_.freeze(context_.clock.steady_now());
    perform(machine_.sandbox_frozen());
    if (!erased_)
        arm_life();
}

void Conversation::run(const action::CloseTurn&) {
    const std::uint64_t first_seq = log_->first_seq();
    turn_.close();
    if (log_->first_seq() != first_seq)
        run(action::Persist{});
    touch();
    arm_life();
}

void Conversation::run(const action::EndLeases& end) {
    leases_.end(end.scope, end.code == "sandbox_failed" ? refused_start(end.code, end.detail)
                                                        : end_error(end.code, end.detail));
}

void Conversation::run(const action::ArmLeaseGrace&) {
    lease_timer_ = context_.timers.arm(base::k_lease_grace, [this] {
        lease_timer_ = 0;
        perform(machine_.lease_grace_passed());
    });
}

void Conversation::run(const action::Persist&) {
    record_.status = machine_.status();
    record_.reason = machine_.reason();
    record_.first_seq = log_->first_seq();
    record_.log_bytes = log_->bytes();
    // A conversation that is being deleted does not come back after a crash; its sandbox does, to be removed.
    if (erasing_)
        context_.journal.add(EraseConversation{record_.key});
    else
        context_.journal.add(PutConversation{record_});
    put_sandbox();
}

void Conversation::put_sandbox() {
    context_.journal.add(PutSandbox{sandbox_record_});
    context_.preview_ports->store(sandbox_record_.id);
    stored_generation_ = sandbox_record_.generation;
    last_batch_ = context_.journal.batch_number();
}

/// The error for clients that wait for a start: a lack of room is no failure of the sandbox.
Error Conversation::refused_start(std::string_view code, const std::string& detail) const {
    const Errc why = start_error_.code();
    if ((why == Errc::capacity || why == Errc::user_share) && start_error_.detail() == detail)
        return start_error_;
    // Another request won: that is no failure of the sandbox.
    if (code == "paused")
        return {Errc::conversation_paused, detail +
                                               " before its sandbox was ready; resume it again if that is "
                                               "still wanted"};
    if (code == "conversation_ended")
        return {Errc::conversation_ended, detail};
    if (code == "server_shutdown")
        return {Errc::shutting_down, detail};
    return {code == "agent_failed" ? Errc::agent_failed : Errc::sandbox_failed, detail};
}

void Conversation::run(const action::AnswerStarted& answered) {
    answer(start_waiters_, answered.code.empty()
                               ? std::nullopt
                               : std::optional(refused_start(answered.code, answered.detail)));
}

/// Answers once the commit has all that the answer says: with the present state, or with `error`, which needs
/// no commit in time.
void Conversation::answer(std::vector<Reply<View>>& waiters, std::optional<Error> error) {
    if (waiters.empty())
        return;
    last_batch_ = context_.journal.batch_number();
    auto all = [replies = std::exchange(waiters, {})](const Result<View>& now) {
        for (const auto& reply : replies)
            reply(now);
    };
    reply_after_commit<View>(
        context_.journal, std::move(all),
        [weak = weak_from_this(), error]() -> Result<View> {
            const auto self = weak.lock();
            if (error)
                return *error;
            return self && !self->erasing_ ? Result<View>(self->view()) : no_conversation();
        },
        error.value_or(Error(Errc::storage_failed,
                             "it is done, but the database does not take it: a restart would undo it")));
}

void Conversation::run(const action::RemoveSandbox&) {
    context_.timers.cancel(std::exchange(life_timer_, 0));
    turn_.disarm_grace();
    generations_.cancel_start();
    kept_processes_.end_generation();
    if (const sandbox::Record* living = context_.sandboxes.find(record_.sandbox_id))
        sandbox_record_ = *living;
    // The workspace goes after this commit: a conversation that comes back after a crash must find it.
    removal_waits_ = true;
    context_.journal.after_commit(weakly([](Conversation& it) { it.begin_removal(); }));
    owner_.on_removal_waiting(*this);
    // A removal frees a full disk: it must not wait for a commit, which needs the disk.
    if (erasing_ && !context_.journal.healthy() && !context_.journal.is_fenced())
        begin_removal();
}

void Conversation::begin_removal() {
    if (!std::exchange(removal_waits_, false))
        return;
    owner_.on_removal_begun(*this);
    auto gone = [weak = weak_from_this(), &journal = context_.journal, sandbox_id = record_.sandbox_id] {
        const auto self = weak.lock();
        if (self && !self->erased_)
            self->on_sandbox_removed();
        else
            journal.add(EraseSandbox{sandbox_id});
    };
    context_.sandboxes.remove(record_.sandbox_id, weakly([](Conversation& it) { it.on_removal_answered(); }),
                              std::move(gone));
}

void Conversation::on_sandbox_removed() {
    // The record stays with an ended conversation to be shown.
    sandbox_record_.gone = true;
    sandbox_record_.env.clear();
    kept_processes_.forget_all();
    perform(machine_.removed());
    if (erasing_ || !machine_.created())
        return erase();
    owner_.on_only_log_left();
}

void Conversation::run(const action::Discard& discard) {
    erasing_ = true;
    auto answered = [weak = weak_from_this(), error = refused_start(discard.code, discard.detail),
                     replies = std::exchange(start_waiters_, {})] {
        const auto self = weak.lock();
        if (self && !self->erased_)
            self->erase();
        for (const auto& reply : replies)
            reply(error);
    };
    context_.sandboxes.remove(record_.sandbox_id, std::move(answered));
}

void Conversation::erase() {
    LogLine(evt::conversation_removed).field("conv", id()).info();
    erased_ = true;
    --context_.stats.by_status[counted_as_];
    turn_.cancel_timers();
    stop_timers();
    leases_.end(action::LeaseScope::all, no_conversation());
    const auto held = std::make_shared<const base::Share>(log_->take_share());
    log_->close();
    if (machine_.created()) {
        context_.journal.add(EraseConversation{record_.key});
        if (sandbox_record_.gone)
            context_.journal.add(EraseSandbox{record_.sandbox_id});
        // Its bytes count until they have left the database, which takes longer than to write them.
        context_.journal.purge(record_.key, Journal::k_whole_log, held);
    }
    const Error deleted(Errc::not_found, "the conversation was deleted");
    answer(pause_waiters_, deleted);
    answer(start_waiters_, deleted);
    auto all = [removals = std::exchange(removal_waiters_, {})](const Result<void>& removed) {
        for (const auto& reply : removals)
            reply(removed);
    };
    reply_after_commit<void>(
        context_.journal, std::move(all), [] { return Result<void>(); },
        Error(Errc::storage_failed,
              "its sandbox and files are removed; its log goes when the database takes "
              "writes again"));
    owner_.on_erased(*this);
}

}  // namespace atl::conversation
