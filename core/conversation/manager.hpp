// All conversations of a server: each is a log, a sandbox for life, and at most one open turn. The registry
// answers requests by handing them to the conversation that they name, and hands what happens to a sandbox to
// its conversation. It holds those that live or are followed (residents.hpp); the others are rows of the
// store, loaded when a request names them. Lists come from the store.
//
// Invariants: every turn that starts ends with exactly one `done`; nothing is told to a client before it is
// committed; whatever a sandbox does changes only its own conversation.
// Not here: HTTP forms, processes, SQL; one conversation's life (conversation.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/conversation/admission.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/eviction.hpp"
#include "core/conversation/expiry.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/residents.hpp"
#include "core/conversation/restore.hpp"
#include "core/conversation/roster.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/standalone_sandboxes.hpp"
#include "core/conversation/subscription.hpp"
#include "core/conversation/warm_pool.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

class Manager final : private sandbox::Observer, private ConversationOwner {
  public:
    template <class T>
    using Reply = conversation::Reply<T>;
    using MessageReply = conversation::MessageReply;
    using SandboxRequest = conversation::SandboxRequest;
    using SandboxView = conversation::SandboxView;
    using SandboxUsage = conversation::SandboxUsage;

    Manager(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes, Journal& journal,
            Store& store, ManagerSettings settings);
    ~Manager() override;
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Takes over what the store remembers: conversations that ran come back paused (server_restart), open
    /// turns get their error and their done, sandboxes nobody owns are given to sandbox::Manager. Call once,
    /// first. Errors: storage_failed, also if the store does not answer at once.
    base::Result<void> restore(StartState state);
    /// Starts sandboxes ahead from now on, as the settings say.
    void open_pool() { pool_.fill(); }

    // Each `reply` is called once, from inside the call or later from the loop; from inside it where the
    // conversation is loaded and nothing has to be committed. A conversation that is followed is loaded.
    // Errors of all: not_found, storage_failed.

    /// `reply` once: the conversation when its sandbox is ready and that is committed; otherwise nothing is
    /// left.
    void create(CreateRequest request, Reply<View> reply);
    void get(const std::string& id, Reply<View> reply);
    /// A page may have fewer items than its bound, or none, and still a `next`: one call looks at a bounded
    /// number of conversations.
    void list(const ListQuery& query, Reply<Page<View>> reply);
    /// `reply` once the change is committed.
    void patch(const std::string& id, const PatchRequest& patch, Reply<View> reply);
    /// `reply` when sandbox, workspace and log are gone.
    void remove(const std::string& id, Reply<void> reply);
    /// Starts a turn; resumes a paused conversation first, which the turn waits for. `reply` once.
    /// `idempotency_key` may be empty; with one the turn is committed before the agent hears of it, so that a
    /// retry cannot run it twice. Errors: not_found, turn_in_progress,
    /// conversation_ended, conversation_starting, idempotency_key_reused, storage_failed, shutting_down.
    void message(const std::string& id, std::string content, std::string idempotency_key, MessageReply when,
                 Reply<TurnTicket> reply);
    /// Asks the agent to stop the open turn, which ends as every turn does. Errors: no_turn.
    void interrupt(const std::string& id, Reply<View> reply);
    /// Cold: ends the sandbox and keeps the workspace; an open turn ends first. Warm: freezes the sandbox,
    /// which is ended after the warm limit; cold where this host or the server's settings allow no warm
    /// pause, or the sandbox is not up. `reply` when it is paused. Errors: not_found, conversation_ended,
    /// turn_in_progress (warm only).
    void pause(const std::string& id, PauseMode mode, Reply<View> reply);
    /// Lets the sandbox go on, or starts it again; `reply` when it is ready.
    void resume(const std::string& id, Reply<View> reply);
    /// A lease on the living generation of a sandbox, with a conversation or without; one that a conversation
    /// owns is started or thawed for it (README.md). `reply` once, from the loop. Errors: not_found,
    /// conversation_ended, conversation_starting, sandbox_failed, sandbox_gone, capacity, storage_failed,
    /// shutting_down.
    void lease(const std::string& sandbox_id, LeaseUse use, LeaseReply reply);

    /// Errors: seq_expired if `after` lies before the log's beginning and is not 0; invalid_request beyond
    /// its end.
    void subscribe(const std::string& id, std::uint64_t after, Reply<std::unique_ptr<Subscription>> reply);

    /// Sandboxes: those without a conversation are made and removed here, all are listed.
    void create_sandbox(SandboxRequest request, Reply<SandboxView> reply) {
        standalone_.create(std::move(request), std::move(reply));
    }
    void get_sandbox(const std::string& id, Reply<SandboxView> reply) {
        standalone_.get(id, std::move(reply));
    }
    void list_sandboxes(std::size_t limit, const std::string& cursor, Reply<Page<SandboxView>> reply) {
        standalone_.list(limit, cursor, std::move(reply));
    }
    void sandbox_usage(const std::string& id, Reply<SandboxUsage> reply) {
        standalone_.usage(id, std::move(reply));
    }
    /// Of a sandbox that is there, or is gone and not yet forgotten.
    void sandbox_log(const std::string& id, std::uint64_t after, std::optional<sandbox::LogStream> only,
                     Reply<sandbox::LogPage> reply) {
        standalone_.log(id, after, only, std::move(reply));
    }
    /// Refused for a sandbox that belongs to a conversation (sandbox_in_use): that is deleted instead.
    void remove_sandbox(const std::string& id, Reply<void> reply) {
        standalone_.remove(id, std::move(reply));
    }

    /// Whether new work is accepted now. Errors: shutting_down, storage_failed.
    base::Result<void> ready() const { return accepts_work(); }
    /// Ends open turns and all sandboxes, commits, then calls `done`. New work is refused from now on.
    void shut_down(std::function<void()> done);

    /// Conversations that have not ended, and sandboxes without one: what the bound of all counts.
    std::size_t count() const noexcept { return roster_.open() + standalone_.count(); }
    /// Conversations in memory; the others are rows of the store.
    std::size_t loaded() const noexcept { return residents_.size(); }
    const ConversationBounds& bounds() const noexcept { return roster_.bounds(); }
    const std::vector<sandbox::AgentSpec>& agents() const noexcept { return settings_.agents; }
    /// Of a sandbox whose request names no limits.
    const sandbox::Limits& default_limits() const noexcept { return context_.sandboxes.default_limits(); }
    std::vector<PoolState> pool() const { return pool_.states(); }
    const Stats& stats() const noexcept { return stats_; }

  private:
    void on_sandbox_exit(const std::string& sandbox_id, std::uint32_t generation,
                         const sandbox::Exit& exit) override;
    void on_resource_warning(const std::string& sandbox_id, std::string_view resource, std::uint64_t used,
                             std::uint64_t limit) override;
    void on_agent_exit(const std::string& sandbox_id, std::uint32_t generation,
                       const std::string& detail) override;
    void on_room(const std::string& sandbox_id) override;
    std::optional<std::string> spare_one() override;

    base::Result<void> accepts_work() const override;
    Admission& admission() override { return admission_; }
    void on_end(Conversation& conversation) override { roster_.on_end(conversation); }
    void on_living(Conversation& conversation) override { eviction_.add(conversation); }
    void on_removal_waiting(Conversation& conversation) override;
    void on_removal_begun(Conversation& conversation) override;
    void on_quiet() override { residents_.look_soon(); }
    void on_only_log_left() override { expiry_.look_again(); }
    void on_erased(Conversation& conversation) override;

    /// Calls `call` with the conversation, or `reply` with an error: not_found also for one that is being
    /// deleted.
    template <class T, class Call>
    void with(const std::string& id, const Reply<T>& reply, Call call);
    Conversation& enlist(Record record, sandbox::Record sandbox_record);
    void load(StoredConversation stored);
    void unload(Conversation& conversation);
    void count_user(const std::string& user_id, std::function<void(base::Result<void>)> done);
    void create_now(CreateRequest request, Reply<View> reply);
    void list_rows(const ListQuery& query, std::int64_t from_key, Listed<ListedConversation> listed,
                   Page<View>& page) const;
    void add_unlisted(const ListQuery& query, std::int64_t from_key, std::int64_t& next,
                      Page<View>& page) const;
    base::Result<void> check(const CreateRequest& request, const std::string& agent) const;
    base::Result<sandbox::Record> make_sandbox(const std::string& conversation_id,
                                               const CreateRequest& request);
    template <class T>
    void refuse(const Reply<T>& reply, base::Error error);
    void on_store_refused();
    void forget(const std::string& id);

    const ManagerSettings settings_;
    Stats stats_;
    Context context_;
    Roster roster_;
    Eviction eviction_;
    Admission admission_;
    StandaloneSandboxes standalone_;
    WarmPool pool_;
    Residents residents_;
    Expiry expiry_;
    std::unordered_set<Conversation*> awaiting_removal_;  // their end is not committed yet
    std::int64_t last_key_ = 0;
    bool shutting_down_ = false;
    std::shared_ptr<Manager*> self_;  // null inside once it is destroyed
};

}  // namespace atl::conversation
