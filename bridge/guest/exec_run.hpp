// A program of `exec`: its process group, its three pipes, its end. Output is read only as fast as the host
// reads. The exit is sent when both output pipes are closed by everyone, or k_output_grace after it with what
// is in them by then: a process in the background may hold them for ever. When the host closes the
// connection the group is ended, and the pipes are read to nowhere.
#pragma once

#include <functional>
#include <optional>

#include "bridge/guest/frame_user.hpp"
#include "bridge/guest/process_tree.hpp"
#include "bridge/guest/program_input.hpp"
#include "bridge/guest/program_request.hpp"

namespace atl::guest {

/// How long pipes that others hold are waited for behind the exit.
inline constexpr Millis k_output_grace{100};

class ExecRun final : public FrameUser {
  public:
    /// `connection` outlives this or says on_closed().
    ExecRun(Services& services, Connection& connection);
    ~ExecRun();
    ExecRun(const ExecRun&) = delete;
    ExecRun& operator=(const ExecRun&) = delete;

    /// Starts the program, answers the host and follows the connection. `on_gone` is called once, from the
    /// loop, when all is over; it destroys this. With a refusal nothing of that happens.
    ProgramRefusal start(const ProgramRequest& request, std::function<void()> on_gone);

  private:
    /// The read end of stdout or stderr.
    struct Output final : FdHandler {
        Output(ExecRun& in_run, bridge::FrameType in_type) : run(in_run), type(in_type) {}
        void on_ready(std::uint32_t) override { run.on_output(*this); }
        ExecRun& run;
        const bridge::FrameType type;
        base::UniqueFd pipe;
        bool listening = false;
    };

    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;
    bool handle(const bridge::Frame& frame) override;

    ProgramRefusal launch(const ProgramRequest& request);
    void on_output(Output& output);
    ssize_t read_some(Output& output, std::size_t limit_bytes);
    void listen(Output& output);
    void pause(Output& output);
    void drain(Output& output);
    void leave(Output& output);
    void escalate(int signal_number);
    void on_exit(const Ending& ending);
    void finish();
    void gone();

    Services& services_;
    std::function<void()> on_gone_;
    pid_t pid_ = -1;  // until it has ended
    std::optional<Ending> ending_;
    bool timed_out_ = false;
    ProcessTree tree_;
    bool forced_ = false;  // being ended by this
    TimerId timer_ = 0;
    InputWindow window_;
    InputPipe input_;
    Output output_{*this, bridge::FrameType::output};
    Output error_{*this, bridge::FrameType::error};
};

}  // namespace atl::guest
