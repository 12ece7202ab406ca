#include "bridge/runner/program_run.hpp"

#include <string>
#include <utility>
#include <variant>

#include "bridge/runner/frames.hpp"
#include "core/base/execution_limits.hpp"
#include "core/base/ids.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::bridge::runner {
namespace {

// For the last entry of a runner whose logs are full: that there are no more.
constexpr std::uint64_t k_log_slack_bytes = 8UL * 1024;

class ProgramRun final : public execution::Program, private sandbox::RunObserver {
  public:
    ProgramRun(sandbox::Operations& operations, const execution::Engine& engine,
               execution::ProgramObserver& observer, FrameReading* long_frames)
        : observer_(&observer), engine_(engine.name), long_frames_(long_frames) {
        sandbox::RunSpec run;
        run.argv = engine.argv;
        run.directory = base::k_inner_agent_dir;
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
    bool answer_checked(std::uint64_t id, std::string_view value_json) override {
        return sent(!ended_ && machine_.answer_checked(waiting_, id, value_json));
    }
    bool answer_error(std::uint64_t id, std::string_view message) override {
        return sent(!ended_ && machine_.answer_error(waiting_, id, message));
    }
    void hold() override { is_held_ = true; }
    void resume() override {
        is_held_ = false;
        take_frames();
    }

  private:
    void on_started(pid_t) override { started_ = true; }
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_input_room() override;
    void on_exit(const sandbox::RunExit& exit) override;
    void on_failed(const base::Error& error) override;
    /// While the frames that are here may not be passed on.
    bool is_full() const override { return is_held_ || reading_ != nullptr || leaves_answers(); }
    /// True if the program does not read its answers. A program that reads them has at most as many answers
    /// waiting as open calls.
    bool leaves_answers() const {
        return waiting_.size() - passed_ >
               k_open_calls * (machine_.max_value_bytes() + base::k_small_runner_frame_bytes);
    }

    void take_frames();
    bool take_frame(std::string frame);
    void on_read(base::Result<RunnerFrame> frame);
    bool handle(const Received& received);
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
    FrameReading* const long_frames_;
    std::optional<execution::ProgramSpec> spec_;  // until it is told to the engine
    std::string user_;
    FrameReader reader_;
    HostMachine machine_;
    std::string waiting_;     // for the runner's stdin
    std::size_t passed_ = 0;  // of it
    bool started_ = false;
    bool is_ready_ = false;
    bool ended_ = false;
    bool is_held_ = false;
    std::unique_ptr<sandbox::Run> run_;
    std::unique_ptr<execution::OffloadedJob> reading_;  // of a long frame; those behind it wait
    std::size_t reading_bytes_ = 0;                     // of that frame
};

void ProgramRun::on_output(sandbox::OutputKind kind, std::string_view bytes) {
    if (ended_ || kind == sandbox::OutputKind::error)
        return;
    reader_.push(bytes);
    take_frames();
}

/// Takes the frames that are here, until one has to wait. Last call of its caller: this may be gone.
void ProgramRun::take_frames() {
    while (!ended_ && !is_full()) {
        auto frame = reader_.next();
        if (!frame)
            break;
        if (!take_frame(std::move(*frame)))
            return;  // this may be gone
    }
    if (ended_ || is_full())
        return;
    if (reader_.refused())
        return break_off("protocol", "the engine sent a frame that is empty or too long");
    if (run_)
        run_->resume();
}

/// False: it was the last.
bool ProgramRun::take_frame(std::string frame) {
    const bool is_long = frame.size() > base::k_small_runner_frame_bytes;
    if (!is_long || long_frames_ == nullptr || !machine_.is_running())
        return handle(machine_.receive(frame));
    reading_bytes_ = frame.size();
    reading_ = long_frames_->read(user_, std::move(frame), machine_.max_value_bytes(),
                                  [this](base::Result<RunnerFrame> read) { on_read(std::move(read)); });
    return true;
}

void ProgramRun::on_read(base::Result<RunnerFrame> frame) {
    reading_.reset();
    if (!frame)
        return break_off("crashed", "what the engine sent could not be read: " + frame.error().detail());
    if (handle(machine_.take(std::move(*frame), reading_bytes_)))
        take_frames();
}

/// False: it was the last.
bool ProgramRun::handle(const Received& received) {
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
        observer_->on_log(log->level, log->text_json);
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
    user_ = std::move(spec.user);
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
    if (!run_ || !started_ || waiting_.empty())
        return;
    passed_ += run_->write(std::string_view(waiting_).substr(passed_));
    // This moves fewer bytes than it frees.
    if (passed_ > waiting_.size() / 2)
        waiting_.erase(0, std::exchange(passed_, 0));
}

/// Last call of its caller: this may be gone.
void ProgramRun::on_input_room() {
    const bool was_full = leaves_answers();
    pass_on();
    if (was_full)
        take_frames();
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
    return std::make_unique<ProgramRun>(operations, engine, observer, long_frames_);
}

}  // namespace atl::bridge::runner
