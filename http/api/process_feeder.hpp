// Input of one request for a process: piece by piece, each until the process's pipe or terminal has taken it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/conversation/requests.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::http {

class ProcessFeeder final : private sandbox::RunObserver {
  public:
    using Reply = conversation::Reply<void>;

    ProcessFeeder(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations,
                  const std::string& id, base::Timers& timers);
    ~ProcessFeeder() override;
    ProcessFeeder(const ProcessFeeder&) = delete;
    ProcessFeeder& operator=(const ProcessFeeder&) = delete;

    /// Until input may come. One call of these two at a time. Errors: not_found, process_ended, sandbox_gone,
    /// bridge_failed, deadline_exceeded; invalid_field: it has no stdin.
    void wait(Reply reply) { ask({}, std::move(reply)); }
    /// `woken` is called when there may be an end; it may outlive this.
    void on_end(std::function<void()> woken) { woken_ = std::move(woken); }
    /// Why nothing can be passed on any more, unless that is because the process ended, as it may behind all
    /// its input.
    std::optional<base::Error> cut_off() const;
    /// `piece` lives until the reply.
    void feed(std::string_view piece, Reply reply) { ask(piece, std::move(reply)); }

  private:
    void on_started(pid_t) override;
    void on_output(sandbox::OutputKind, std::string_view) override {}
    void on_input_room() override { go_on(); }
    void on_exit(const sandbox::RunExit&) override;
    void on_failed(const base::Error& error) override;

    void ask(std::string_view piece, Reply reply);
    void go_on();
    void answer(base::Result<void> result);
    void end(base::Error why);

    std::unique_ptr<conversation::Lease> lease_;
    base::Timers& timers_;
    conversation::EndCause cause_;
    std::unique_ptr<sandbox::Run> run_;
    bool started_ = false;
    base::Result<void> end_;  // an error once nothing can be passed on any more
    std::string_view piece_;
    Reply reply_;
    std::function<void()> woken_;
    base::TimerId deadline_ = 0;
};

}  // namespace atl::http
