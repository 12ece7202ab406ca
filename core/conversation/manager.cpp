#include "core/conversation/manager.hpp"

#include <charconv>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/journal.hpp"
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
                 Journal& journal, Store& store, ManagerSettings settings)
    : settings_(std::move(settings)),
      context_{clock, timers, sandboxes, journal, store, settings_, stats_},
      roster_(settings_.conversation_bounds),
      admission_({[this](const sandbox::Limits& limits) { return context_.sandboxes.room_for(limits); },
                  [this] { return pool_.shrink(); },
                  [this](const sandbox::Limits& limits) { return context_.sandboxes.worth_evicting(limits); },
                  [this] { return eviction_.evict(); },
                  [this] { return pool_.can_shrink() || eviction_.is_possible(); },
                  [this](const Error& why) { return eviction_.refusal(why); }}),
      standalone_(context_, admission_,
                  [this] { return roster_.room_for(std::nullopt, standalone_.count()); }),
      pool_(timers, sandboxes, settings_.pool,
            [this](const std::string& name) { return settings_.find_agent(name); }),
      retention_(context_, [this](const std::string& id) { forget(id); }) {
    sandboxes.set_observer(this);
    journal.on_refusal([this] { on_store_refused(); });
}

Manager::~Manager() {
    context_.sandboxes.set_observer(nullptr);
    context_.journal.on_refusal(nullptr);
}

Conversation* Manager::find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() || found->second->is_erasing() ? nullptr : found->second.get();
}

Conversation* Manager::find_by_sandbox(const std::string& sandbox_id) const {
    const auto found = by_sandbox_.find(sandbox_id);
    return found == by_sandbox_.end() ? nullptr : found->second;
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

Result<void> Manager::restore(Snapshot snapshot) {
    last_key_ = snapshot.last_key;
    return Restore(context_, *this).run(std::move(snapshot));
}

Conversation& Manager::restore_conversation(Record record, sandbox::Record sandbox_record) {
    return enlist(std::move(record), std::move(sandbox_record));
}

Conversation& Manager::enlist(Record record, sandbox::Record sandbox_record) {
    ConversationOwner& owner = *this;
    auto made = std::make_shared<Conversation>(context_, owner, std::move(record), std::move(sandbox_record));
    Conversation& conversation = *made;
    roster_.add(conversation);
    by_sandbox_.emplace(conversation.record().sandbox_id, &conversation);
    by_id_.emplace(conversation.id(), std::move(made));
    return conversation;
}

Result<void> Manager::check(const CreateRequest& request, const std::string& agent) const {
    if (auto accepted = accepts_work(); !accepted)
        return accepted;
    if (auto room = roster_.room_for(request.user_id, standalone_.count()); !room)
        return room;
    if (settings_.find_agent(agent) == nullptr)
        return Error(Errc::unknown_agent, "no agent of that name is configured; /v1/system lists them");
    if (request.network == sandbox::NetworkMode::host && !settings_.allow_host_network)
        return Error(Errc::network_not_allowed,
                     "network \"host\" is off; the operator allows it with --allow-host-network");
    return sandbox::check_env(request.env);
}

void Manager::create(CreateRequest request, Reply<View> reply) {
    Record record;
    record.agent = request.agent.empty() ? settings_.default_agent : request.agent;
    if (auto checked = check(request, record.agent); !checked)
        return refuse(reply, checked.error());
    auto claimed = context_.sandboxes.is_disk_short() ? std::nullopt : pool_.claim(record.agent, request);
    if (!claimed) {
        if (auto place = admission_.has_place(request.limits); !place)
            return refuse(reply, place.error());
    }
    record.id = claimed ? std::move(claimed->conversation_id) : base::new_id();
    auto made = claimed ? Result<sandbox::Record>(std::move(claimed->sandbox_record))
                        : make_sandbox(record.id, request);
    if (!made)
        return refuse(reply, made.error());
    record.key = ++last_key_;
    record.user_id = std::move(request.user_id);
    record.metadata = std::move(request.metadata);
    record.idle_seconds = request.idle_seconds.value_or(0);
    record.ttl_seconds = request.ttl_seconds.value_or(0);
    record.created_at = record.last_active_at = context_.clock.wall_now();
    record.sandbox_id = made->id;
    enlist(std::move(record), std::move(*made)).create(std::move(reply));
}

Result<sandbox::Record> Manager::make_sandbox(const std::string& conversation_id,
                                              const CreateRequest& request) {
    sandbox::Record sandbox_record;
    sandbox_record.conversation_id = conversation_id;
    sandbox_record.network = request.network;
    sandbox_record.limits = request.limits;
    sandbox_record.env = request.env;
    return context_.sandboxes.create(std::move(sandbox_record));
}

Result<View> Manager::get(const std::string& id) const {
    const Conversation* const conversation = find(id);
    return conversation == nullptr ? Result<View>(no_conversation()) : conversation->view();
}

Result<Page<View>> Manager::list(const ListQuery& query) const {
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
        last = conversation.record().key;
        if (conversation.is_erasing() || (query.status && conversation.machine().status() != *query.status))
            return true;
        page.items.push_back(conversation.view());
        bytes += conversation.record().metadata.size() + base::k_list_item_bytes;
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

void Manager::patch(const std::string& id, const PatchRequest& patch, Reply<View> reply) {
    if (Conversation* const conversation = find(id))
        return conversation->patch(patch, std::move(reply));
    refuse(reply, no_conversation());
}

void Manager::remove(const std::string& id, Reply<void> reply) {
    if (Conversation* const conversation = find(id))
        return conversation->remove(std::move(reply));
    refuse(reply, no_conversation());
}

void Manager::message(const std::string& id, std::string content, std::string idempotency_key,
                      MessageReply when, Reply<TurnTicket> reply) {
    if (Conversation* const conversation = find(id))
        return conversation->message(std::move(content), std::move(idempotency_key), when, std::move(reply));
    refuse(reply, no_conversation());
}

Result<View> Manager::interrupt(const std::string& id) {
    Conversation* const conversation = find(id);
    return conversation == nullptr ? Result<View>(no_conversation()) : conversation->interrupt();
}

void Manager::pause(const std::string& id, PauseMode mode, Reply<View> reply) {
    if (Conversation* const conversation = find(id))
        return conversation->pause(mode, std::move(reply));
    refuse(reply, no_conversation());
}

void Manager::resume(const std::string& id, Reply<View> reply) {
    if (Conversation* const conversation = find(id))
        return conversation->resume(std::move(reply));
    refuse(reply, no_conversation());
}

void Manager::lease(const std::string& sandbox_id, LeaseUse use, LeaseReply reply) {
    Conversation* const conversation = find_by_sandbox(sandbox_id);
    if (conversation == nullptr)
        return standalone_.lease(sandbox_id, use, std::move(reply));
    if (!conversation->is_erasing())
        return conversation->lease(use, std::move(reply));
    context_.timers.defer([reply] { reply(no_conversation()); });
}

Result<std::unique_ptr<Subscription>> Manager::subscribe(const std::string& id, std::uint64_t after) {
    const Conversation* const conversation = find(id);
    if (conversation == nullptr)
        return no_conversation();
    const EventLog& log = *conversation->log();
    if (after > log.last_seq())
        return Error(Errc::invalid_request, "after is " + std::to_string(after) +
                                                ", but the log ends at event " +
                                                std::to_string(log.last_seq()));
    if (after != 0 && after + 1 < log.first_seq())
        return Error(Errc::seq_expired, "the log begins at event " + std::to_string(log.first_seq()) +
                                            "; read it again from after=0");
    return std::make_unique<Subscription>(conversation->log()->window(), after);
}

void Manager::shut_down(std::function<void()> done) {
    shutting_down_ = true;
    pool_.close();
    for (const auto& [key, conversation] : roster_.all())
        conversation->server_stops();
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
    if (Conversation* const conversation = find_by_sandbox(sandbox_id))
        return conversation->on_sandbox_exit(exit);
    if (!pool_.lost(sandbox_id))
        standalone_.on_exit(sandbox_id, exit);
}

void Manager::on_agent_exit(const std::string& sandbox_id, std::uint32_t, const std::string& detail) {
    if (Conversation* const conversation = find_by_sandbox(sandbox_id))
        conversation->on_agent_exit(detail);
    else
        pool_.lost(sandbox_id);
}

void Manager::on_resource_warning(const std::string& sandbox_id, std::string_view resource,
                                  std::uint64_t used, std::uint64_t limit) {
    if (Conversation* const conversation = find_by_sandbox(sandbox_id))
        conversation->on_resource_warning(resource, used, limit);
}

// Whoever waits for a place goes before what is only started ahead.
void Manager::on_room(const std::string& sandbox_id) {
    admission_.ended(sandbox_id);
    if (admission_.is_idle())
        pool_.fill();
}

/// What was only started ahead goes first.
std::optional<std::string> Manager::spare_one() {
    auto ended = pool_.shrink();
    return ended ? ended : eviction_.evict();
}

void Manager::on_removal_waiting(Conversation& conversation) {
    awaiting_removal_.insert(&conversation);
}

void Manager::on_removal_begun(Conversation& conversation) {
    awaiting_removal_.erase(&conversation);
}

void Manager::on_store_refused() {
    const std::vector<Conversation*> waiting(awaiting_removal_.begin(), awaiting_removal_.end());
    for (Conversation* conversation : waiting) {
        if (conversation->is_erasing())
            conversation->begin_removal();
    }
}

void Manager::on_only_log_left(const Conversation& conversation, base::Millis ended_ago) {
    retention_.keep(conversation.id(), ended_ago);
}

void Manager::forget(const std::string& id) {
    if (Conversation* const conversation = find(id))
        conversation->forget();
}

void Manager::on_erased(Conversation& conversation) {
    eviction_.erase(conversation);
    awaiting_removal_.erase(&conversation);
    roster_.erase(conversation);
    by_sandbox_.erase(conversation.record().sandbox_id);
    // Deferred: a callback of its query may be what led here.
    const auto node = by_id_.extract(conversation.id());
    context_.timers.defer([gone = node.mapped()] {});
}

}  // namespace atl::conversation
