// A run of a program that a model wrote: it waits for a place, has a sandbox made for it alone, runs there,
// and ends with one outcome, whatever becomes of program, engine, sandbox, caller or server. What happens is
// a list of numbered events, kept in memory for those who follow it now or read it again later.
//
// Invariants: the last two events are `result` and `done`; after the end nothing is added, no call is open,
// and the sandbox is being removed; a call is answered once. Single-threaded. Not here: whose turn it is, how
// long it is kept (executions.hpp); the engine's protocol (program.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/execution_limits.hpp"
#include "core/base/reader_list.hpp"
#include "core/base/shares.hpp"
#include "core/execution/engine.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "core/execution/program.hpp"
#include "core/execution/runner_pool.hpp"
#include "core/execution/tool_host.hpp"
#include "core/execution/tool_set.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::execution {

struct ExecutionCall;

struct ExecutionRequest {
    /// finish: the run goes on without the client that began it.
    enum class OnDisconnect : std::uint8_t { cancel, finish };
    /// automatic: the server chose it, and may choose another one when the run's turn comes.
    enum class Choice : std::uint8_t { named, automatic };

    std::optional<std::string> user_id;
    base::ShareHolder holder{};      // whose result it is
    const Engine* engine = nullptr;  // available; outlives the run
    Choice choice = Choice::named;   // of the engine
    Language language = Language::javascript;
    std::string code;
    base::Millis time = base::k_default_execution_time;
    std::uint32_t memory_mb = base::k_default_execution_memory_mb;
    std::uint32_t cpu_percent = base::k_default_execution_cpu_percent;
    std::size_t max_output_bytes = base::k_default_execution_output_bytes;
    std::uint64_t max_calls = base::k_default_execution_calls;
    std::vector<std::string> tool_names;
    std::optional<ToolSet> tools;      // those of tool_names; none where there are no names
    std::shared_ptr<ToolHost> host{};  // of some of them
    OnDisconnect on_disconnect = OnDisconnect::cancel;
};

/// The limits of the sandbox of a run.
sandbox::Limits limits_of_run(std::uint32_t memory_mb, std::uint32_t cpu_percent);

struct ExecutionEvent {
    std::uint64_t seq = 0;  // from 1
    std::string_view type;  // of static storage
    base::WallTime at{};
    std::string data;  // the text of a JSON object

    /// Appends `{"seq","type","at","data"}`.
    void write(std::string& out) const;
};

/// The answer of a caller to a call: `result_json`, `error`, or else a decision.
struct CallAnswer {
    enum class Decision : std::uint8_t { none, allow, deny };
    enum class Text : std::uint8_t { unknown, checked };
    std::optional<std::string> result_json;
    Text result_text = Text::unknown;  // checked: as Program::answer_checked() takes it
    std::optional<std::string> error;
    Decision decision = Decision::none;
};

/// The objects that an execution works with; all of them outlive it.
struct ExecutionContext {
    base::Budget& results;  // what is kept of runs
    const base::Clock& clock;
    base::Timers& timers;
    sandbox::Manager& sandboxes;
    Programs& programs;
    OffloadedChecks* checks = nullptr;  // null: calls that take much work to check are refused
};

class Execution final : public std::enable_shared_from_this<Execution>, private ProgramObserver {
  public:
    enum class State : std::uint8_t { waiting, starting, running, ended };
    struct Callbacks {
        std::function<void(const Execution&)> ready;  // the engine that it started itself is ready
        std::function<void(Execution&)> ended;
        /// Reserves so many bytes for what is kept of a detached run; false: there is no room.
        std::function<bool(const Execution&, std::size_t)> may_keep;
        std::function<void(Execution&)> left;  // its sandbox is gone, or there was none: its place is free
    };
    class Follower;

    Execution(ExecutionContext context, std::uint64_t key, ExecutionRequest request, Callbacks told);
    ~Execution() override;
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;

    /// The limits of its sandbox.
    sandbox::Limits limits() const;
    /// Its turn has come. With a runner that was started ahead for these limits, or else it starts one.
    void start(std::optional<Runner> runner);
    /// The run could not begin: nothing of it is kept, and the client that waits is told `why`. A run that
    /// was promised ends as `crashed` instead. Precondition: waiting, or called from inside.
    void refuse(const base::Error& why);
    /// The client has the id of the run and waits no longer, so the run stays to be read, however it ends.
    void keep_result() noexcept { is_promised_ = true; }
    /// Ends it as `cancelled`; does nothing once it has ended.
    void cancel(std::string_view why);
    /// Errors: not_found; call_answered; execution_ended; invalid_field for a result that is too long or too
    /// deep.
    base::Result<void> answer(std::string_view call_id, const CallAnswer& answer);
    /// Succeeds if the call still waits for answer(). Errors: not_found, call_answered, execution_ended.
    base::Result<void> awaits_answer(std::string_view call_id) const;

    const std::string& id() const noexcept { return id_; }
    /// ToolSet::warnings() of its tools.
    std::string_view warnings() const noexcept {
        return request_.tools ? std::string_view(request_.tools->warnings()) : std::string_view();
    }
    std::uint64_t key() const noexcept { return key_; }  // later ones have greater keys
    const base::ShareHolder& holder() const noexcept { return request_.holder; }
    /// True if the client that waited for it has the result, or somebody read it after the end.
    bool is_read() const noexcept { return is_read_ || !is_detached(); }
    void note_read() noexcept { is_read_ = has_ended(); }
    const std::optional<std::string>& user_id() const noexcept { return request_.user_id; }
    State state() const noexcept { return state_; }
    /// A sandbox of it was ready, or it has ended without being refused.
    bool has_begun() const noexcept { return has_begun_; }
    bool has_ended() const noexcept { return state_ == State::ended; }
    bool is_detached() const noexcept {
        return request_.on_disconnect == ExecutionRequest::OnDisconnect::finish;
    }
    const std::optional<base::Error>& refusal() const noexcept { return refusal_; }
    const Engine& engine() const noexcept { return *request_.engine; }
    /// The way in which engine() was chosen.
    ExecutionRequest::Choice choice() const noexcept { return request_.choice; }
    Language language() const noexcept { return request_.language; }
    /// Precondition: waiting. `engine` is as in ExecutionRequest.
    void change_engine(const Engine& engine) noexcept { request_.engine = &engine; }
    /// How its engine ended before it was ready, without having reached a limit. Empty: it did not.
    const std::string& engine_failure() const noexcept { return engine_failure_; }
    /// The events behind number `after`.
    std::span<const ExecutionEvent> events(std::uint64_t after) const;
    std::uint64_t last_seq() const noexcept { return events_.size(); }
    /// The bytes of the events and of its calls.
    std::size_t event_bytes() const noexcept { return event_bytes_; }
    /// Appends the result as the API has it. Precondition: it has ended, and was not refused.
    void write_result(std::string& out) const;
    /// Appends what it is and how it stands. Whole: with its result, once there is one.
    enum class Detail : std::uint8_t { brief, whole };
    void write(std::string& out, Detail detail) const;

  private:
    using Call = ExecutionCall;

    void on_running() override;
    void on_log(const std::string& level, const std::string& text_json) override;
    void on_call(std::uint64_t id, const std::string& name, const std::string& args_json) override;
    void on_end(std::optional<std::string> value_json, std::optional<Failure> failure) override;
    void on_broken(Failure failure) override;
    void on_lost(const base::Error& error) override;

    void on_sandbox_ready(const base::Result<void>& ready);
    void on_sandbox_exit(const sandbox::Exit& exit);
    void begin();
    void give_program();
    void add(std::string_view type, std::string data);
    /// True if an event of `bytes` fits, and behind it the last log entry, which says that the logs end.
    bool has_room(std::size_t bytes) const;
    /// True if `bytes` more will be kept, and behind them the last log entry, or a result without a value.
    bool may_keep(std::size_t bytes) const;
    void arm(base::Millis time, std::function<void()> fire);
    void finish(const std::optional<std::string>& value_json, const std::optional<Failure>& failure);
    void fail(std::string kind, std::string message);
    void release();
    void drop_program();
    std::size_t& steps_of_turn();
    void check_elsewhere(Call& call);
    void on_checked(std::uint64_t id, const base::Result<void>& checked);
    void show(Call& call);
    void hand_to_host(Call& call);
    void on_hosted(std::uint64_t id, base::Result<std::string> answer);
    void on_hosted_read(std::uint64_t id, const base::Result<std::string>& value);
    void settle(Call& call, std::string_view status);
    void reject(Call& call, std::string_view status, const std::string& message);
    Call* find_call(std::string_view call_id) const;
    enum class Calls : std::uint8_t { told, dropped };
    /// The data of the event `result`. Notes where in it the logs of the whole result belong.
    std::string make_outcome(const std::optional<std::string>& value_json,
                             const std::optional<Failure>& failure, Calls calls = Calls::told);
    void write_calls(std::string& out, Calls calls) const;

    ExecutionContext context_;
    const std::string id_;
    const std::uint64_t key_;
    ExecutionRequest request_;
    Callbacks callbacks_;
    State state_ = State::waiting;
    bool has_begun_ = false;
    bool is_from_pool_ = false;
    bool is_engine_ready_ = false;
    std::string engine_failure_;
    bool is_promised_ = false;
    bool is_read_ = false;
    std::optional<base::Error> refusal_;
    const base::WallTime created_at_;
    std::optional<base::WallTime> ended_at_;
    base::SteadyTime began_{};  // of the program
    base::Millis took_{0};
    std::string sandbox_id_;
    std::unique_ptr<Program> program_;
    bool in_program_ = false;
    base::TimerId timer_ = 0;
    std::vector<ExecutionEvent> events_;
    std::size_t event_bytes_ = 0;
    bool have_logs_ended_ = false;  // before the program did
    std::vector<std::unique_ptr<Call>> calls_;
    std::unique_ptr<OffloadedJob> check_;  // of the last call, and the program is held until it is done
    std::size_t steps_left_;               // of checks in this turn of the loop
    bool steps_return_ = false;            // they are given back at its end
    std::size_t logs_at_ = 0;              // in the data of `result`, once it has ended
    base::ReaderList<Follower> followers_{context_.timers};
};

/// Wakes someone whenever there is more of an execution, which it keeps.
class Execution::Follower {
  public:
    explicit Follower(std::shared_ptr<Execution> execution) : execution_(std::move(execution)) {
        execution_->followers_.add(*this);
    }
    ~Follower() { execution_->followers_.remove(*this); }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

    /// `wake` only sets something off.
    void on_wake(std::function<void()> wake) { wake_ = std::move(wake); }
    void wake() const {
        if (wake_)
            wake_();
    }
    Execution& execution() const noexcept { return *execution_; }

  private:
    std::shared_ptr<Execution> execution_;
    std::function<void()> wake_;
};

std::string_view to_string(Execution::State state) noexcept;

}  // namespace atl::execution
