#include "core/conversation/manager.hpp"

#include <algorithm>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/committed_reply.hpp"
#include "core/conversation/digest.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/list_cursor.hpp"
#include "core/conversation/user_erasure.hpp"
#include "core/conversation/view.hpp"
#include "core/sandbox/env_policy.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::Result;

namespace {

Error no_conversation() {
    return {Errc::not_found, "there is no such conversation"};
}

}  // namespace

Manager::Manager(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes,
                 Journal& journal, Store& store, base::Budget& log_budget, ManagerSettings settings)
    : settings_(std::move(settings)),
      logs_(log_budget, settings_.reserve_left),
      context_{clock,     timers, sandboxes,   journal,         store,
               settings_, stats_, Ages(clock), &preview_ports_, logs_},
      preview_ports_(timers, clock, journal, sandboxes.places().user_percent(),
                     [this](const std::string& sandbox_id, const std::string& url) {
                         if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
                             conversation->on_preview_changed(url);
                     }),
      roster_(settings_.conversation_bounds),
      eviction_(context_),
      admission_({[this](const sandbox::Demand& demand) { return context_.sandboxes.room_for(demand); },
                  [this] { return shrink_pool(); }, [this] { return can_shrink_pool(); },
                  [this](const sandbox::Limits& limits) { return context_.sandboxes.worth_evicting(limits); },
                  eviction_}),
      standalone_(context_, admission_,
                  [this] { return roster_.room_for(std::nullopt, standalone_.count()); }),
      file_watches_(timers, sandboxes),
      pool_(timers, sandboxes, settings_.pool,
            [this](const std::string& name) { return settings_.find_agent(name); }),
      keyed_creates_(context_,
                     {[this](CreateRequest request, Reply<View> reply) {
                          create_counted(std::move(request), std::move(reply));
                      },
                      [this](const std::string& id, Reply<View> reply) { get(id, std::move(reply)); }}),
      residents_(context_, {[this](StoredConversation stored) { load(std::move(stored)); },
                            [this](Conversation& conversation) { unload(conversation); }}),
      log_cuts_(context_, [this](const std::string& id,
                                 Residents::Found found) { residents_.get(id, std::move(found)); }),
      expiry_(context_, {[this](const std::string& id) { return residents_.is_loaded(id); },
                         [this](const std::string& id, const Expiry::Tried& tried) {
                             // A loaded conversation ends by itself.
                             residents_.get(id, [tried](const Result<Conversation*>& found) {
                                 tried(found ? Result<void>() : found.error());
                             });
                         },
                         [this](const std::string& id, const Expiry::Tried& tried) { forget(id, tried); }}),
      self_(std::make_shared<Manager*>(this)) {
    sandboxes.set_observer(this);
    journal.on_refusal([this] { on_store_refused(); });
}

Manager::~Manager() {
    *self_ = nullptr;
    context_.sandboxes.set_observer(nullptr);
    context_.journal.on_refusal(nullptr);
}

template <class T, class Call>
void Manager::with(const std::string& id, const Reply<T>& reply, Call call) {
    if (Conversation* const loaded = residents_.find(id))
        return call(*loaded);
    residents_.get(id, [reply, call = std::move(call)](const Result<Conversation*>& found) mutable {
        if (!found)
            reply(found.error());
        else if (*found == nullptr)
            reply(no_conversation());
        else
            call(**found);
    });
}

template <class T>
void Manager::refuse(const Reply<T>& reply, Error error) {
    context_.timers.defer([reply, error = std::move(error)] { reply(error); });
}

Result<void> Manager::accepts_work() const {
    if (shutting_down_)
        return Error(Errc::shutting_down, "the server is stopping; try again in a moment");
    return context_.journal.usable();
}

Result<void> Manager::restore(StartState state) {
    last_key_ = state.last_key;
    stats_.by_status = state.by_status;
    std::size_t open = 0;
    for (const Status status : k_all_statuses)
        open += status == Status::ended ? 0 : state.by_status[status];
    roster_.set_open(open);
    preview_ports_.restore(state.preview_numbers, state.resting_previews);
    expiry_.look_again();
    auto restored = Restore(context_, residents_).run(state);
    for (const sandbox::Record& record : state.standalone)
        standalone_.adopt(record);
    return restored;
}

Conversation& Manager::enlist(Record record, sandbox::Record sandbox_record) {
    ConversationOwner& owner = *this;
    auto made = std::make_shared<Conversation>(context_, owner, std::move(record), std::move(sandbox_record));
    Conversation& conversation = *made;
    residents_.add(std::move(made));
    return conversation;
}

void Manager::load(StoredConversation stored) {
    stored.sandbox.holder = stored.record.holder();
    if (!stored.sandbox.id.empty() && !stored.sandbox.gone)
        context_.sandboxes.adopt(stored.sandbox);
    Conversation& conversation = enlist(stored.record, std::move(stored.sandbox));
    roster_.on_loaded(conversation.record());
    conversation.restore(stored);
}

void Manager::unload(Conversation& conversation) {
    const Record& record = conversation.record();
    conversation.stop_timers();
    logs_.on_unloaded(record.user_id, conversation.log()->bytes() + record_bytes(record.metadata));
    eviction_.erase(conversation);
    roster_.on_unloaded(conversation.record());
    if (record.status != Status::ended) {
        context_.sandboxes.release(record.sandbox_id);
        if (record.ttl_seconds > 0)
            expiry_.look_again();
    }
    residents_.remove(conversation);
}

Result<void> Manager::check(const CreateRequest& request, const std::string& agent) const {
    if (auto accepted = accepts_work(); !accepted)
        return accepted;
    if (auto room = roster_.room_for(request.user_id, standalone_.count()); !room)
        return room;
    if (auto room = context_.sandboxes.room_for_files(request.user_id); !room)
        return room;
    if (auto room = logs_.room_for_record(request.user_id, request.metadata); !room)
        return room;
    if (auto there = settings_.check_agent(agent); !there)
        return there;
    if (auto may = check_network(context_, request.network); !may)
        return may;
    return sandbox::check_env(request.env);
}

void Manager::create(CreateRequest request, Reply<View> reply) {
    if (auto accepted = accepts_work(); !accepted)
        return refuse(reply, accepted.error());
    request.idempotency_key.empty() ? create_counted(std::move(request), std::move(reply))
                                    : keyed_creates_.create(std::move(request), std::move(reply));
}

void Manager::create_counted(CreateRequest request, Reply<View> reply) {
    const auto user_id = request.user_id;
    if (!user_id || roster_.is_counted(*user_id))
        return create_now(std::move(request), std::move(reply));
    count_user(*user_id, [this, request = std::move(request),
                          reply = std::move(reply)](const Result<void>& counted) mutable {
        if (!counted)
            return refuse(reply, counted.error());
        const std::string user = *request.user_id;
        create_now(std::move(request), std::move(reply));
        roster_.drop_unused(user);
    });
}

void Manager::count_user(const std::string& user_id, std::function<void(Result<void>)> done) {
    auto ask = [self = self_, user_id, done = std::move(done)](const Result<void>& committed) {
        if (*self == nullptr)
            return;
        if (!committed)
            return done(committed.error());
        // The count goes beyond the bound, which may have been lowered.
        const std::size_t most = 2 * (*self)->roster_.bounds().of_user + 1;
        const std::uint64_t ends = (*self)->roster_.ends();
        auto counted = [self, user_id, ends, done](Result<std::size_t> open) {
            if (*self == nullptr)
                return;
            Roster& roster = (*self)->roster_;
            if (!open)
                return done(open.error());
            // A conversation of the user may have ended since it was counted.
            if (!roster.is_counted(user_id) && roster.ends() != ends)
                return (*self)->count_user(user_id, done);
            if (!roster.is_counted(user_id))
                roster.set_open_of(user_id, *open);
            done({});
        };
        (*self)->context_.store.count_open(user_id, most, std::move(counted));
    };
    // A conversation that has ended counts until that is committed.
    if (context_.journal.idle())
        return ask({});
    reply_after_commit<void>(
        context_.journal, std::move(ask), [] { return Result<void>(); },
        Error(Errc::storage_failed, "the database takes no writes; nothing was made"));
}

void Manager::create_now(CreateRequest request, Reply<View> reply) {
    Record record;
    record.agent = request.agent.empty() ? settings_.default_agent : request.agent;
    if (auto checked = check(request, record.agent); !checked)
        return refuse(reply, checked.error());
    record.user_id = std::move(request.user_id);
    record.made_by = std::move(request.made_by);
    const base::ShareHolder holder = record.holder();
    const bool may =
        !context_.sandboxes.is_disk_short() && context_.sandboxes.has_share({request.limits, holder});
    auto claimed = may ? pool_.claim(record.agent, request) : std::nullopt;
    if (!claimed) {
        if (auto place = admission_.check_capacity({request.limits, holder}); !place)
            return refuse(reply, place.error());
    }
    record.id = claimed ? std::move(claimed->conversation_id) : base::new_id();
    auto made = claimed ? Result<sandbox::Record>(std::move(claimed->sandbox_record))
                        : make_sandbox(record.id, request);
    if (!made)
        return refuse(reply, made.error());
    context_.sandboxes.give_to(made->id, holder).value();
    made->holder = holder;
    made->preview = std::move(request.preview);
    context_.sandboxes.set_preview(made->id, made->preview);
    if (!preview_ports_.reserve(*made))
        reply = warn_of_ports(made->id, std::move(reply));
    record.key = ++last_key_;
    record.idle_seconds = context_.settings.default_idle_seconds;
    base::change_fields(k_client_fields, record, request);
    record.metadata = std::move(request.metadata);
    record.tools = request.tools;
    record.ttl_seconds = request.ttl_seconds.value_or(context_.settings.default_ttl_seconds);
    record.created_at = record.last_active_at = context_.clock.wall_now();
    record.sandbox_id = made->id;
    record.create_key = std::move(request.idempotency_key);
    record.create_digest = record.create_key.empty() ? "" : digest(request.fingerprint);
    ++stats_.by_status[record.status];
    Conversation& conversation = enlist(std::move(record), std::move(*made));
    roster_.on_made(conversation.record());
    conversation.create(std::move(reply));
}

Result<sandbox::Record> Manager::make_sandbox(const std::string& conversation_id,
                                              const CreateRequest& request) {
    sandbox::Record sandbox_record;
    sandbox_record.conversation_id = conversation_id;
    sandbox_record.network = request.network.mode;
    sandbox_record.egress = request.network.egress;
    sandbox_record.limits = request.limits;
    sandbox_record.env = request.env;
    return context_.sandboxes.create(std::move(sandbox_record));
}

void Manager::get(const std::string& id, Reply<View> reply) {
    residents_.show(id, [reply](Result<std::optional<View>> found) {
        if (!found)
            return reply(found.error());
        *found ? reply(std::move(**found)) : reply(no_conversation());
    });
}

void Manager::list(const ListQuery& query, Reply<Page<View>> reply) {
    ListRange range{query.filter, query.order, {}, query.limit};
    if (!query.cursor.empty()) {
        const auto from = parse_list_cursor(query.cursor);
        if (!from)
            return reply(Error(Errc::invalid_request, "cursor is not one that this route gave out"));
        range.from = *from;
    }
    const std::uint64_t committed = context_.journal.committed();
    context_.store.list(range, [self = self_, range, committed, reply](Result<ConversationList> listed) {
        if (*self == nullptr)
            return;
        if (!listed)
            return reply(listed.error());
        Page<View> page;
        (*self)->list_rows(range, committed, std::move(*listed), page);
        reply(std::move(page));
    });
}

/// For a loaded conversation the list tells the present state, not the one that was stored last.
void Manager::list_rows(const ListRange& range, std::uint64_t committed, ConversationList listed,
                        Page<View>& page) const {
    for (ListedConversation& item : listed.items) {
        const Conversation* const loaded = residents_.find(item.record.id);
        if (loaded == nullptr &&
            (residents_.is_loaded(item.record.id) || residents_.is_erased(item.record.id)))
            continue;  // it is being deleted
        View view = loaded != nullptr ? loaded->view()
                                      : view_of(context_, std::move(item.record), std::move(item.sandbox));
        if (loaded == nullptr || matches(range.filter, view.record))
            page.items.push_back(std::move(view));
    }
    ListPlace next = listed.next;
    add_unlisted(range, committed, next, page);
    if (next.key != 0)
        page.next = list_cursor_text(next);
}

/// The conversations in memory that the store did not have when it was asked, or not in a state that matches.
/// They may be starting, for example. `committed`: the journal's last batch at that time.
void Manager::add_unlisted(const ListRange& range, std::uint64_t committed, ListPlace& next,
                           Page<View>& page) const {
    const auto is_before = [&range](const ListPlace& a, const ListPlace& b) {
        return range.order == ListOrder::newest_first ? a > b : a < b;
    };
    const auto is_between = [&](const Conversation& it) {
        const ListPlace place = place_of(it.record());
        return (range.from.key == 0 || is_before(range.from, place)) &&
               (next.key == 0 || !is_before(next, place)) && !it.is_erasing() &&
               std::ranges::none_of(page.items,
                                    [&](const View& view) { return view.record.key == place.key; });
    };
    const bool has_activity = range.filter.active_after || range.filter.active_before;
    residents_.for_each([&](const Conversation& it) {
        // The store found a conversation that is stored as it is; activity is stored with the next change.
        if ((has_activity || !it.is_stored(committed)) && is_between(it) &&
            matches(range.filter, it.record(), it.machine().status()))
            page.items.push_back(it.view());
    });
    std::ranges::sort(page.items, is_before, [](const View& view) { return place_of(view.record); });
    if (page.items.size() > range.limit) {
        page.items.resize(range.limit);
        next = place_of(page.items.back().record);
    }
}

void Manager::patch(const std::string& id, const PatchRequest& patch, Reply<View> reply) {
    with(id, reply, [patch, reply](Conversation& it) { it.patch(patch, reply); });
}

void Manager::remove(const std::string& id, Reply<void> reply) {
    with(id, reply, [reply](Conversation& it) { it.remove(reply); });
}

void Manager::erase_user(const std::string& user_id, Reply<ErasedUser> reply) {
    UserThings things;
    things.list = [this](const ListQuery& query, Reply<Page<View>> done) { list(query, std::move(done)); };
    things.remove = [this](const std::string& id, Reply<void> done) { remove(id, std::move(done)); };
    things.list_sandboxes = [this](const SandboxQuery& query, Reply<Page<SandboxView>> done) {
        list_sandboxes(query, std::move(done));
    };
    things.remove_sandbox = [this](const std::string& id, Reply<void> done) {
        remove_sandbox(id, std::move(done));
    };
    things.starting_sandboxes = standalone_.starting_of(user_id);
    things.remove_starting = [this](const std::string& id, Reply<void> done) {
        standalone_.remove_starting(id, std::move(done));
    };
    things.remove_rest = [this, last_key = last_key_](const std::string& user, Reply<void> done) {
        return remove_resident(user, last_key, std::move(done));
    };
    things.last_key = last_key_;
    std::make_shared<UserErasure>(std::move(things), self_, context_, user_id, std::move(reply))->begin();
}

bool Manager::remove_resident(const std::string& user_id, std::int64_t last_key, Reply<void> reply) {
    Conversation* found = nullptr;
    residents_.for_each([&](Conversation& it) {
        if (it.record().key <= last_key && it.record().user_id == user_id)
            found = &it;
    });
    if (found != nullptr)
        found->is_erasing() ? found->join_removal(std::move(reply)) : found->remove(std::move(reply));
    return found != nullptr;
}

void Manager::message(const std::string& id, Message message, MessageReply when, Reply<TurnTicket> reply) {
    with(id, reply, [message = std::move(message), when, reply](Conversation& it) mutable {
        it.message(std::move(message), when, reply);
    });
}

void Manager::read_start(const View& view, Reply<EventPtr> reply) {
    auto answer = [reply = std::move(reply),
                   seq = view.open_turn->first_seq](Result<std::vector<EventPtr>> events) {
        if (!events)
            return reply(events.error());
        if (events->empty() || events->front()->seq != seq)
            return reply(Error(Errc::seq_expired, "the turn is no longer in the log"));
        reply(std::move(events->front()));
    };
    context_.store.read_events(view.record.key, view.open_turn->first_seq - 1, 1, std::move(answer));
}

void Manager::interrupt(const std::string& id, Reply<View> reply) {
    with(id, reply, [reply](Conversation& it) { reply(it.interrupt()); });
}

void Manager::answer_permission(const std::string& id, const std::string& permission_id,
                                const std::string& option_id, Reply<View> reply) {
    with(id, reply, [permission_id, option_id, reply](Conversation& it) {
        reply(it.answer_permission(permission_id, option_id));
    });
}

void Manager::pause(const std::string& id, PauseMode mode, Reply<View> reply) {
    with(id, reply, [mode, reply](Conversation& it) { it.pause(mode, reply); });
}

void Manager::resume(const std::string& id, Reply<View> reply) {
    with(id, reply, [reply](Conversation& it) { it.resume(reply); });
}

/// Calls `call` with the conversation that has the sandbox, loaded, or with null: no conversation has it.
/// not_found: the conversation or the sandbox is being removed, in any step of that.
void Manager::with_owner(const std::string& sandbox_id, Residents::Found call) {
    const auto call_with = [call](const Result<Conversation*>& owner) {
        const bool is_gone = owner && (*owner == nullptr || (*owner)->is_erasing());
        call(is_gone ? Result<Conversation*>(Error(Errc::not_found, "there is no such sandbox")) : owner);
    };
    if (Conversation* const loaded = residents_.find_by_sandbox(sandbox_id))
        return call_with(loaded);
    standalone_.get(sandbox_id, [this, call, call_with](const Result<SandboxView>& found) {
        if (!found)
            return call(found.error());
        const std::string& owner = found->record.conversation_id;
        if (owner.empty())
            return call(nullptr);
        residents_.get(owner, call_with);
    });
}

void Manager::lease(const std::string& sandbox_id, LeaseUse use, LeaseReply reply) {
    with_owner(sandbox_id, [this, sandbox_id, use, reply](const Result<Conversation*>& owner) {
        if (!owner)
            return context_.timers.defer([reply, error = owner.error()] { reply(error); });
        *owner != nullptr ? (*owner)->lease(use, reply) : standalone_.lease(sandbox_id, use, reply);
    });
}

void Manager::owner_of(const std::string& sandbox_id, Reply<std::optional<std::string>> reply) {
    with_owner(sandbox_id, [this, sandbox_id, reply](const Result<Conversation*>& owner) {
        if (!owner)
            return reply(owner.error());
        const sandbox::Record* const record = context_.sandboxes.find(sandbox_id);
        reply(*owner != nullptr ? (*owner)->record().user_id : record ? record->user_id : std::nullopt);
    });
}

void Manager::wake(const std::string& sandbox_id, const MayWake& may, const Reply<void>& reply) {
    with_owner(sandbox_id, [this, may, reply](const Result<Conversation*>& owner) {
        if (!owner)
            return refuse(reply, owner.error());
        if (*owner == nullptr)
            return refuse(reply, {Errc::sandbox_gone, "the sandbox has no conversation to be woken"});
        const Record& record = (*owner)->record();
        const auto allowed = may(base::ShareHolder::owner(record.user_id, record.id));
        allowed ? (*owner)->wake(reply) : refuse(reply, allowed.error());
    });
}

void Manager::start_kept_process(const Lease& lease, sandbox::ProcessSpec spec, Reply<pid_t> reply) {
    if (Conversation* const conversation = residents_.find_by_sandbox(lease.sandbox_id()))
        return conversation->start_kept(std::move(spec), std::move(reply));
    refuse(reply, Error(Errc::invalid_field,
                        "`restart` is for sandboxes of conversations: this one has a single generation")
                      .at("/restart"));
}

void Manager::kept_processes(const std::string& sandbox_id, Reply<std::vector<sandbox::ProcessSpec>> reply) {
    with_owner(sandbox_id, [reply](const Result<Conversation*>& owner) {
        if (!owner)
            return reply(owner.error());
        reply(*owner != nullptr ? (*owner)->kept() : std::vector<sandbox::ProcessSpec>());
    });
}

void Manager::forget_process(const std::string& sandbox_id, const std::string& process_id,
                             Reply<bool> reply) {
    with_owner(sandbox_id, [process_id, reply](const Result<Conversation*>& owner) {
        if (!owner)
            return reply(owner.error());
        *owner != nullptr ? (*owner)->forget_kept(process_id, reply) : reply(false);
    });
}

void Manager::watch_files(const std::string& sandbox_id, Reply<std::unique_ptr<FileWatch>> reply) {
    standalone_.get(sandbox_id, [this, sandbox_id, reply](const Result<SandboxView>& found) {
        if (!found)
            return reply(found.error());
        const bool is_standalone = found->record.conversation_id.empty();
        if (is_standalone && context_.sandboxes.status(sandbox_id) != sandbox::Status::ready)
            return reply(end_of_generation(context_.sandboxes, sandbox_id));
        using AtEnd = FileWatches::AtEnd;
        reply(file_watches_.follow(sandbox_id, is_standalone ? AtEnd::ends : AtEnd::waits_for_next));
    });
}

void Manager::subscribe(const std::string& id, const Cursor& after,
                        Reply<std::unique_ptr<Subscription>> reply) {
    with(id, reply, [after, reply](const Conversation& it) { reply(it.subscribe(after)); });
}

void Manager::shut_down(std::function<void()> done) {
    shutting_down_ = true;
    pool_.close();
    expiry_.stop();
    residents_.for_each([](Conversation& conversation) { conversation.server_stops(); });
    standalone_.server_stops();
    context_.sandboxes.shut_down([this, done = std::move(done)] {
        // The last events come from the ends of the sandboxes, so the last commit comes after them.
        context_.timers.defer([this, done] {
            context_.journal.flush([done](const Result<void>& flushed) {
                if (!flushed)
                    base::LogLine(base::evt::store_failed).quoted("err", flushed.error().detail()).error();
                done();
            });
        });
    });
}

void Manager::on_sandbox_exit(const std::string& sandbox_id, std::uint32_t, const sandbox::Exit& exit) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        return conversation->on_sandbox_exit(exit);
    if (!pool_.lost(sandbox_id))
        standalone_.on_exit(sandbox_id, exit);
}

void Manager::on_agent_exit(const std::string& sandbox_id, std::uint32_t, const std::string& detail) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        return conversation->on_agent_exit(detail);
    pool_.lost(sandbox_id);
}

void Manager::on_resource_warning(const std::string& sandbox_id, std::string_view resource,
                                  std::uint64_t used, std::uint64_t limit) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        conversation->on_resource_warning(resource, used, limit);
}

void Manager::on_ports(const std::string& sandbox_id) {
    if (Conversation* const conversation = residents_.find_by_sandbox(sandbox_id))
        conversation->look_at_ports();
}

// Waiting starts get capacity before the warm pool.
void Manager::on_capacity(const std::string& sandbox_id) {
    admission_.ended(sandbox_id);
    if (admission_.is_idle())
        pool_.fill();
}

void Manager::on_store_refused() {
    log_cuts_.look();
    for (Conversation* conversation : std::vector(awaiting_removal_.begin(), awaiting_removal_.end()))
        if (conversation->is_erasing())
            conversation->begin_removal();
}

void Manager::forget(const std::string& id, const Expiry::Tried& tried) {
    residents_.get(id, [tried](const Result<Conversation*>& found) {
        if (!found)
            return tried(found.error());
        if (*found != nullptr && !(*found)->sandbox_record().gone)
            return tried(Error(Errc::sandbox_in_use, "its sandbox is still to be removed"));
        if (*found != nullptr)
            (*found)->forget();
        tried({});
    });
}

void Manager::on_erased(Conversation& conversation) {
    const Record& record = conversation.record();
    if (record.user_id)
        context_.sandboxes.leave_log(record.sandbox_id, *record.user_id);
    eviction_.erase(conversation);
    awaiting_removal_.erase(&conversation);
    roster_.on_end(conversation.record());
    roster_.on_unloaded(conversation.record());
    residents_.erase(conversation);
}

}  // namespace atl::conversation
