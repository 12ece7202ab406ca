// All runs of code mode: takes requests, lets them run in turn among users, finds them for those who follow
// or answer, and forgets them some time after their end. A run counts among the living sandboxes and evicts
// nobody. Not here: one run (execution.hpp), whose key may see which (http/api/ownership.hpp).
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fair_queue.hpp"
#include "core/execution/execution.hpp"
#include "core/execution/runner_pool.hpp"

namespace atl::execution {

struct ExecutionSettings {
    std::uint32_t max_memory_mb = base::k_default_max_execution_memory_mb;  // that a request may ask for
    base::QueueLimits queue{};
    std::vector<RunnerPoolSize> pools{};
    // The limits of runs that name none; runners that are started ahead have them, too.
    std::uint32_t default_memory_mb = base::k_default_execution_memory_mb;
    std::uint32_t default_cpu_percent = base::k_default_execution_cpu_percent;
    unsigned user_share_percent = base::k_default_user_share_percent;  // of the places to run

    /// Memory in MB of a run that names none and whose key has no lower ceiling.
    std::uint32_t memory_of_default_run() const noexcept {
        return std::min(default_memory_mb, max_memory_mb);
    }
};

class Executions {
  public:
    /// Tells if a sandbox may start now, with nobody ended for it. Errors: user_share, capacity,
    /// shutting_down, storage_failed.
    using Room = std::function<base::Result<void>(const sandbox::Demand&)>;

    /// Reads the engines of this host once more, as Engines::read().
    using Look = std::function<base::Result<Engines>()>;

    /// All that `context` names outlives this. Without `look` the engines stay as they are.
    Executions(ExecutionContext context, Engines engines, ExecutionSettings settings, Room room,
               Look look = nullptr);
    ~Executions();
    Executions(const Executions&) = delete;
    Executions& operator=(const Executions&) = delete;

    const Engines& engines() const noexcept { return engines_; }
    /// The same, and where one is missing the host is looked at again, once in base::k_engine_look_pause at
    /// most.
    const Engines& engines_now();
    /// Does what Engines::choose() does; an engine that is not available is looked for in the same way.
    base::Result<const Engine*> choose(std::string_view executor, std::optional<Language>& language);
    const ExecutionSettings& settings() const noexcept { return settings_; }

    /// Puts a run into the line of its user. It may be refused later, when its turn comes
    /// (Execution::refusal()). Errors: too_many_executions, user_share, capacity, shutting_down.
    base::Result<std::shared_ptr<Execution>> begin(ExecutionRequest request);
    /// Null: unknown, or forgotten.
    std::shared_ptr<Execution> find(const std::string& id) const;
    /// The runs of one user, or of all, with a key below `below`; the latest comes first.
    std::vector<std::shared_ptr<Execution>> list(const std::optional<std::string>& user_id, std::size_t limit,
                                                 std::uint64_t below = UINT64_MAX) const;
    /// Ends all of a user's, and forgets them.
    void erase_user(const std::string& user_id);
    /// Ends all as cancelled and takes no more.
    void shut_down();

    /// Starts runners ahead from now on, as the settings say.
    void open_pool() { pool_.open(); }
    const RunnerPool& pool() const noexcept { return pool_; }
    /// Runners that wait for a program give way: as RunnerPool::can_shrink() and shrink().
    bool can_spare() const noexcept { return pool_.can_shrink(); }
    std::optional<std::string> spare() { return pool_.shrink(); }
    /// Runs that got a runner of the pool, and runs that started one.
    std::uint64_t begun_pooled() const noexcept { return begun_pooled_; }
    std::uint64_t begun_cold() const noexcept { return begun_cold_; }

    std::size_t running() const noexcept { return queue_.running(); }
    /// The places of programs that run.
    const base::Budget& places() const noexcept { return places_; }
    std::size_t waiting() const noexcept { return queue_.waiting(); }

  private:
    void pump();
    bool can_make_room(const sandbox::Limits& limits) const;
    /// Its turn has come.
    void admit(const std::shared_ptr<Execution>& execution);
    bool start_pooled(Execution& execution);
    /// True if a program can run on an engine on which none could before.
    bool look_again();
    /// An engine in place of one that became unavailable. Errors: executor_unavailable.
    base::Result<void> choose_again(Execution& execution);
    void on_ended(Execution& execution);
    void on_left(const Execution& execution);
    /// `why`: how a runner of it ended before it was ready; empty: one was ready.
    void on_engine_start(const Engine& engine, std::string_view why);
    enum class GivingWay : std::uint8_t { read, all };
    /// Has room for `bytes` of the run `key`, in the place of other results of the user, if it must: those
    /// that were read before all others, those that ended first before later ones. Errors: user_share,
    /// capacity; then nothing gave way.
    base::Result<void> make_room(std::uint64_t key, const base::ShareHolder& holder, std::uint64_t bytes,
                                 GivingWay giving_way);
    void forget(std::uint64_t key);
    void forget_old();

    ExecutionContext context_;
    Engines engines_;
    std::map<const Engine*, base::TimerId> rests_;  // of those that ended before they were ready
    const ExecutionSettings settings_;
    Room room_;
    Look look_;
    base::SteadyTime look_at_{};  // not before
    base::Budget places_;
    base::FairQueue queue_;
    RunnerPool pool_;
    std::uint64_t begun_pooled_ = 0;
    std::uint64_t begun_cold_ = 0;
    std::uint64_t last_key_ = 0;
    std::map<std::uint64_t, std::shared_ptr<Execution>> all_;
    std::unordered_map<std::string, std::uint64_t> keys_;
    std::deque<std::pair<base::SteadyTime, std::uint64_t>> ended_;  // those that ended first are first
    std::unordered_map<std::string, std::vector<std::uint64_t>> ended_of_;  // the same of each holder
    std::unordered_map<std::uint64_t, base::Share> shares_;                 // of detached runs, and of those
    base::TimerId timer_ = 0;
    bool pumping_ = false;
    bool shutting_down_ = false;
    /// Null inside once it is destroyed: a sandbox may be gone after that.
    std::shared_ptr<Executions*> self_ = std::make_shared<Executions*>(this);
};

}  // namespace atl::execution
