// The server's end of one atoll-helper process (helper/README.md): a queue of requests, answered in order. A
// helper that dies is started again and gets the unanswered requests once more; after a request has ended
// base::k_max_helper_attempts helpers, it fails. A helper that does not answer in time, or makes no progress
// in a tree, is killed and counts as dead. Invariants: one request is in flight at a time, so that a write
// never blocks; no call here waits for a helper; one helper runs at a time; callbacks come from the loop and
// never after the client is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/ending_limits.hpp"
#include "core/base/error.hpp"
#include "core/base/fd_watch.hpp"
#include "core/base/histogram.hpp"
#include "core/base/task.hpp"
#include "core/isolation/child_plan.hpp"
#include "core/store/checkpoint_helper.hpp"
#include "core/store/list_helper.hpp"

namespace atl::fs_guard {

/// How long a helper may be silent.
struct HelperDeadlines {
    base::Millis answer = base::k_helper_answer_deadline;      // of requests that tell no progress
    base::Millis progress = base::k_helper_progress_deadline;  // of walks and removals
};

struct HelperConfig {
    std::filesystem::path program;      // atoll-helper
    std::filesystem::path working_dir;  // the data directory
    isolation::Priority priority = isolation::Priority::background;
    HelperDeadlines deadlines{};
};

/// The size of a tree on the disk, with its folders.
struct TreeSize {
    std::uint64_t bytes = 0;  // allocated
    std::uint64_t inodes = 0;
    bool is_complete = true;    // false: a part could not be read, there is more
    bool is_too_large = false;  // the walk ended at a bound (helper/tree_meter.hpp)
};

/// The processes of a sandbox.
struct Members {
    pid_t first = -1;        // all others are below it
    std::vector<pid_t> all;  // as its group tells; empty where there is none
};

/// The size of a sandbox, with the deleted files that it holds.
struct Inspection {
    TreeSize tree;
    TreeSize held;                    // deleted, but kept by its processes
    std::uint64_t out_of_sight = 0;   // descriptors in flight, and tables that cannot be read
    std::uint64_t written_bytes = 0;  // by its processes since they began, as far as the kernel remembers
    bool stood_still = false;         // no process of the sandbox ran meanwhile
};

class HelperClient final : public store::CheckpointHelper, public store::ListHelper {
  public:
    /// Starts the helper. `timers` outlives the client. Errors: host_unsupported if it cannot be started.
    static base::Result<std::unique_ptr<HelperClient>> start(base::Executor executor, base::Timers& timers,
                                                             HelperConfig config);
    /// Kills the helper without waiting for its end; requests without an answer are dropped.
    ~HelperClient() override;
    HelperClient(const HelperClient&) = delete;
    HelperClient& operator=(const HelperClient&) = delete;

    /// Removes a tree, or as much of it as `slice` allows; `path` is relative to the working directory,
    /// ASCII. Errors: storage_failed.
    void remove(const std::string& path, base::Millis slice,
                std::function<void(base::Result<bool> is_gone)> done);
    void sync_log(const std::filesystem::path& database, Done done) override;
    void checkpoint(const std::filesystem::path& database, Done done) override;
    /// storage_failed, too, where the helper could not be started for some seconds.
    void find(const std::filesystem::path& database, const std::string& question, Answered answered) override;
    bool is_lost() const noexcept override;
    void close_database(const std::filesystem::path& database, Done done) override;
    /// Measures a tree; `path` as for remove(). Errors: storage_failed, also if it is not there.
    void measure(const std::string& path, std::function<void(base::Result<TreeSize>)> done);
    /// Measures a tree and the deleted files that `members` hold; stood_still is left false. `path` as for
    /// remove(). Errors: storage_failed.
    void inspect(const std::string& path, const Members& members,
                 std::function<void(base::Result<Inspection>)> done);
    /// Requests without an answer.
    std::size_t pending() const noexcept { return queue_.size(); }
    /// From when a request went out to its answer, of those that were answered.
    const base::Histogram& durations() const noexcept { return durations_; }
    /// How often a helper died or had to be ended.
    std::uint64_t deaths() const noexcept { return deaths_; }
    /// The number of them that were killed because they were silent for too long.
    std::uint64_t timeouts() const noexcept { return timeouts_; }
    /// The id of the helper's process that runs now; -1 between two of them.
    pid_t pid() const noexcept { return pid_; }

  private:
    /// The helper reports progress in a walk (helper/progress.hpp).
    enum class Kind : std::uint8_t { task, find, walk };
    struct Request {
        std::uint64_t id;
        Kind kind;
        std::string line;
        Answered done;
        int attempts = 0;
    };

    HelperClient(base::Executor executor, base::Timers& timers, HelperConfig config);
    base::Result<void> spawn_helper();
    std::string named(const std::filesystem::path& database) const;
    void enqueue(Kind kind, std::string body, Answered done);
    void send_next();
    void arm_deadline();
    void await_answers();
    void read_answers();
    void take_answer(nlohmann::json answer);
    void lose_helper(const char* why);
    void end_helper();
    void restart_later();
    void refuse_finds(const std::string& why);

    base::Executor executor_;
    base::Timers& timers_;
    HelperConfig config_;
    std::deque<Request> queue_;
    bool on_its_way_ = false;
    std::uint64_t last_id_ = 0;
    base::UniqueFd requests_;
    std::optional<base::FdWatch> answers_;
    base::UniqueFd pidfd_;
    pid_t pid_ = -1;
    std::string input_;
    std::optional<base::FdWatch> ending_;  // the pidfd of a killed helper
    base::TimerId restart_timer_ = 0;
    base::TimerId deadline_ = 0;  // of the request that is on its way
    int failures_ = 0;            // in a row
    base::SteadyTime sent_at_{};  // the request that is on its way
    base::Histogram durations_{base::k_task_bounds};
    std::uint64_t deaths_ = 0;
    std::uint64_t timeouts_ = 0;
};

}  // namespace atl::fs_guard
