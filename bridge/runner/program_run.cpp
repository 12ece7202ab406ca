#include "bridge/runner/program_run.hpp"

#include <string>
#include <utility>
#include <variant>

#include "bridge/runner/frames.hpp"
#include "core/base/ids.hpp"
#include "core/sandbox/inner_paths.hpp"

namespace atl::bridge::runner {
namespace {

// The last entry of a runner whose logs are full: what was left, cut, and that there are no more.
constexpr std::uint64_t k_log_slack_bytes = 8UL * 1024;

class ProgramRun final : public execution::Program, private sandbox::RunObserver {
  public:
    ProgramRun(sandbox::Operations& operations, const execution::Engine& engine,
               execution::ProgramObserver& observer)
        : observer_(&observer), engine_(engine.name) {
        sandbox::RunSpec run;
        run.argv = engine.argv;
        run.directory = sandbox::k_inner_agent_dir;
        run.env = engine.env;
        run.stdin_kind = sandbox::RunSpec::Stdin::pipe;
        run_ = operations.run(run, *this);
    }

    void run(execution::ProgramSpec spec, execution::ProgramObserver& observer) override {
        observer_ = &observer;
        spec_ = std::move(spec);
        if (is_ready_ && !ended_)
            begin();
    }
    bool answer(std::uint64_t id, std::string_view value_json) override {
        return sent(!ended_ && machine_.answer(waiting_, id, value_json));
    }
    bool answer_error(std::uint64_t id, std::string_view message) override {
        return sent(!ended_ && machine_.answer_error(waiting_, id, message));
    }

  private:
    void on_started(pid_t) override { started_ = true; }
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_input_room() override { pass_on(); }
    void on_exit(const sandbox::RunExit& exit) override;
    void on_failed(const base::Error& error) override;

    bool obey(const Received& received);
    bool begin();
    bool sent(bool is_written) {
        if (is_written)
            pass_on();
        return is_written;
    }
    void pass_on();
    void break_off(std::string kind, std::string message);

    execution::ProgramObserver* observer_;
    const std::string engine_;
    std::optional<execution::ProgramSpec> spec_;  // until it is told to the engine
    FrameReader reader_;
    HostMachine machine_;
    std::string waiting_;  // for the runner's stdin
    bool started_ = false;
    bool is_ready_ = false;
    bool ended_ = false;
    std::unique_ptr<sandbox::Run> run_;
};

void ProgramRun::on_output(sandbox::OutputKind kind, std::string_view bytes) {
    if (ended_ || kind == sandbox::OutputKind::error)
        return;
    reader_.push(bytes);
    while (!ended_) {
        const auto frame = reader_.next();
        if (!frame)
            break;
        if (!obey(machine_.receive(*frame)))
            return;  // this may be gone
    }
    if (!ended_ && reader_.refused())
        break_off("protocol", "the engine sent a frame that is empty or too long");
}

/// False: it was the last.
bool ProgramRun::obey(const Received& received) {
    if (const auto* const violation = std::get_if<Violation>(&received)) {
        break_off("protocol", "the engine broke the protocol: " + violation->reason);
        return false;
    }
    if (const auto* const ready = std::get_if<Ready>(&received)) {
        if (ready->engine != engine_) {
            break_off("protocol", "another engine than " + engine_ + " was started");
            return false;
        }
        is_ready_ = true;
        if (spec_)
            return begin();
        observer_->on_ready();
    } else if (const auto* const log = std::get_if<Log>(&received)) {
        observer_->on_log(log->level, log->text);
    } else if (const auto* const call = std::get_if<Call>(&received)) {
        observer_->on_call(call->id, call->name, call->args_json);
    } else {
        auto end = std::get<Ended>(received);
        std::optional<execution::Failure> failure;
        if (end.failure)
            failure = execution::Failure{std::move(end.failure->kind), std::move(end.failure->message),
                                         end.failure->line};
        ended_ = true;
        observer_->on_end(std::move(end.value_json), std::move(failure));
        return false;
    }
    return true;
}

/// False: it was the last.
bool ProgramRun::begin() {
    Start start;
    start.run = base::new_id();
    start.nonce = base::new_id();
    execution::ProgramSpec spec = *std::exchange(spec_, std::nullopt);
    start.language = execution::to_string(spec.language);
    start.code = std::move(spec.code);
    start.tools = std::move(spec.tools);
    start.limits = {spec.max_calls, spec.max_value_bytes, spec.max_log_bytes, k_log_slack_bytes};
    if (!machine_.start(waiting_, std::move(start))) {
        break_off("protocol", "the program is too long");
        return false;
    }
    pass_on();
    observer_->on_running();
    return true;
}

void ProgramRun::pass_on() {
    if (run_ && started_ && !waiting_.empty())
        waiting_.erase(0, run_->write(waiting_));
}

void ProgramRun::on_exit(const sandbox::RunExit& exit) {
    std::string how = exit.signal != 0 ? "was ended by signal " + std::to_string(exit.signal)
                                       : "ended with status " + std::to_string(exit.code);
    if (!ended_)
        break_off("crashed", "the engine " + how + " before its program had ended");
}

void ProgramRun::on_failed(const base::Error& error) {
    if (std::exchange(ended_, true))
        return;
    if (error.code() == base::Errc::bridge_failed)
        return observer_->on_lost(error);
    observer_->on_broken({"crashed", "the engine could not be started: " + error.detail(), std::nullopt});
}

void ProgramRun::break_off(std::string kind, std::string message) {
    ended_ = true;
    observer_->on_broken({std::move(kind), std::move(message), std::nullopt});
}

}  // namespace

std::unique_ptr<execution::Program> RunnerPrograms::start(sandbox::Operations& operations,
                                                          const execution::Engine& engine,
                                                          execution::ProgramObserver& observer) {
    return std::make_unique<ProgramRun>(operations, engine, observer);
}

}  // namespace atl::bridge::runner
