// A process on a WebSocket: its output from a byte on as binary frames, its end as a text frame; input, size
// and signals from the client. Invariants: output that the client does not read waits in the sandbox, and
// here no more than an OutputRoom of it; input that the process does not read waits at the client,
// and here no more than one message of it, which keeps its place in the body budget. The process does not end
// with its WebSocket. Not here: the loop, pings, the end (frame_session.hpp), frames
// (http/websocket/codec.hpp), the right to open one (process_follow.cpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/conversation/leases.hpp"
#include "core/sandbox/operations.hpp"
#include "http/access/client_limits.hpp"
#include "http/api/frame_session.hpp"
#include "http/api/output_room.hpp"
#include "http/api/process_form.hpp"

namespace atl::http {

class ProcessSocket final : public FrameSession, private sandbox::RunObserver {
  public:
    struct Calls {
        std::function<void()> is_active;  // input has come
        AdmitFrame admit_frame;
        std::function<void(int number)> is_signalled{};  // before a signal is sent; may be empty
    };

    ProcessSocket(std::unique_ptr<conversation::Lease> lease, StreamLease place, Calls calls,
                  base::SteadyTime expires_at);

    /// Begins to follow the process. `on_known` is called when it is known whether it can be, and again when
    /// more is known of its failure, until the WebSocket runs.
    void attach(sandbox::Operations& operations, const std::string& id, std::uint64_t after,
                std::function<void()> on_known);
    /// Output that waits for the client is of this room from now on.
    void keep_within(OutputRoom room) { room_ = std::move(room); }
    bool is_known() const noexcept { return started_ || failure_; }
    /// Why it cannot be followed.
    const std::optional<base::Error>& failure() const noexcept { return failure_; }

  private:
    // sandbox::RunObserver
    void on_started(pid_t pid) override;
    void on_position(std::uint64_t from, sandbox::StreamKind kind) override;
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_dropped(std::uint64_t bytes) override;
    void on_input_room() override { changed(); }
    void on_exit(const sandbox::RunExit& exit) override;
    void on_failed(const base::Error& error) override;
    bool is_full() const override { return waiting_.size() >= room_.bytes(); }

    // FrameSession
    void begin(const std::shared_ptr<WakeEvent>& wake) override { wake_ = wake; }
    void settle() override { pass_input(); }
    void on_message(Opcode opcode, std::string_view payload) override;
    void on_refused(const base::Error& error) override { write_rejection(out(), error); }
    void produce(base::SteadyTime now) override;
    bool is_busy() const override { return !input_.empty(); }
    bool keeps_message() const override { return !input_.empty(); }
    bool has_work() const override { return woken_; }
    base::SteadyTime wakes_at() const override { return cause_until_; }
    std::uint64_t resume_point() const override { return offset_; }
    void on_closing() override { run_.reset(); }

    void changed();
    void on_input(std::string_view bytes);
    void handle(const ProcessFrame& frame);
    void end_input();
    void pass_input();
    void take_output();

    std::unique_ptr<conversation::Lease> lease_;
    StreamLease place_of_stream_;
    std::function<void()> is_active_;
    std::function<void(int)> is_signalled_;
    std::unique_ptr<sandbox::Run> run_;
    std::function<void()> on_known_;
    std::shared_ptr<WakeEvent> wake_;  // once it has a connection
    bool woken_ = true;
    bool started_ = false;
    pid_t pid_ = 0;
    bool has_terminal_ = false;
    std::uint64_t offset_ = 0;  // of the output behind what was shown
    std::optional<base::Error> failure_;
    bool is_over_ = false;  // the exit is among the waiting frames
    std::string waiting_;   // frames for the client
    OutputRoom room_;       // of those
    std::string input_;     // of the client, that the process has no room for yet
    bool input_ends_ = false;
    base::SteadyTime cause_until_ = base::SteadyTime::max();  // when the cause of a failure is given up
};

}  // namespace atl::http
