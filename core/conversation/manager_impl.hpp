// The inside of conversation::Manager. Internal to core/conversation: only manager*.cpp include it.
// manager_impl.cpp answers requests, manager_actions.cpp performs what the machines ask for,
// manager_life.cpp ends what is idle or over and forgets it,
// manager_capacity.cpp says whose sandbox ends for another one,
// manager_restore.cpp takes over what the store remembers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/conversation/admission.hpp"
#include "core/conversation/conversation.hpp"
#include "core/conversation/manager.hpp"
#include "core/conversation/roster.hpp"
#include "core/conversation/standalone_sandboxes.hpp"
#include "core/conversation/warm_pool.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

class Manager::Impl final : public sandbox::Observer, public TurnEvents {
  public:
    Impl(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes, Journal& journal,
         Store& store, ManagerSettings settings);
    ~Impl() override;

    base::Result<void> restore(Snapshot snapshot);
    void open_pool() { pool_.fill(); }
    void create(CreateRequest request, Reply<View> reply);
    base::Result<View> get(const std::string& id) const;
    base::Result<Page<View>> list(const ListQuery& query) const;
    void patch(const std::string& id, const PatchRequest& patch, Reply<View> reply);
    void remove(const std::string& id, Reply<void> reply);
    void message(const std::string& id, std::string content, std::string idempotency_key, MessageReply when,
                 Reply<TurnTicket> reply);
    base::Result<View> interrupt(const std::string& id);
    void pause(const std::string& id, PauseMode mode, Reply<View> reply);
    void resume(const std::string& id, Reply<View> reply);
    base::Result<std::unique_ptr<Subscription>> subscribe(const std::string& id, std::uint64_t after);
    base::Result<void> accepts_work() const;
    void shut_down(std::function<void()> done);

    StandaloneSandboxes& loose() noexcept { return standalone_; }
    std::vector<PoolState> pool() const { return pool_.states(); }
    std::size_t count() const noexcept { return roster_.open() + standalone_.count(); }
    const ConversationBounds& bounds() const noexcept { return roster_.bounds(); }
    const std::vector<sandbox::AgentSpec>& agents() const noexcept { return settings_.agents; }
    const sandbox::Limits& default_limits() const noexcept { return sandboxes_.default_limits(); }
    const Stats& stats() const noexcept { return stats_; }

    void on_sandbox_exit(const std::string& sandbox_id, std::uint32_t generation,
                         const sandbox::Exit& exit) override;
    void on_resource_warning(const std::string& sandbox_id, std::string_view resource, std::uint64_t used,
                             std::uint64_t limit) override;
    void on_agent_exit(const std::string& sandbox_id, std::uint32_t generation,
                       const std::string& detail) override;
    void on_room(const std::string& sandbox_id) override;
    std::optional<std::string> spare_one() override;
    std::optional<sandbox::Exit> limit_at_end(const std::string& id) override;
    void turn_done(const std::string& id) override;
    void query_ended(const std::string& id, sandbox::QueryEnd end, std::string_view detail) override;

  private:
    Conversation* find(const std::string& id) const;
    Conversation* find_by_sandbox(const std::string& sandbox_id) const;
    const sandbox::AgentSpec* agent(const std::string& name) const;
    View view(const Conversation& conversation) const;
    Conversation& enlist(Record record);
    void recount(Conversation& conversation);
    base::Result<TurnTicket> repeated(Conversation& conversation, const std::string& key,
                                      const std::string& digest);
    void begin_turn(Conversation& conversation, OpenTurn turn, MessageReply when, Reply<TurnTicket> reply);

    // manager_actions.cpp
    void perform(Conversation& conversation, const Actions& actions);
    void perform(Conversation& conversation, const Action& action);
    void log_action(Conversation& conversation, const Action& action);
    void start_sandbox(Conversation& conversation);
    void take_over_warm(const std::string& id);
    base::Result<sandbox::Record> make_sandbox(const std::string& conversation_id,
                                               const CreateRequest& request);
    void start_admitted(const std::string& id, const base::Result<void>& admitted);
    void stop_sandbox(Conversation& conversation, const std::string& why);
    void pause_warm(Conversation& conversation, PauseReason reason, const std::string& text);
    void freeze_sandbox(Conversation& conversation);
    void on_frozen(const std::string& id, const base::Result<void>& result);
    void thaw_sandbox(Conversation& conversation);
    void on_started(const std::string& id, const base::Result<void>& result);
    void schedule_query(Conversation& conversation);
    void send_query(Conversation& conversation);
    void send_interrupt(Conversation& conversation);
    void drop_query(Conversation& conversation);
    void close_turn(Conversation& conversation);
    void persist(Conversation& conversation);
    void arm_grace(Conversation& conversation);
    void answer(Conversation& conversation, std::vector<Reply<View>>& waiters, const Action& action);
    void remove_sandbox(Conversation& conversation);
    void begin_removal(Conversation& conversation);
    void on_store_refused();
    void on_removal_answered(const std::string& id);
    void on_sandbox_removed(const std::string& id, const std::string& sandbox_id);
    void discard(Conversation& conversation, const Action& action);
    void erase(Conversation& conversation);
    void end(Conversation& conversation, const std::string& code, const std::string& text);

    // manager_life.cpp
    void arm_life(Conversation& conversation);
    void on_life_timer(const std::string& id);
    base::Millis until_end_of_life(const Conversation& conversation) const;
    void keep_ended(const Conversation& conversation, base::Millis ended_ago);
    void arm_forgetting();
    void forget_ended();

    // manager_capacity.cpp
    std::optional<base::Millis> until_spared(const Conversation& conversation) const;
    Conversation* find_victim() const;
    std::optional<std::string> evict();
    base::Error refusal(const base::Error& why) const;

    // manager_restore.cpp
    base::Result<void> record_turns(Snapshot& snapshot);
    base::Result<void> commit_some();
    void restore_conversation(Record record, const sandbox::Record* sandbox_record, const Snapshot& snapshot);
    void restore_turns(Conversation& conversation, const Snapshot& snapshot);

    const base::Clock& clock_;
    base::Timers& timers_;
    sandbox::Manager& sandboxes_;
    Journal& journal_;
    Store& store_;
    ManagerSettings settings_;
    Roster roster_;
    Admission admission_;
    StandaloneSandboxes standalone_;
    WarmPool pool_;
    std::unordered_set<Conversation*> started_;  // those with a sandbox that lives, and some that had one
    std::unordered_map<std::string, std::unique_ptr<Conversation>> by_id_;
    std::unordered_map<std::string, Conversation*> by_sandbox_;
    std::unordered_set<std::string> awaiting_removal_;    // ids; their end is not committed yet
    std::multimap<base::SteadyTime, std::string> ended_;  // ids by when they are forgotten
    base::TimerId forget_timer_ = 0;
    Stats stats_;
    std::int64_t last_key_ = 0;
    bool shutting_down_ = false;
};

}  // namespace atl::conversation
