// A run of a program by exec, from its start to its end. It holds the lease on the sandbox, passes the input
// to the program and its output to a sink, and knows why the program ended, also if the sandbox ended first.
// Destroying it ends the program's process group. Not here: the form in which the client gets the output
// (exec_answer.hpp, exec_stream.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/sandbox/operations.hpp"
#include "http/api/exec_form.hpp"

namespace atl::http {

/// Takes what a program writes.
class ExecSink {
  public:
    virtual ~ExecSink() = default;
    /// Valid during the call.
    virtual void take(sandbox::OutputKind kind, std::string_view bytes) = 0;
    /// True while no more is wanted; ExecRun::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// How a program ended, and how long it took.
struct ExecEnd {
    sandbox::RunExit exit;
    base::Millis duration{0};
};

/// The name of a signal, "SIGKILL"; "SIG64" for one without.
std::string signal_word(int number);

class ExecRun final : private sandbox::RunObserver {
  public:
    /// Starts it. `sink`, `clock` and `timers` must outlive this; `operations` are those of the lease.
    /// Without a lease the caller holds it, and destroys this when it ends.
    ExecRun(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations, ExecForm form,
            ExecSink& sink, const base::Clock& clock, base::Timers& timers);
    ~ExecRun() override;
    ExecRun(const ExecRun&) = delete;
    ExecRun& operator=(const ExecRun&) = delete;

    /// `changed` is called from the loop when it has started, has output, or has ended; it only sets
    /// something off.
    void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
    bool has_started() const noexcept { return started_; }
    /// Nothing before the end. Errors: as of RunObserver::on_failed() and conversation::Lease::on_end().
    const std::optional<base::Result<ExecEnd>>& end() const noexcept { return end_; }
    /// After ExecSink::is_full().
    void resume();

  private:
    void on_started(pid_t pid) override;
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_input_room() override { feed(); }
    void on_exit(const sandbox::RunExit& exit) override;
    void on_failed(const base::Error& error) override;
    bool is_full() const override { return sink_.is_full(); }

    void feed();
    void drop_input();
    void watch_time(base::Millis left);
    void finish(base::Result<ExecEnd> end);

    std::unique_ptr<conversation::Lease> lease_;
    std::optional<conversation::EndCause> cause_;  // as long as the lease
    ExecSink& sink_;
    const base::Clock& clock_;
    base::Timers& timers_;
    const base::SteadyTime began_;
    std::string input_;
    base::Share input_share_;
    std::size_t sent_bytes_ = 0;  // of input_
    bool feeds_;
    bool started_ = false;
    base::TimerId timer_ = 0;
    bool was_full_ = false;  // the sink, since the timer watches the time
    std::optional<base::Result<ExecEnd>> end_;
    std::function<void()> changed_;
    std::unique_ptr<sandbox::Run> run_;
};

}  // namespace atl::http
