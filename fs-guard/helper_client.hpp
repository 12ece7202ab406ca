// The server's end of one atoll-helper process (helper/README.md): a queue of requests, answered in order. A
// helper that dies is started again and gets what it had not answered once more; a request that ends
// k_max_attempts helpers is given up.
// Invariants: one request is on its way at a time, so that a write never blocks; callbacks come from the loop
// and never after the client is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/base/bucket_histogram.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "core/isolation/child_plan.hpp"
#include "core/isolation/fd_watch.hpp"

namespace atl::fs_guard {

struct HelperConfig {
    std::filesystem::path program;      // atoll-helper
    std::filesystem::path working_dir;  // the data directory
    isolation::Priority priority = isolation::Priority::background;
};

/// What a tree holds on the disk, folders and all.
struct TreeSize {
    std::uint64_t bytes = 0;  // allocated
    std::uint64_t inodes = 0;
    bool is_complete = true;  // false: a part could not be read, there is more
};

class HelperClient {
  public:
    using Done = std::function<void(base::Result<void>)>;

    /// Starts the helper. `timers` outlives the client. Errors: host_unsupported if it cannot be started.
    static base::Result<std::unique_ptr<HelperClient>> start(base::Executor executor, base::Timers& timers,
                                                             HelperConfig config);
    /// Ends the helper; requests without an answer are dropped.
    ~HelperClient();
    HelperClient(const HelperClient&) = delete;
    HelperClient& operator=(const HelperClient&) = delete;

    /// Removes a tree; `path` is relative to the working directory, ASCII. Errors: storage_failed.
    void remove(const std::string& path, Done done);
    /// Has the disk take what a database's log holds. Errors: storage_failed.
    void sync_log(const std::filesystem::path& database, Done done);
    /// Writes a database's log back. Errors: storage_failed.
    void checkpoint(const std::filesystem::path& database, Done done);
    /// What a tree holds; `path` as for remove(). Errors: storage_failed, also if it is not there.
    void measure(const std::string& path, std::function<void(base::Result<TreeSize>)> done);
    /// Requests without an answer.
    std::size_t pending() const noexcept { return queue_.size(); }
    /// From when a request went out to its answer, of those that were answered.
    const base::BucketHistogram& durations() const noexcept { return durations_; }
    /// How often a helper died or had to be ended.
    std::uint64_t deaths() const noexcept { return deaths_; }
    /// Of the helper as it runs now; -1 between two of them.
    pid_t pid() const noexcept { return pid_; }

  private:
    using Answered = std::function<void(base::Result<nlohmann::json>)>;
    struct Request {
        std::uint64_t id;
        std::string line;
        Answered done;
        int attempts = 0;
    };

    HelperClient(base::Executor executor, base::Timers& timers, HelperConfig config);
    base::Result<void> spawn_helper();
    std::string named(const std::filesystem::path& database) const;
    void enqueue(std::string body, Answered done);
    void send_next();
    void await_answers();
    void read_answers();
    void take_answer(const std::string& line);
    void lose_helper(const char* why);
    void restart_later();
    void end_helper() noexcept;

    base::Executor executor_;
    base::Timers& timers_;
    HelperConfig config_;
    std::deque<Request> queue_;
    bool on_its_way_ = false;
    std::uint64_t last_id_ = 0;
    base::UniqueFd requests_;
    std::optional<isolation::FdWatch> answers_;
    base::UniqueFd pidfd_;
    pid_t pid_ = -1;
    std::string input_;
    base::TimerId restart_timer_ = 0;
    int failures_ = 0;            // in a row
    base::SteadyTime sent_at_{};  // the request that is on its way
    base::BucketHistogram durations_{base::k_task_bounds};
    std::uint64_t deaths_ = 0;
};

}  // namespace atl::fs_guard
