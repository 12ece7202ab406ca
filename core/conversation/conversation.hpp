// A conversation. It performs the actions of its machine through the sandbox manager, its turn, its log and
// its leases, and answers the clients that wait. A request on it is answered once. Other parts know it by id;
// callbacks hold it weakly. Internal to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/conversation/admission.hpp"
#include "core/conversation/event_json.hpp"
#include "core/conversation/generations.hpp"
#include "core/conversation/leases.hpp"
#include "core/conversation/lifetime.hpp"
#include "core/conversation/machine.hpp"
#include "core/conversation/permissions.hpp"
#include "core/conversation/port_events.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/restarted_processes.hpp"
#include "core/conversation/store.hpp"
#include "core/conversation/turn.hpp"

namespace atl::conversation {

class Conversation;

/// The calls by which a conversation informs the registry that keeps it. Each call comes from inside a step
/// of the conversation: nothing here may act on that conversation.
class ConversationOwner {
  public:
    /// Succeeds if new work is accepted. Errors: shutting_down, storage_failed.
    virtual base::Result<void> accepts_work() const = 0;
    /// Calls LogShares::room_for_turn().
    virtual base::Result<void> room_for_turn(const Record& record, std::uint64_t message_bytes) = 0;
    virtual Admission& admission() = 0;
    /// Its status is `ended` from now on; its log can still be read.
    virtual void on_end(Conversation& conversation) = 0;
    /// A generation of it begins to live.
    virtual void on_living(Conversation& conversation) = 0;
    /// The removal of its sandbox waits for a commit: begin_removal() may be called before that.
    virtual void on_removal_waiting(Conversation& conversation) = 0;
    virtual void on_removal_begun(Conversation& conversation) = 0;
    /// Nothing of it lives, or nobody follows it any more: it may be at rest from now on.
    virtual void on_quiet() = 0;
    /// It has ended, and nothing but its log is left.
    virtual void on_only_log_left() = 0;
    /// It is gone. It is destroyed later, from the loop.
    virtual void on_erased(Conversation& conversation) = 0;

  protected:
    ~ConversationOwner() = default;
};

class Conversation final : public std::enable_shared_from_this<Conversation>,
                           private TurnOwner,
                           private GenerationOwner {
  public:
    /// `record.status` counts in the stats already.
    Conversation(Context& context, ConversationOwner& owner, Record record, sandbox::Record sandbox_record);
    ~Conversation() { stop_timers(); }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    const std::string& id() const noexcept { return record_.id; }
    const Record& record() const noexcept { return record_; }
    const sandbox::Record& sandbox_record() const noexcept { return sandbox_record_; }
    const Machine& machine() const noexcept { return machine_; }
    const std::shared_ptr<EventLog>& log() const noexcept { return log_; }
    /// Follows the log (EventLog::subscribe), as its user.
    base::Result<std::unique_ptr<Subscription>> subscribe(const Cursor& after) const {
        return log_->subscribe(after, base::ShareHolder::owner(record_.user_id, record_.id));
    }
    base::SteadyTime last_activity() const noexcept { return lifetime_.last_activity(); }
    /// True from the begin of a delete on: nobody hears of the conversation any more.
    bool is_erasing() const noexcept { return erasing_; }
    View view() const;
    /// True if the store has its record and its status as they are. `committed` is the journal's last batch.
    bool is_stored(std::uint64_t committed) const {
        return machine_.created() && record_.status == machine_.status() && last_batch_ <= committed;
    }
    /// True if the store has all of it: nothing of it lives, nobody follows it or waits for it, and all that
    /// it wrote is committed.
    bool is_resting() const;
    /// It is unloaded: does nothing by itself from now on.
    void stop_timers();
    /// Cuts about `bytes` of its log from the front, but half of it at the most. Returns how much.
    std::uint64_t cut_log(std::uint64_t bytes);

    // Requests; the errors are those of Manager. Precondition: it is not erasing.
    void create(Reply<View> reply);
    void patch(const PatchRequest& patch, Reply<View> reply);
    void remove(Reply<void> reply);
    /// Replies as remove() does, once it is_erasing().
    void join_removal(Reply<void> reply) { removal_waiters_.push_back(std::move(reply)); }
    /// With an Idempotency-Key the store is asked first; the checks are made when it has answered.
    void message(Message message, MessageReply when, const Reply<TurnTicket>& reply);
    base::Result<View> interrupt();
    base::Result<View> answer_permission(const std::string& permission_id, const std::string& option_id);
    void pause(PauseMode mode, Reply<View> reply);
    void resume(Reply<View> reply);
    void lease(LeaseUse use, LeaseReply reply);
    void wake(const Reply<void>& reply);
    /// Starts a process that is started again in each generation. Precondition: a lease is held.
    void start_kept(sandbox::ProcessSpec spec, Reply<pid_t> reply) {
        kept_processes_.start(std::move(spec), std::move(reply));
    }
    std::vector<sandbox::ProcessSpec> kept() const { return kept_processes_.list(); }
    /// Calls `reply` once that is committed, and says if there was such a process.
    void forget_kept(const std::string& process_id, Reply<bool> reply);

    // Events of its sandbox.
    void on_sandbox_exit(const sandbox::Exit& exit) {
        kept_processes_.end_generation();
        port_events_.close_all();
        perform(machine_.sandbox_exited(exit));
    }
    void on_agent_exit(const std::string& detail) { perform(machine_.agent_exited(detail)); }
    void on_resource_warning(std::string_view resource, std::uint64_t used, std::uint64_t limit) {
        if (machine_.created() && !erasing_ && machine_.status() != Status::ended && !machine_.is_borrowed())
            log_event(EventType::resource_warning, warning_data(resource, used, limit));
    }
    /// The ports that are listened on, or what its preview lists of them, have changed.
    void look_at_ports();
    void on_files_changed(const FileChange& change) {
        log_if_room(EventType::files_changed, files_data(change));
    }
    void on_preview_changed(const std::string& url) {
        if (machine_.created() && !erasing_ && machine_.status() != Status::ended)
            log_event(EventType::preview_changed, preview_data(url));
        look_at_ports();
    }
    void on_tool_progress(const ToolProgress& progress) {
        log_if_room(EventType::tool_progress, tool_data(progress));
    }
    /// Returns false where the log does not take the event.
    bool on_egress(const EgressNotice& notice) { return log_if_room(type_of(notice), egress_data(notice)); }
    /// Returns false where nobody who could decide hears of the question.
    bool on_egress_question(const EgressQuestion& question);
    void on_egress_decision(const std::string& id, std::string_view decision);
    /// The same as Manager::allow_host().
    void allow_host(const std::string& rule, const std::string& by_user_id, Reply<View> reply);
    void evict() {
        perform(machine_.pause(PauseReason::evicted, "paused",
                               "the server needed its place for another sandbox"));
    }
    void server_stops();

    /// Takes over what the store has of this conversation. Call once, first. A conversation that ran when the
    /// last server ended becomes paused (server_restart), and its open turn gets its error and its done.
    void restore(const StoredConversation& stored);

    /// The store refuses writes: the removal goes on without waiting for a commit.
    void begin_removal();
    /// Its time in the list of ended ones is over.
    void forget() {
        erasing_ = true;
        erase();
    }

  private:
    std::optional<sandbox::Exit> limit_at_end() override;
    sandbox::Channel* channel() override;
    const Machine& turn_machine() const override { return machine_; }
    void permission_asked(std::string_view data, Logged logged) override;
    void permission_cancelled(std::string_view data) override {
        permissions_.withdraw(parse_permission_request(data).id);
    }
    void turn_ends() override { permissions_.end_turn(); }
    void turn_done() override { perform(machine_.turn_done()); }
    void query_ended(sandbox::QueryEnd end, std::string_view detail) override;
    void turn_timed_out() override { perform(machine_.turn_timed_out()); }
    void interrupt_grace_passed() override { perform(machine_.grace_passed()); }

    void on_living() override { owner_.on_living(*this); }
    void on_started(const base::Result<void>& result) override;
    void on_agent_started(const base::Result<void>& result) override;
    void on_frozen(const base::Result<void>& result) override;

    void perform(const Actions& actions);
    void recount();
    void run(const action::LogSessionStart&) { log_event(EventType::session_start, session_data(record_)); }
    void run(const action::LogSandboxReady&) {
        log_event(EventType::sandbox_ready, ready_data(generation()));
        look_at_ports();
    }
    void run(const action::LogSandboxResumed& resumed) {
        log_event(EventType::sandbox_resumed, resumed_data(generation(), resumed.mode));
        look_at_ports();
        // A generation that served requests alone has run no kept process until now.
        if (resumed.mode == PauseMode::cold)
            kept_processes_.start_all();
    }
    void run(const action::LogSandboxPaused& paused);
    void run(const action::LogSandboxTerminated& terminated) {
        port_events_.close_all();
        log_event(EventType::sandbox_terminated, exit_data(terminated.exit));
    }
    void run(const action::LogTurnError& error) {
        turn_.append(EventType::error, error_data(error.code, error.message));
    }
    void run(const action::LogTurnInterrupted&) {
        turn_.append(EventType::turn_complete, R"({"result":"interrupted"})");
    }
    void run(const action::LogTurnDone&) {
        permissions_.end_turn();
        turn_.append(EventType::done, "{}");
    }
    void run(const action::StartSandbox& start) {
        machine_.created() ? generations_.start(start.agent) : generations_.claim_or_start();
    }
    void run(const action::StartAgent&) { generations_.start_agent(); }
    void run(const action::StopSandbox& stop) { generations_.stop(stop.exit_class, stop.reason); }
    void run(const action::FreezeSandbox&) { generations_.freeze(); }
    void run(const action::ThawSandbox&) {
        generations_.thaw();
        arm_life();
    }
    void run(const action::RemoveSandbox&);
    void run(const action::SendQuery&) {
        permits_told_ = std::make_shared<std::size_t>(0);  // a channel that is gone answers none of them
        turn_.send();
    }
    void run(const action::DropQuery&) { turn_.drop_query(); }
    void run(const action::SendInterrupt&) {
        turn_.interrupt();
        permissions_.end_turn();
    }
    void run(const action::CloseTurn&);
    void run(const action::ArmGrace& grace) { turn_.arm_grace(grace.wait); }
    void run(const action::DisarmGrace&) { turn_.disarm_grace(); }
    void run(const action::GrantLeases&) { leases_.grant(); }
    void run(const action::EndLeases& end);
    void run(const action::ArmLeaseGrace&);
    void run(const action::DisarmLeaseGrace&) { context_.timers.cancel(std::exchange(lease_timer_, 0)); }
    void run(const action::Persist&);
    void run(const action::AnswerStarted& answered);
    void run(const action::AnswerPaused&) { answer(pause_waiters_, std::nullopt); }
    void run(const action::Discard& discard);

    template <class Call>
    auto weakly(Call call);
    template <class T>
    void refuse(const T& reply, base::Error error);
    void open_turn(Message message, MessageReply when, const Reply<TurnTicket>& reply);
    base::Result<void> check_open() const;
    /// Succeeds if a sandbox may be used, or started, for this. Errors: those of check_room_to_write() and of
    /// Admission::check_capacity().
    base::Result<void> check_capacity(LeaseUse use = LeaseUse::request);
    /// Succeeds if the generation may write, or the use adds no files. Errors: user_share.
    base::Result<void> check_room_to_write(LeaseUse use);
    std::uint32_t generation() const;
    /// True if somebody follows it live, who could decide what waits for a person.
    bool is_attended() const noexcept { return log_->window()->has_followers(); }
    /// The last one who followed it has left: after a grace, what still waits for a person is denied.
    void on_unattended();
    void log_event(EventType type, const std::string& data) { log_->append(type, 0, data); }
    /// Logs the event with the open turn's number, so that a client that follows this turn alone sees it.
    void log_in_turn(EventType type, const std::string& data) {
        log_->append(type, machine_.turn_open() ? turn_.record().turn : 0, data);
    }
    /// Logs an event that requests can cause as often as they like. Returns false where the log takes no more
    /// of them for now.
    bool log_if_room(EventType type, const std::string& data) {
        const bool takes = machine_.created() && !erasing_ && machine_.status() != Status::ended &&
                           !machine_.is_borrowed() && log_->has_room(data.size());
        if (takes)
            log_event(type, data);
        return takes;
    }
    void pause_warm(PauseReason reason, const std::string& text);
    void answer(std::vector<Reply<View>>& waiters, std::optional<base::Error> error);
    /// Stores what has changed in the settings, and answers with them as they are.
    void store_change(Reply<View> reply);
    base::Error refused_start(std::string_view code, const std::string& detail) const;
    void end(const std::string& code, const std::string& text) { perform(machine_.end(code, text)); }
    /// Some of its processes or files may be left: then the store keeps the sandbox, and with it the lease of
    /// its uid.
    void on_removal_answered() {
        if (erasing_)
            erase();
    }
    void on_sandbox_removed();
    void resolve(const OpenQuestions& questions, std::uint64_t turn);
    void restore_turn(const TurnRecord& turn);
    void erase();
    void touch() { lifetime_.touch(context_.clock.steady_now()); }
    void put_sandbox();
    /// The number of a generation that only leases started, or that failed, is stored by nothing else.
    void store_generation() {
        if (!erased_ && machine_.created() && sandbox_record_.generation != stored_generation_)
            put_sandbox();
    }
    void on_permission(const PermissionDecision& decision);
    /// Again until the guest of this turn has it.
    void tell_permission(std::uint64_t turn, const std::string& id, const std::string& option_id);
    void arm_life();
    void on_life_timer(Lifetime::Over over);

    Context& context_;
    ConversationOwner& owner_;
    Record record_;
    sandbox::Record sandbox_record_;  // the last known one; outlives the sandbox
    Machine machine_;
    std::shared_ptr<EventLog> log_;
    Turn turn_;
    Permissions permissions_;
    std::shared_ptr<std::size_t> permits_told_;  // on their way to the agent of the last query
    Generations generations_;
    RestartedProcesses kept_processes_;
    PortEvents port_events_;
    LeaseTable leases_;
    Lifetime lifetime_;
    std::size_t open_egress_questions_ = 0;
    base::TimerId life_timer_ = 0;
    base::TimerId unattended_timer_ = 0;
    base::TimerId lease_timer_ = 0;                           // the timer of the grace after the last lease
    base::Error start_error_;                                 // the error of the last start that failed
    std::shared_ptr<char> asked_ = std::make_shared<char>();  // a copy goes with each question to the store
    bool erasing_ = false;
    bool erased_ = false;
    bool removal_waits_ = false;
    bool may_write_ = true;                // by the room for files when its generation was started, or later
    Status counted_as_;                    // the status that the stats count
    std::uint32_t stored_generation_ = 0;  // the number that the store has, or will have
    std::uint64_t last_batch_ = 0;         // the journal's last batch that it writes to or waits for
    std::vector<Reply<View>> start_waiters_;
    std::vector<Reply<View>> pause_waiters_;
    std::vector<Reply<void>> removal_waiters_;
};

}  // namespace atl::conversation
