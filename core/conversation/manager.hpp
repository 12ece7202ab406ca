// All conversations of a server: each is a log, a sandbox for life, and at most one open turn. The registry
// answers requests by handing them to the conversation that they name, and hands what happens to a sandbox to
// its conversation.
//
// Invariants: every turn that starts ends with exactly one `done`; nothing is told to a client before it is
// committed; whatever a sandbox does changes only its own conversation.
// Not here: HTTP forms, processes, SQL; one conversation's life (conversation.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/conversation/admission.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/eviction.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/restore.hpp"
#include "core/conversation/retention.hpp"
#include "core/conversation/roster.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/standalone_sandboxes.hpp"
#include "core/conversation/subscription.hpp"
#include "core/conversation/warm_pool.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

class Manager final : private sandbox::Observer, private ConversationOwner, private Restore::Target {
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

    /// Takes over what the store remembers, as it was loaded: conversations come back paused
    /// (server_restart), open turns get their error and their done, sandboxes nobody owns are given to
    /// sandbox::Manager. Call once, first.
    base::Result<void> restore(Snapshot snapshot);
    /// Starts sandboxes ahead from now on, as the settings say.
    void open_pool() { pool_.fill(); }

    /// `reply` once: the conversation when its sandbox is ready and that is committed; otherwise nothing is
    /// left.
    void create(CreateRequest request, Reply<View> reply);
    base::Result<View> get(const std::string& id) const;
    /// A page may have fewer items than its bound, or none, and still a `next`: one call looks at a bounded
    /// number of conversations.
    base::Result<Page<View>> list(const ListQuery& query) const;
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
    /// Asks the agent to stop the open turn, which ends as every turn does. Errors: not_found, no_turn.
    base::Result<View> interrupt(const std::string& id);
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

    /// Errors: not_found; seq_expired if `after` lies before the log's beginning and is not 0.
    base::Result<std::unique_ptr<Subscription>> subscribe(const std::string& id, std::uint64_t after);

    /// Sandboxes: those without a conversation are made and removed here, all are listed.
    void create_sandbox(SandboxRequest request, Reply<SandboxView> reply) {
        standalone_.create(std::move(request), std::move(reply));
    }
    base::Result<SandboxView> get_sandbox(const std::string& id) const { return standalone_.get(id); }
    base::Result<Page<SandboxView>> list_sandboxes(std::size_t limit, const std::string& cursor) const {
        return standalone_.list(limit, cursor);
    }
    /// Errors: not_found.
    base::Result<SandboxUsage> sandbox_usage(const std::string& id) const { return standalone_.usage(id); }
    /// Of a sandbox that is there, or is gone and not yet forgotten. Errors: not_found.
    base::Result<sandbox::LogPage> sandbox_log(const std::string& id, std::uint64_t after,
                                               std::optional<sandbox::LogStream> only) const {
        return standalone_.log(id, after, only);
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
    void on_sandbox_made(const sandbox::Record& record) override { standalone_.enlist(record); }
    void on_sandbox_dropped(const sandbox::Record& record) override { standalone_.delist(record); }
    void on_removal_waiting(Conversation& conversation) override;
    void on_removal_begun(Conversation& conversation) override;
    void on_only_log_left(const Conversation& conversation, base::Millis ended_ago) override;
    void on_erased(Conversation& conversation) override;

    void restore_sandbox(const sandbox::Record& record) override { standalone_.adopt(record); }
    Conversation& restore_conversation(Record record, sandbox::Record sandbox_record) override;

    /// Null also for one that is being deleted.
    Conversation* find(const std::string& id) const;
    Conversation* find_by_sandbox(const std::string& sandbox_id) const;
    Conversation& enlist(Record record, sandbox::Record sandbox_record);
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
    Retention retention_;
    std::unordered_map<std::string, std::shared_ptr<Conversation>> by_id_;
    std::unordered_map<std::string, Conversation*> by_sandbox_;
    std::unordered_set<Conversation*> awaiting_removal_;  // their end is not committed yet
    std::int64_t last_key_ = 0;
    bool shutting_down_ = false;
};

}  // namespace atl::conversation
