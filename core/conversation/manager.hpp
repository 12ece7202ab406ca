// All conversations of a server: each is a log, a sandbox for life, and at most one open turn. The registry
// answers requests by handing them to the conversation that they name. Events of a sandbox it hands to the
// sandbox's conversation. It holds the conversations that live or are followed (residents.hpp); the others
// are rows of the store, loaded when a request names them. Lists come from the store.
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
#include "core/conversation/end_cause.hpp"
#include "core/conversation/eviction.hpp"
#include "core/conversation/expiry.hpp"
#include "core/conversation/file_watches.hpp"
#include "core/conversation/keyed_creates.hpp"
#include "core/conversation/log_cuts.hpp"
#include "core/conversation/log_shares.hpp"
#include "core/conversation/preview_ports.hpp"
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
            Store& store, base::Budget& log_budget, ManagerSettings settings);
    ~Manager() override;
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Takes over what the store remembers: conversations that ran come back paused (server_restart), open
    /// turns get their error and their done, sandboxes nobody owns are given to sandbox::Manager. Call once,
    /// first. Errors: storage_failed, also if the store does not answer at once.
    base::Result<void> restore(StartState state);
    /// Sandboxes that another part has started ahead: they give way as those of the own pool do.
    struct EvictablePool {
        /// Begins to end a sandbox, and names it. Returns nothing where there is none.
        std::function<std::optional<std::string>()> shrink;
        std::function<bool()> can_shrink;
    };
    void set_other_pool(EvictablePool other) { other_pool_ = std::move(other); }
    /// Counts the logs that are not in memory, in the budget of logs. Call once, after restore().
    void count_logs() { log_cuts_.count(last_key_); }
    /// Starts sandboxes ahead from now on, as the settings say.
    void open_pool() { pool_.fill(); }

    // Each `reply` is called once, from inside the call or later from the loop; from inside it where the
    // conversation is loaded and nothing has to be committed. A conversation that is followed is loaded.
    // Errors of all: not_found, storage_failed.

    /// Calls `reply` once: with the conversation when its sandbox is ready and that is committed; otherwise
    /// nothing is left. With an Idempotency-Key it is the conversation that the same request made before.
    /// Errors also: idempotency_key_reused.
    void create(CreateRequest request, Reply<View> reply);
    void get(const std::string& id, Reply<View> reply);
    /// A page may have fewer items than its bound, or none, and still a `next`: one call looks at a bounded
    /// number of conversations.
    void list(const ListQuery& query, Reply<Page<View>> reply);
    /// Calls `reply` once the change is committed.
    void patch(const std::string& id, const PatchRequest& patch, Reply<View> reply);
    /// Calls `reply` when sandbox, workspace and log are gone.
    void remove(const std::string& id, Reply<void> reply);
    /// Removes everything of a user that was there when this was called: conversations, ended ones too, and
    /// sandboxes without one. Calls `reply` when nothing of it can be read any more, or with the first error,
    /// after all others were removed. The contents of its logs leave the database in the background.
    void erase_user(const std::string& user_id, Reply<ErasedUser> reply);
    /// Starts a turn; it resumes a paused conversation first, and the turn waits for that. Calls `reply`
    /// once. With an Idempotency-Key the turn is committed before the agent hears of it, so that a retry
    /// cannot run it twice. Errors: not_found, turn_in_progress, conversation_ended, conversation_starting,
    /// idempotency_key_reused, storage_failed, shutting_down.
    void message(const std::string& id, Message message, MessageReply when, Reply<TurnTicket> reply);
    /// The turn_start of the open turn in `view`, where the view itself has none. Precondition: it has an
    /// open turn. Errors: seq_expired once it is gone from the log.
    void read_start(const View& view, Reply<EventPtr> reply);
    /// Asks the agent to stop the open turn, which ends as every turn does. Errors: no_turn.
    void interrupt(const std::string& id, Reply<View> reply);
    /// Answers a permission that the agent of the open turn asked for with one of its options; with none it
    /// is cancelled. Errors: not_found (also where no such permission waits), invalid_field.
    void answer_permission(const std::string& id, const std::string& permission_id,
                           const std::string& option_id, Reply<View> reply);
    /// Cold: ends the sandbox and keeps the workspace; an open turn ends first. Warm: freezes the sandbox,
    /// which is ended after the warm limit; cold where this host or the server's settings allow no warm
    /// pause, or the sandbox is not up. `reply` when it is paused. Errors: not_found, conversation_ended,
    /// turn_in_progress (warm only).
    void pause(const std::string& id, PauseMode mode, Reply<View> reply);
    /// Lets the sandbox go on, or starts it again; calls `reply` when it is ready.
    void resume(const std::string& id, Reply<View> reply);
    /// Makes a lease on the living generation of a sandbox, with a conversation or without. If a conversation
    /// owns the sandbox, it is started or thawed for the lease (README.md). Calls `reply` once, from the
    /// loop. Errors: not_found, conversation_ended, conversation_starting, sandbox_failed, sandbox_gone,
    /// disk_full, capacity, storage_failed, shutting_down.
    void lease(const std::string& sandbox_id, LeaseUse use, LeaseReply reply);
    /// The user of a sandbox, with a conversation, which is loaded for it, or without. Calls `reply` once,
    /// possibly from inside the call. Errors: not_found, storage_failed.
    void owner_of(const std::string& sandbox_id, Reply<std::optional<std::string>> reply);
    /// Makes the paused conversation of a sandbox active, for a client that only looks at it: without its
    /// agent, and never in the place of another sandbox. Calls `reply` once, from the loop, when the sandbox
    /// is up. `may` is asked first. Errors: those of lease() and of `may`; capacity also where something
    /// would have to be evicted; sandbox_gone also without a conversation, and while the last generation goes
    /// down.
    using MayWake = std::function<base::Result<void>(const base::ShareHolder& owner)>;
    void wake(const std::string& sandbox_id, const MayWake& may, const Reply<void>& reply);
    /// The operations of a held lease's generation; null once that is gone. They are valid until control
    /// returns to the loop; objects that they make may outlive the generation (sandbox/operations.hpp).
    sandbox::Operations* operations(const Lease& lease) {
        return context_.sandboxes.operations(lease.sandbox_id());
    }
    /// The operations of the generation that is up, without a lease: for a look that is no activity and keeps
    /// nothing living. Null where none is up. A frozen generation answers nothing.
    sandbox::Operations* operations_of_living(const std::string& sandbox_id) {
        return context_.sandboxes.operations(sandbox_id);
    }
    /// The user of what a living sandbox takes from the server. One that lives no more is a user of its own.
    base::ShareHolder user_of_living(const std::string& sandbox_id) const {
        const sandbox::Record* const record = context_.sandboxes.find(sandbox_id);
        return record != nullptr ? sandbox::user_of(*record) : base::ShareHolder::thing(sandbox_id);
    }
    /// The reason why operations() of a held lease are null.
    base::Error end_of(const Lease& lease) const {
        return end_of_generation(context_.sandboxes, lease.sandbox_id());
    }
    /// Succeeds if so many more bytes fit into the workspace of a living generation now; with none, if it is
    /// within its limit. Calls `reply` once, from the loop, after a measurement where that is in doubt.
    /// Errors: disk_full.
    void check_room(const std::string& sandbox_id, std::optional<std::uint64_t> bytes, Reply<void> reply) {
        context_.sandboxes.check_room(sandbox_id, bytes, std::move(reply));
    }

    /// The present settings of the preview of a sandbox, with the last change once that is committed. Errors:
    /// not_found, storage_failed.
    void preview(const std::string& sandbox_id, Reply<PreviewView> reply) const {
        standalone_.preview(sandbox_id, std::move(reply));
    }
    using PreviewChanged =
        std::function<void(const std::string& sandbox_id, const sandbox::PreviewSettings& now)>;
    /// `told` is called when the view of a sandbox's preview has changed, before that is committed; the
    /// sandbox is in memory. `told` may end what is open, and must not act on the sandbox. It may be
    /// null: then nobody is told.
    void tell_preview_changes(PreviewChanged told) { preview_changed_ = std::move(told); }
    /// The ports of this machine at which previews are shown; off until they are enabled.
    PreviewPorts& preview_ports() noexcept { return preview_ports_; }
    /// Gives the address at which a port is shown, for the events `port_opened`. Set before the first
    /// conversation is made.
    void set_port_url(PortUrl url) { context_.port_url = std::move(url); }
    /// `told` is called when nobody has followed a conversation for k_unattended_grace in which questions
    /// about hosts are open: it ends them. Empty: nobody is told.
    void set_unattended(std::function<void(const std::string& sandbox_id)> told) {
        context_.unattended = std::move(told);
    }
    /// Where can_connect() is false, connect() has to wait for the `ready` of await_connect().
    bool can_connect(const std::string& sandbox_id) const {
        return context_.sandboxes.can_connect(sandbox_id);
    }
    void await_connect(const std::string& sandbox_id, std::function<void()> ready) {
        context_.sandboxes.await_connect(sandbox_id, std::move(ready));
    }
    /// A connection to a port inside a sandbox that is ready. Holds no lease and is no activity. Errors:
    /// no_listener, sandbox_gone, host_unsupported; capacity, while no socket is there.
    base::Result<sandbox::InnerSocket> connect(const std::string& sandbox_id, std::uint16_t port) {
        return context_.sandboxes.connect(sandbox_id, port);
    }

    /// Starts a process that is started again in each generation of the conversation's sandbox, with another
    /// id each time. Calls `reply` once, with its pid, when it runs and that is committed. Errors:
    /// too_many_kept_processes, invalid_field for a sandbox without a conversation, sandbox_gone, those of
    /// sandbox::Operations::start_process().
    void start_kept_process(const Lease& lease, sandbox::ProcessSpec spec, Reply<pid_t> reply);
    /// The kept processes of a sandbox, running or not, with their present ids.
    void kept_processes(const std::string& sandbox_id, Reply<std::vector<sandbox::ProcessSpec>> reply);
    /// Forgets a kept process. A process that runs goes on, and does not come back. Calls `reply` once that
    /// is committed; false: none of that id is kept.
    void forget_process(const std::string& sandbox_id, const std::string& process_id, Reply<bool> reply);
    /// The settings of the tools in the sandbox. Errors: not_found, storage_failed.
    void tools(const std::string& sandbox_id, Reply<ToolSettings> reply);
    ToolSettings tools(const Lease& lease) const;

    /// A tool has changed files of a sandbox. Logs the event `files_changed`, where a conversation has the
    /// sandbox and its generation is not only borrowed.
    void files_changed(const std::string& sandbox_id, const FileChange& change);
    /// A tool is at work, or was, in a sandbox. Logs the event `tool_progress`, likewise.
    void tool_progress(const std::string& sandbox_id, const ToolProgress& progress);

    /// Requests have gone out of a sandbox, or were refused. Logs the event `egress_closed` or
    /// `egress_denied`, likewise; else a line in the log of the sandbox, while a generation of it lives. The
    /// caller bounds how many come.
    void on_egress(const std::string& sandbox_id, const EgressNotice& notice);
    /// A request waits for a person's decision. Logs the event `egress_request`. Returns false
    /// where nobody who could decide hears of it.
    bool on_egress_question(const std::string& sandbox_id, const EgressQuestion& question);
    /// Logs the event `egress_resolved`.
    void on_egress_decision(const std::string& sandbox_id, const std::string& id, std::string_view decision);
    /// Adds a rule to `network.allow` of the conversation that has the sandbox, by the decision of that user;
    /// empty: an operator's. Calls `reply` once that is committed. Errors: not_found where it rests or has
    /// none, those of patch().
    void allow_host(const std::string& sandbox_id, const std::string& rule, const std::string& by_user_id,
                    Reply<View> reply);
    /// The conversation of a sandbox that is in memory; null where it has none, or rests.
    const Record* record_of_sandbox(const std::string& sandbox_id) const;

    /// Follows the files of a sandbox, running or not. It starts nothing, holds no lease and is no activity.
    /// Errors also: sandbox_gone for a sandbox without a conversation that has ended.
    void watch_files(const std::string& sandbox_id, Reply<std::unique_ptr<FileWatch>> reply);

    /// The place before the first event of any log of the present epoch.
    Cursor log_beginning() const { return {0, settings_.log_epoch}; }
    /// Follows a log (EventLog::subscribe).
    void subscribe(const std::string& id, const Cursor& after, Reply<std::unique_ptr<Subscription>> reply);

    /// Sandboxes: those without a conversation are made, changed and removed here, all are listed.
    void create_sandbox(SandboxRequest request, Reply<SandboxView> reply) {
        standalone_.create(std::move(request), std::move(reply));
    }
    void patch_sandbox(const std::string& id, const SandboxPatch& patch, Reply<SandboxView> reply) {
        standalone_.patch(id, patch, std::move(reply));
    }
    void get_sandbox(const std::string& id, Reply<SandboxView> reply) {
        standalone_.get(id, std::move(reply));
    }
    void list_sandboxes(const SandboxQuery& query, Reply<Page<SandboxView>> reply) {
        standalone_.list(query, std::move(reply));
    }
    void sandbox_usage(const std::string& id, Reply<SandboxUsage> reply) {
        standalone_.usage(id, std::move(reply));
    }
    /// The logs of a sandbox that is there, or is gone and not yet forgotten.
    void sandbox_log(const std::string& id, std::uint64_t after, std::optional<sandbox::LogStream> only,
                     Reply<sandbox::LogPage> reply) {
        standalone_.log(id, after, only, std::move(reply));
    }
    /// Removes a sandbox. Refused for a sandbox that belongs to a conversation (sandbox_in_use): delete the
    /// conversation instead.
    void remove_sandbox(const std::string& id, Reply<void> reply) {
        standalone_.remove(id, std::move(reply));
    }

    /// The clock and the timers that it uses.
    const base::Clock& clock() const noexcept { return context_.clock; }
    base::Timers& timers() const noexcept { return context_.timers; }

    /// Succeeds if new work is accepted now. Errors: shutting_down, storage_failed.
    base::Result<void> ready() const { return accepts_work(); }
    /// Succeeds if a sandbox of another part may start now: nothing is ended for it, and no start waits
    /// before it. Errors: user_share, capacity, shutting_down.
    base::Result<void> has_capacity(const sandbox::Demand& demand) const {
        return admission_.has_capacity(demand);
    }
    /// Ends open turns and all sandboxes, commits, then calls `done`. New work is refused from now on.
    void shut_down(std::function<void()> done);

    /// The number of conversations that have not ended, and of sandboxes without one: the bound of all counts
    /// these.
    std::size_t count() const noexcept { return roster_.open() + standalone_.count(); }
    /// The number of conversations in memory; the others are rows of the store.
    std::size_t loaded() const noexcept { return residents_.size(); }
    const ConversationBounds& bounds() const noexcept { return roster_.bounds(); }
    const std::vector<sandbox::AgentSpec>& agents() const noexcept { return settings_.agents; }
    /// The limits of a sandbox whose request names none.
    const sandbox::Limits& default_limits() const noexcept { return context_.sandboxes.default_limits(); }
    const sandbox::PreviewSettings& default_preview() const noexcept {
        return context_.settings.default_preview;
    }
    std::vector<PoolState> pool() const { return pool_.states(); }
    const Stats& stats() const noexcept { return stats_; }

  private:
    std::optional<std::string> shrink_pool() {
        auto ended = other_pool_.shrink();
        return ended ? ended : pool_.shrink();
    }
    bool can_shrink_pool() const { return pool_.can_shrink() || other_pool_.can_shrink(); }
    void on_sandbox_exit(const std::string& sandbox_id, std::uint32_t generation,
                         const sandbox::Exit& exit) override;
    void on_resource_warning(const std::string& sandbox_id, std::string_view resource, std::uint64_t used,
                             std::uint64_t limit) override;
    void on_agent_exit(const std::string& sandbox_id, std::uint32_t generation,
                       const std::string& detail) override;
    void on_ports(const std::string& sandbox_id) override;
    void on_capacity(const std::string& sandbox_id) override;
    void on_status(const std::string& sandbox_id, sandbox::Status status) override {
        file_watches_.on_status(sandbox_id, status);
        const sandbox::Record* const record = context_.sandboxes.find(sandbox_id);
        // Sandboxes of the pool belong to nobody yet.
        if (status == sandbox::Status::ready && record != nullptr && residents_.find_by_sandbox(sandbox_id))
            preview_ports_.on_up(*record);
        else if (status == sandbox::Status::terminated || status == sandbox::Status::failed)
            preview_ports_.on_down(sandbox_id);
    }
    void on_removal(const std::string& sandbox_id) override {
        file_watches_.on_removed(sandbox_id);
        preview_ports_.on_removed(sandbox_id);
    }
    void on_preview(const std::string& sandbox_id, const sandbox::PreviewSettings& preview) override {
        if (preview_changed_)
            preview_changed_(sandbox_id, preview);
    }
    std::optional<std::string> pick_victim() override {
        auto ended = shrink_pool();
        return ended ? ended : eviction_.evict(nullptr);
    }

    base::Result<void> accepts_work() const override;
    base::Result<void> room_for_turn(const Record& record, std::uint64_t message_bytes) override {
        auto room = logs_.room_for_turn(record, message_bytes);
        if (!room)
            log_cuts_.look();
        return room;
    }
    Admission& admission() override { return admission_; }
    void on_end(Conversation& conversation) override { roster_.on_end(conversation.record()); }
    void on_living(Conversation& conversation) override { eviction_.add(conversation); }
    void on_removal_waiting(Conversation& conversation) override { awaiting_removal_.insert(&conversation); }
    void on_removal_begun(Conversation& conversation) override { awaiting_removal_.erase(&conversation); }
    void on_quiet() override { residents_.schedule_unload(); }
    void on_only_log_left() override { expiry_.look_again(); }
    void on_erased(Conversation& conversation) override;

    /// Calls `call` with the conversation, or `reply` with an error: not_found also for one that is being
    /// deleted.
    template <class T, class Call>
    void with(const std::string& id, const Reply<T>& reply, Call call);
    void with_owner(const std::string& sandbox_id, Residents::Found call);
    ToolSettings standalone_tools(const std::string& sandbox_id) const;
    Conversation& enlist(Record record, sandbox::Record sandbox_record);
    void load(StoredConversation stored);
    void unload(Conversation& conversation);
    void count_user(const std::string& user_id, std::function<void(base::Result<void>)> done);
    void create_counted(CreateRequest request, Reply<View> reply);
    void create_now(CreateRequest request, Reply<View> reply);
    bool remove_resident(const std::string& user_id, std::int64_t last_key, Reply<void> reply);
    void list_rows(const ListRange& range, std::uint64_t committed, ConversationList listed,
                   Page<View>& page) const;
    void add_unlisted(const ListRange& range, std::uint64_t committed, ListPlace& next,
                      Page<View>& page) const;
    base::Result<void> check(const CreateRequest& request, const std::string& agent) const;
    /// Has the log of a new conversation say that no port is left for its preview.
    Reply<View> warn_of_ports(std::string sandbox_id, Reply<View> reply) {
        return [this, sandbox_id = std::move(sandbox_id), reply = std::move(reply)](base::Result<View> made) {
            if (made)
                on_resource_warning(sandbox_id, "preview_ports", base::k_preview_numbers,
                                    base::k_preview_numbers);
            reply(std::move(made));
        };
    }
    base::Result<sandbox::Record> make_sandbox(const std::string& conversation_id,
                                               const CreateRequest& request);
    template <class T>
    void refuse(const Reply<T>& reply, base::Error error);
    void on_store_refused();
    void forget(const std::string& id, const Expiry::Tried& tried);

    const ManagerSettings settings_;
    Stats stats_;
    LogShares logs_;
    Context context_;
    PreviewPorts preview_ports_;
    Roster roster_;
    Eviction eviction_;
    Admission admission_;
    StandaloneSandboxes standalone_;
    FileWatches file_watches_;
    WarmPool pool_;
    EvictablePool other_pool_{[] { return std::nullopt; }, [] { return false; }};
    KeyedCreates keyed_creates_;
    Residents residents_;
    LogCuts log_cuts_;
    Expiry expiry_;
    std::unordered_set<Conversation*> awaiting_removal_;  // their end is not committed yet
    PreviewChanged preview_changed_;
    std::int64_t last_key_ = 0;
    bool shutting_down_ = false;
    std::shared_ptr<Manager*> self_;  // null inside once it is destroyed
};

}  // namespace atl::conversation
