#include "http/api/exec_run.hpp"

#include <string.h>

#include <utility>

namespace atl::http {

using base::Errc;
using base::Error;

std::string signal_word(int number) {
    const char* name = sigabbrev_np(number);
    return "SIG" + (name != nullptr ? std::string(name) : std::to_string(number));
}

ExecRun::ExecRun(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations, ExecForm form,
                 ExecSink& sink, const base::Clock& clock, base::Timers& timers)
    : lease_(std::move(lease)),
      sink_(sink),
      clock_(clock),
      timers_(timers),
      began_(clock.steady_now()),
      input_(std::move(form.input)),
      input_share_(std::move(form.input_share)),
      feeds_(form.spec.stdin_kind == sandbox::RunSpec::Stdin::pipe) {
    if (lease_)
        cause_.emplace(*lease_, timers_, [this](const Error& why) { finish(why); });
    watch_time(form.spec.timeout + base::k_exec_end_grace);
    run_ = operations.run(form.spec, *this);
}

ExecRun::~ExecRun() {
    timers_.cancel(timer_);
}

void ExecRun::resume() {
    if (run_)
        run_->resume();
}

void ExecRun::on_started(pid_t) {
    started_ = true;
    feed();
    if (changed_)
        changed_();
}

void ExecRun::feed() {
    if (!feeds_)
        return;
    sent_bytes_ += run_->write(std::string_view(input_).substr(sent_bytes_));
    if (sent_bytes_ < input_.size())
        return;
    feeds_ = false;
    drop_input();
    run_->close_input();
}

void ExecRun::drop_input() {
    std::string().swap(input_);
    input_share_ = {};
}

void ExecRun::on_output(sandbox::OutputKind kind, std::string_view bytes) {
    sink_.take(kind, bytes);
    was_full_ = was_full_ || sink_.is_full();
    if (changed_)
        changed_();
}

void ExecRun::on_exit(const sandbox::RunExit& exit) {
    const auto taken = clock_.steady_now() - began_;
    finish(ExecEnd{exit, std::chrono::duration_cast<base::Millis>(taken)});
}

void ExecRun::on_failed(const Error& error) {
    run_.reset();
    timers_.cancel(std::exchange(timer_, 0));
    if (cause_)
        cause_->met(error);
    else
        finish(error);
}

// The guest ends a program whose time is over, but tells it behind the output. A reader that is slow holds
// that up, also where the sink has room again at the moment of the timer.
void ExecRun::watch_time(base::Millis left) {
    was_full_ = sink_.is_full();
    timer_ = timers_.arm(left, [this] {
        timer_ = 0;
        if (was_full_)
            return watch_time(base::k_exec_end_grace);
        finish(Error(Errc::deadline_exceeded, "the guest did not end the program in time"));
    });
}

void ExecRun::finish(base::Result<ExecEnd> end) {
    timers_.cancel(std::exchange(timer_, 0));
    run_.reset();
    cause_.reset();
    lease_.reset();
    drop_input();
    if (end_)
        return;
    end_ = std::move(end);
    if (changed_)
        changed_();
}

}  // namespace atl::http
