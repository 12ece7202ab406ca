// The server's end of the process atoll-checker (README.md): work of all users, one piece at a time, users in
// turn. The process is started when the first work comes. If it dies, or sends what nobody asked for, it is
// killed, and its piece of work is tried once more by another process; then that work fails. If it takes more
// than base::k_checker_processor_time, or does not answer within base::k_checker_deadline, both attempts
// together, it is killed and the work fails at once. The next piece of work starts another process.
// Invariants: no call here waits for the process; callbacks come from the loop, never from inside a call, and
// never after close() or the end of this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/runner/frame_reading.hpp"
#include "core/base/clock.hpp"
#include "core/base/execution_limits.hpp"
#include "core/base/fair_queue.hpp"
#include "core/base/fd_watch.hpp"
#include "core/base/histogram.hpp"
#include "core/base/shares.hpp"
#include "core/base/task.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::bridge::checker {

struct CheckerConfig {
    std::filesystem::path program;  // atoll-checker
    base::Millis deadline = base::k_checker_deadline;
    base::Millis processor_time = base::k_checker_processor_time;
    // How much of the clients' work may wait. Work of runs is never refused: each run has two pieces here at
    // most, and the answers of a sandbox to its open calls.
    std::size_t waiting_per_user = base::k_checker_waiting_per_user;
    std::size_t waiting_bytes = base::k_checker_waiting_bytes;
    unsigned user_share_percent = base::k_default_user_share_percent;  // of these bytes
};

class Checker final : public execution::OffloadedChecks, public runner::FrameReading {
  public:
    /// `timers` outlives it.
    Checker(base::Executor executor, base::Timers& timers, CheckerConfig config);
    ~Checker() override;
    Checker(const Checker&) = delete;
    Checker& operator=(const Checker&) = delete;

    Work verify(const std::string& user, std::span<const execution::ToolSpec> specs,
                Done<std::string> done) override;
    Work declare(const std::string& user, std::span<const execution::ToolSpec> specs,
                 Done<std::string> done) override;
    Work check(const std::string& user, const std::string& tool, const std::string& schema_json,
               const std::string& args_json, Done<void> done) override;
    Work split(const std::string& user, std::string_view key, std::string json,
               Done<execution::SplitJson> done) override;
    Work read_value(const std::string& user, std::string json, Done<std::string> done) override;
    std::unique_ptr<execution::OffloadedJob> read(const std::string& user, std::string json,
                                                  std::uint64_t max_value_bytes,
                                                  runner::FrameReading::Callback told) override;

    /// Kills the process without waiting for its end, drops all work, and takes no more.
    void close();

    /// Work without an answer.
    std::size_t pending() const noexcept { return queue_.running() + queue_.waiting(); }
    /// Bytes of clients' work without an answer.
    const base::Budget& waiting() const noexcept { return waiting_; }
    /// From when work was sent to its answer.
    const base::Histogram& durations() const noexcept { return durations_; }
    /// How often the process died or had to be ended; the number of those that were too slow.
    std::uint64_t deaths() const noexcept { return deaths_; }
    std::uint64_t timeouts() const noexcept { return timeouts_; }
    /// The id of the process that runs now; -1 if none does.
    pid_t pid() const noexcept { return pid_; }

  private:
    class Ticket;
    using Fields = std::vector<std::string_view>;  // of an answer, behind `ok`
    using Answered = std::function<void(base::Result<Fields>)>;
    enum class Sender { client, run };
    struct Request {
        std::string user;
        Sender sender;
        std::string head;
        std::string body;     // behind it
        Answered answered;    // empty: nobody waits for it any more
        base::Share share{};  // of a client's
        bool is_second = false;
    };

    Work enqueue(const std::string& user, Sender sender, std::string fields, std::string body,
                 Answered answered);
    base::Result<base::Share> take_room(const std::string& user, std::size_t size);
    void drop(std::uint64_t key);
    void send_next();
    void watch_time(base::Millis delay);
    base::Millis used_time() const;
    void send();
    void send_again();
    base::Result<void> start_process();
    void write_some();
    void await_answer();
    void read_some();
    void take_answer(std::string_view message);
    void lose_process(base::Errc code, const char* why);
    void end_process();
    void finish(const base::Result<Fields>& answer);

    base::Executor executor_;
    base::Timers& timers_;
    const CheckerConfig config_;
    base::Budget waiting_;
    base::FairQueue queue_;
    std::map<std::uint64_t, Request> requests_;
    std::uint64_t last_key_ = 0;
    std::uint64_t current_ = 0;  // what the process has; 0: nothing
    std::size_t sent_bytes_ = 0;
    std::optional<base::FdWatch> input_;   // of the process
    std::optional<base::FdWatch> output_;  // of the process
    std::string answer_;
    base::UniqueFd pidfd_;
    pid_t pid_ = -1;
    base::TimerId deadline_ = 0;
    base::SteadyTime sent_at_{};
    base::Millis used_before_{0};  // processor time of the process, when its work was sent
    base::Histogram durations_{base::k_task_bounds};
    std::uint64_t deaths_ = 0;
    std::uint64_t timeouts_ = 0;
    bool closed_ = false;
    /// Null inside once this is gone.
    std::shared_ptr<Checker*> self_ = std::make_shared<Checker*>(this);
};

}  // namespace atl::bridge::checker
