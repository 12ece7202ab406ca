#include "core/conversation/manager_impl.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/digest.hpp"
#include "core/sandbox/env_policy.hpp"

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

Manager::Impl::Impl(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes,
                    Journal& journal, Store& store, ManagerSettings settings)
    : clock_(clock),
      timers_(timers),
      sandboxes_(sandboxes),
      journal_(journal),
      store_(store),
      settings_(std::move(settings)),
      roster_(settings_.conversation_bounds),
      admission_({[this](const sandbox::Limits& limits) { return sandboxes_.room_for(limits); },
                  [this] { return pool_.shrink(); },
                  [this](const sandbox::Limits& limits) { return sandboxes_.worth_evicting(limits); },
                  [this] { return evict(); },
                  [this] { return pool_.can_shrink() || find_victim() != nullptr; },
                  [this](const Error& why) { return refusal(why); }}),
      standalone_(clock, timers, sandboxes, journal, admission_, settings_,
                  [this] { return roster_.room_for(std::nullopt, standalone_.count()); }),
      pool_(timers, sandboxes, settings_.pool, [this](const std::string& name) { return agent(name); }) {
    sandboxes_.set_observer(this);
    journal_.on_refusal([this] { on_store_refused(); });
}

Manager::Impl::~Impl() {
    sandboxes_.set_observer(nullptr);
    journal_.on_refusal(nullptr);
}

Conversation* Manager::Impl::find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.get();
}

Conversation* Manager::Impl::find_by_sandbox(const std::string& sandbox_id) const {
    const auto found = by_sandbox_.find(sandbox_id);
    return found == by_sandbox_.end() ? nullptr : found->second;
}

const sandbox::AgentSpec* Manager::Impl::agent(const std::string& name) const {
    const auto found = std::find_if(settings_.agents.begin(), settings_.agents.end(),
                                    [&](const sandbox::AgentSpec& spec) { return spec.name == name; });
    return found == settings_.agents.end() ? nullptr : &*found;
}

View Manager::Impl::view(const Conversation& conversation) const {
    View view;
    view.record = conversation.record;
    view.record.status = conversation.machine.status();
    view.record.reason = conversation.machine.reason();
    view.record.first_seq = conversation.log->first_seq();
    view.record.last_seq = conversation.log->committed_seq();
    const sandbox::Record* living = sandboxes_.find(conversation.record.sandbox_id);
    const sandbox::Record& sandbox_record = living != nullptr ? *living : conversation.sandbox_record;
    view.generation = sandbox_record.generation;
    view.sandbox_status = sandboxes_.status(sandbox_record.id);
    view.sandbox_created_at = sandbox_record.created_at;
    view.network = sandbox_record.network;
    view.limits = sandbox_record.limits;
    view.enforcement = sandboxes_.enforcement(sandbox_record.network, sandbox_record.id);
    return view;
}

Result<void> Manager::Impl::accepts_work() const {
    if (shutting_down_)
        return Error(Errc::shutting_down, "the server is stopping; try again in a moment");
    return journal_.usable();
}

Conversation& Manager::Impl::enlist(Record record) {
    const std::string id = record.id;
    auto owned = std::make_unique<Conversation>(*this, std::move(record), settings_.log_bounds);
    Conversation& conversation = *owned;
    conversation.log = std::make_shared<EventLog>(journal_, store_, clock_, conversation.record.key,
                                                  settings_.log_bounds.conversation_bytes);
    conversation.born = conversation.last_activity = clock_.steady_now();
    roster_.add(conversation);
    by_sandbox_.emplace(conversation.record.sandbox_id, &conversation);
    by_id_.emplace(id, std::move(owned));
    conversation.counted_as = conversation.machine.status();
    ++stats_.by_status[conversation.counted_as];
    return conversation;
}

void Manager::Impl::recount(Conversation& conversation) {
    const Status now = conversation.machine.status();
    if (now == conversation.counted_as)
        return;
    --stats_.by_status[conversation.counted_as];
    ++stats_.by_status[now];
    conversation.counted_as = now;
    if (now == Status::ended)
        roster_.on_end(conversation);
}

void Manager::Impl::create(CreateRequest request, Reply<View> reply) {
    const auto refuse = [&](Error error) {
        timers_.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (auto accepted = accepts_work(); !accepted)
        return refuse(accepted.error());
    if (auto room = roster_.room_for(request.user_id, standalone_.count()); !room)
        return refuse(room.error());
    const std::string agent_name = request.agent.empty() ? settings_.default_agent : request.agent;
    if (agent(agent_name) == nullptr)
        return refuse(
            Error(Errc::unknown_agent, "no agent of that name is configured; /v1/system lists them"));
    if (request.network == sandbox::NetworkMode::host && !settings_.allow_host_network)
        return refuse(Error(Errc::network_not_allowed,
                            "network \"host\" is off; the operator allows it with --allow-host-network"));
    if (auto checked = sandbox::check_env(request.env); !checked)
        return refuse(checked.error());

    Record record;
    record.agent = agent_name;
    auto claimed = sandboxes_.is_disk_short() ? std::nullopt : pool_.claim(agent_name, request);
    if (!claimed) {
        if (auto place = admission_.has_place(request.limits); !place)
            return refuse(place.error());
    }
    record.id = claimed ? std::move(claimed->conversation_id) : base::new_id();
    auto made = claimed ? Result<sandbox::Record>(std::move(claimed->sandbox_record))
                        : make_sandbox(record.id, request);
    if (!made)
        return refuse(made.error());
    record.key = ++last_key_;
    record.user_id = std::move(request.user_id);
    record.metadata = std::move(request.metadata);
    record.idle_seconds = request.idle_seconds.value_or(0);
    record.ttl_seconds = request.ttl_seconds.value_or(0);
    record.created_at = record.last_active_at = clock_.wall_now();
    record.sandbox_id = made->id;
    Conversation& conversation = enlist(std::move(record));
    conversation.sandbox_record = *made;
    conversation.start_waiters.push_back(
        [this, began = conversation.last_activity, reply = std::move(reply)](Result<View> view) {
            if (view)
                stats_.create_latency.add(clock_.steady_now() - began);
            reply(std::move(view));
        });
    perform(conversation, conversation.machine.create());
}

Result<sandbox::Record> Manager::Impl::make_sandbox(const std::string& conversation_id,
                                                    const CreateRequest& request) {
    sandbox::Record sandbox_record;
    sandbox_record.conversation_id = conversation_id;
    sandbox_record.network = request.network;
    sandbox_record.limits = request.limits;
    sandbox_record.env = request.env;
    return sandboxes_.create(std::move(sandbox_record));
}

Result<View> Manager::Impl::get(const std::string& id) const {
    const Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return no_conversation();
    return view(*conversation);
}

Result<Page<View>> Manager::Impl::list(const ListQuery& query) const {
    std::int64_t after = 0;
    if (!query.cursor.empty()) {
        const char* end = query.cursor.data() + query.cursor.size();
        const auto parsed = std::from_chars(query.cursor.data(), end, after);
        if (parsed.ec != std::errc() || parsed.ptr != end || after < 0)
            return Error(Errc::invalid_request, "cursor is not one that this route gave out");
    }
    const Roster::ByKey& listed = query.user_id ? roster_.of_user(*query.user_id) : roster_.all();
    Page<View> page;
    std::size_t bytes = 0;
    std::size_t seen = 0;
    std::int64_t last = 0;  // the key of the one seen last
    // False once the page is full.
    const auto take = [&](const Conversation& conversation) {
        if (page.items.size() == query.limit || bytes > base::k_list_page_bytes ||
            seen++ == base::k_list_scan_items) {
            page.next = std::to_string(last);
            return false;
        }
        last = conversation.record.key;
        if (conversation.erasing || (query.status && conversation.machine.status() != *query.status))
            return true;
        page.items.push_back(view(conversation));
        bytes += conversation.record.metadata.size() + base::k_list_item_bytes;
        return true;
    };
    if (query.order == ListOrder::oldest_first) {
        for (auto at = listed.upper_bound(after); at != listed.end() && take(*at->second);)
            ++at;
    } else {
        auto at = query.cursor.empty() ? listed.end() : listed.lower_bound(after);
        while (at != listed.begin() && take(*std::prev(at)->second))
            --at;
    }
    return page;
}

void Manager::Impl::patch(const std::string& id, const PatchRequest& patch, Reply<View> reply) {
    const auto refuse = [&](Error error) {
        timers_.defer([reply, error = std::move(error)] { reply(error); });
    };
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return refuse(no_conversation());
    if (auto accepted = accepts_work(); !accepted)
        return refuse(accepted.error());
    if (conversation->machine.status() == Status::ended)
        return refuse(Error(Errc::conversation_ended, "the conversation has ended"));
    if (!conversation->machine.created())
        return refuse(
            Error(Errc::conversation_starting, "the conversation's first sandbox is not ready yet"));
    if (patch.limits) {
        if (auto fits = sandboxes_.room_to_grow(conversation->record.sandbox_id, *patch.limits); !fits)
            return refuse(fits.error());
    }
    if (patch.metadata)
        conversation->record.metadata = *patch.metadata;
    if (patch.idle_seconds)
        conversation->record.idle_seconds = *patch.idle_seconds;
    if (patch.ttl_seconds)
        conversation->record.ttl_seconds = *patch.ttl_seconds;
    if (patch.limits && sandboxes_.find(conversation->record.sandbox_id) != nullptr) {
        conversation->sandbox_record.limits = *patch.limits;
        const auto applied = sandboxes_.set_limits(conversation->record.sandbox_id, *patch.limits);
        if (!applied)
            LogLine(evt::limits_deferred).field("conv", id).field("err", applied.error().detail()).info();
    }
    persist(*conversation);
    arm_life(*conversation);
    journal_.after_commit([this, id, reply = std::move(reply)] { reply(get(id)); });
}

void Manager::Impl::remove(const std::string& id, Reply<void> reply) {
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing) {
        timers_.defer([reply] { reply(no_conversation()); });
        return;
    }
    conversation->erasing = true;
    conversation->removal_waiters.push_back(std::move(reply));
    // One whose time was up has no sandbox any more, or is just losing it.
    if (conversation->machine.status() != Status::ended)
        end(*conversation, "conversation_deleted", "the conversation was deleted");
    else if (conversation->sandbox_record.gone)
        erase(*conversation);
    else if (!awaiting_removal_.contains(id))
        sandboxes_.remove(conversation->record.sandbox_id, [this, id] { on_removal_answered(id); });
}

Result<TurnTicket> Manager::Impl::repeated(Conversation& conversation, const std::string& key,
                                           const std::string& digest) {
    TurnTicket ticket;
    TurnRecord found = conversation.turn.record;
    if (found.idempotency_key != key) {
        auto stored = store_.find_turn(conversation.record.key, key);
        if (!stored)
            return stored.error();
        found = std::move(*stored);
    }
    if (found.turn == 0)
        return ticket;
    if (found.content_digest != digest)
        return Error(Errc::idempotency_key_reused, "this Idempotency-Key was used for another message");
    ticket.turn = found.turn;
    ticket.after = found.first_seq - 1;
    ticket.replayed = true;
    return ticket;
}

void Manager::Impl::message(const std::string& id, std::string content, std::string idempotency_key,
                            MessageReply when, Reply<TurnTicket> reply) {
    const auto refuse = [&](Error error) {
        timers_.defer([reply, error = std::move(error)] { reply(error); });
    };
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return refuse(no_conversation());
    std::string content_digest;
    if (!idempotency_key.empty()) {
        content_digest = digest(content);
        const auto ticket = repeated(*conversation, idempotency_key, content_digest);
        if (!ticket)
            return refuse(ticket.error());
        if (ticket->replayed) {
            journal_.after_commit([reply, ticket = *ticket] { reply(ticket); });
            return;
        }
    }
    if (auto accepted = accepts_work(); !accepted)
        return refuse(accepted.error());
    const Machine& machine = conversation->machine;
    if (machine.status() == Status::ended)
        return refuse(Error(Errc::conversation_ended, "the conversation has ended"));
    if (!machine.created())
        return refuse(
            Error(Errc::conversation_starting, "the conversation's first sandbox is not ready yet"));
    if (!machine.can_open_turn())
        return refuse(
            Error(Errc::turn_in_progress, "a turn is still open; wait for its `done` event or interrupt it"));
    // It is being ended for a limit, which the machine hears of when it is gone: the turn waits for the next.
    if (sandboxes_.is_ending(conversation->record.sandbox_id))
        perform(*conversation, conversation->machine.sandbox_ending());
    if (auto place = machine.sandbox_living() ? Result<void>()
                                              : admission_.has_place(conversation->sandbox_record.limits);
        !place)
        return refuse(place.error());
    OpenTurn turn;
    turn.record.idempotency_key = std::move(idempotency_key);
    turn.record.content_digest = std::move(content_digest);
    turn.content = std::move(content);
    begin_turn(*conversation, std::move(turn), when, std::move(reply));
}

void Manager::Impl::begin_turn(Conversation& conversation, OpenTurn turn, MessageReply when,
                               Reply<TurnTicket> reply) {
    turn.record.conversation_key = conversation.record.key;
    turn.record.turn = ++conversation.record.last_turn;
    turn.record.first_seq = conversation.log->last_seq() + 1;
    turn.started = clock_.steady_now();
    ++stats_.turns_started;
    conversation.turn = std::move(turn);
    conversation.record.last_active_at = clock_.wall_now();
    conversation.last_activity = clock_.steady_now();
    if (base::logs_debug())
        LogLine(evt::turn_started)
            .field("conv", conversation.record.id)
            .field("turn", conversation.turn.record.turn)
            .debug();

    TurnTicket ticket;
    ticket.turn = conversation.turn.record.turn;
    ticket.after = conversation.turn.record.first_seq - 1;
    if (when == MessageReply::at_once && conversation.turn.record.idempotency_key.empty()) {
        journal_.add_lazily(PutTurn{conversation.turn.record});
        reply(ticket);
    } else {
        journal_.add(PutTurn{conversation.turn.record});
        journal_.after_commit([reply = std::move(reply), ticket] { reply(ticket); });
    }
    if (settings_.turn_limit.count() > 0) {
        conversation.turn_timer = timers_.arm(settings_.turn_limit, [this, id = conversation.record.id] {
            if (Conversation* late = find(id)) {
                late->turn_timer = 0;
                perform(*late, late->machine.turn_timed_out());
            }
        });
    }
    perform(conversation, conversation.machine.open_turn());
}

Result<View> Manager::Impl::interrupt(const std::string& id) {
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return no_conversation();
    if (!conversation->machine.turn_open())
        return Error(Errc::no_turn, "no turn is open");
    perform(*conversation, conversation->machine.interrupt());
    return view(*conversation);
}

void Manager::Impl::pause(const std::string& id, PauseMode mode, Reply<View> reply) {
    const auto refuse = [&](Error error) {
        timers_.defer([reply, error = std::move(error)] { reply(error); });
    };
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return refuse(no_conversation());
    if (conversation->machine.status() == Status::ended)
        return refuse(Error(Errc::conversation_ended, "the conversation has ended"));
    if (mode == PauseMode::warm && conversation->machine.turn_open())
        return refuse(Error(Errc::turn_in_progress,
                            "a turn is still open; interrupt it, wait for its `done` event, or pause cold, "
                            "which ends it"));
    conversation->pause_waiters.push_back(std::move(reply));
    if (mode == PauseMode::warm)
        return pause_warm(*conversation, PauseReason::user, "the conversation was paused");
    perform(*conversation,
            conversation->machine.pause(PauseReason::user, "paused", "the conversation was paused"));
}

void Manager::Impl::resume(const std::string& id, Reply<View> reply) {
    const auto refuse = [&](Error error) {
        timers_.defer([reply, error = std::move(error)] { reply(error); });
    };
    Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return refuse(no_conversation());
    if (auto accepted = accepts_work(); !accepted)
        return refuse(accepted.error());
    if (conversation->machine.status() == Status::ended)
        return refuse(Error(Errc::conversation_ended, "the conversation has ended"));
    if (sandboxes_.is_ending(conversation->record.sandbox_id))
        perform(*conversation, conversation->machine.sandbox_ending());
    if (!conversation->machine.sandbox_living()) {
        if (auto place = admission_.has_place(conversation->sandbox_record.limits); !place)
            return refuse(place.error());
    }
    conversation->last_activity = clock_.steady_now();
    conversation->start_waiters.push_back(std::move(reply));
    perform(*conversation, conversation->machine.resume());
}

Result<std::unique_ptr<Subscription>> Manager::Impl::subscribe(const std::string& id, std::uint64_t after) {
    const Conversation* conversation = find(id);
    if (conversation == nullptr || conversation->erasing)
        return no_conversation();
    const EventLog& log = *conversation->log;
    if (after > log.last_seq())
        return Error(Errc::invalid_request, "after is " + std::to_string(after) +
                                                ", but the log ends at event " +
                                                std::to_string(log.last_seq()));
    if (after != 0 && after + 1 < log.first_seq())
        return Error(Errc::seq_expired, "the log begins at event " + std::to_string(log.first_seq()) +
                                            "; read it again from after=0");
    return std::make_unique<Subscription>(conversation->log, after);
}

void Manager::Impl::shut_down(std::function<void()> done) {
    shutting_down_ = true;
    pool_.close();
    for (const auto& [key, conversation] : roster_.all()) {
        const Machine& machine = conversation->machine;
        // One that is frozen is paused already; that it now ends is no other reason.
        const auto reason = machine.sandbox_is_frozen() ? machine.reason() : PauseReason::server_restart;
        if (machine.sandbox_living() || machine.turn_open())
            perform(*conversation,
                    conversation->machine.pause(reason, "server_shutdown", "the server was stopped"));
    }
    sandboxes_.shut_down([this, done = std::move(done)] {
        // The last events come from the ends of the sandboxes, so the last commit comes after them.
        timers_.defer([this, done] {
            const auto flushed = journal_.flush();
            if (!flushed)
                LogLine(evt::store_failed).quoted("err", flushed.error().detail()).error();
            done();
        });
    });
}

}  // namespace atl::conversation
