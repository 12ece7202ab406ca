// An execution on a WebSocket: its events from a number on, live, as text frames {seq, type, at, data};
// answers to calls and its cancellation from the client, obeyed in their order. It ends behind `done`, and
// the run goes on without it. Not here: the loop, pings, the end (frame_session.hpp), the right to open one
// (executions.cpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/execution/execution.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "http/access/client_limits.hpp"
#include "http/api/execution_form.hpp"
#include "http/api/frame_session.hpp"

namespace atl::http {

class ExecutionSocket final : public FrameSession {
  public:
    /// `checks`: split long answers, and outlive this. Null: they are read here.
    ExecutionSocket(std::shared_ptr<execution::Execution> execution, execution::OffloadedChecks* checks,
                    std::uint64_t after, StreamLease place, AdmitFrame admit_frame,
                    base::SteadyTime expires_at);

  private:
    void begin(const std::shared_ptr<WakeEvent>& wake) override;
    void on_message(Opcode opcode, std::string_view payload) override;
    void on_refused(const base::Error& error) override { write_rejection(out(), error); }
    void produce(base::SteadyTime now) override;
    /// Frames behind a long answer wait for it.
    bool is_busy() const override { return splitting_ != nullptr; }
    bool has_work() const override { return woken_; }
    std::uint64_t resume_point() const override { return cursor_; }
    void on_closing() override { splitting_.reset(); }

    void split(std::string text);
    void take(const base::Result<ExecutionFrame>& frame);
    base::Result<void> handle(const ExecutionFrame& frame);

    StreamLease place_;
    execution::Execution::Follower follower_;
    execution::OffloadedChecks* const checks_;
    std::shared_ptr<WakeEvent> wake_;
    std::unique_ptr<execution::OffloadedJob> splitting_;       // until what came of it is taken
    std::optional<base::Result<execution::SplitJson>> parts_;  // what came of it
    std::uint64_t cursor_;
    bool woken_ = true;
};

}  // namespace atl::http
