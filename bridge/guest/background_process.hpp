// A process that outlives the connection that started it: its group, its pipes or its terminal, the last of
// its output, its followers, its end. Output is always read, so that the program never blocks for long: the
// process waits for a follower while the ring holds what that one still lacks, and for k_reader_patience
// beyond that. Input for stdin is passed on in the order in which it came, from all connections; input of
// connections that have gone waits up to k_left_input_bytes. Not here: the bound of their number and the time
// that an ended one is kept (process_table.hpp).
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "bridge/guest/frame_user.hpp"
#include "bridge/guest/output_ring.hpp"
#include "bridge/guest/program_input.hpp"
#include "bridge/guest/program_request.hpp"
#include "bridge/guest/terminal.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {

/// Output that is kept of a process.
inline constexpr std::size_t k_kept_output_bytes = base::k_kept_output_bytes;
/// The time that a program waits for a reader that takes nothing.
inline constexpr Millis k_reader_patience{2000};

class BackgroundProcess;

/// A host connection that follows a background process: output from an offset on, as fast as the host reads;
/// then the exit; input and signals from the host. Closing it ends nothing; what the host had sent for stdin
/// is still passed on.
class Attachment final : public FrameUser {
  public:
    /// feed: no output is sent, only the exit.
    enum class Use : std::uint8_t { follow, feed };

    /// `process` outlives this; `connection` does, or says on_closed(). Output goes on at `offset`, the
    /// number of bytes that the host has.
    Attachment(BackgroundProcess& process, Loop& loop, Connection& connection, std::uint64_t offset, Use use);
    ~Attachment();
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    /// Sends what the host does not have yet, within what the connection wants; behind it the exit.
    void pump();
    /// True where reading so many bytes more would drop some that this one waits for.
    bool would_lose(std::uint64_t bytes) const;
    /// It is not waited for any more until it has caught up.
    void give_up() noexcept { slow_ = true; }
    /// So many bytes that it gave for stdin wait no longer.
    void on_passed(std::size_t bytes) { window_.passed(bytes); }
    /// Nothing is left to do for it.
    bool is_over() const noexcept { return connection_ == nullptr; }

  private:
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;
    bool handle(const bridge::Frame& frame) override;
    bool pass_on(std::string_view bytes);
    void send_exit();

    BackgroundProcess& process_;
    const Use use_;
    std::uint64_t offset_;  // of the next byte to send
    bool slow_ = false;
    InputWindow window_;
};

class BackgroundProcess {
  public:
    struct Spec {
        std::string id;
        std::string described;  // members of its line in a list, as JSON without braces
        ProgramRequest program;
        std::optional<TerminalSize> terminal;
    };

    BackgroundProcess(Services& services, Spec spec);
    ~BackgroundProcess();
    BackgroundProcess(const BackgroundProcess&) = delete;
    BackgroundProcess& operator=(const BackgroundProcess&) = delete;

    /// `on_end` is called once, when the program has ended and its output is complete; it does not destroy
    /// this. With a refusal nothing of that happens.
    ProgramRefusal start(std::function<void()> on_end);
    /// Answers the host, and goes on at `after` bytes of output, or at what is nearest to that. False: too
    /// many follow it already.
    bool attach(Connection& connection, std::uint64_t after, Attachment::Use use);

    /// Signals its group and the foreground group of its terminal; SIGKILL goes to its whole session. False:
    /// it has ended.
    bool signal(int number);
    /// False: it has no terminal, or has ended.
    bool resize(const TerminalSize& size);
    /// True while it has a stdin that is not at its end.
    bool takes_input() const noexcept { return input_.is_open(); }
    void write_input(Attachment& by, std::string_view bytes);
    /// End of file behind all that was written. Nothing happens to a terminal.
    void end_input();
    /// Keeps at most k_left_input_bytes of input from a client that left.
    void leave_input(const Attachment& who);

    const std::string& id() const noexcept { return spec_.id; }
    bool is_terminal() const noexcept { return spec_.terminal.has_value(); }
    bool is_running() const noexcept { return !ending_; }
    pid_t pid() const noexcept { return pid_; }
    /// Connections that are open to it.
    std::size_t followers() const;
    /// Empty while it runs, or while its output is not complete.
    const std::optional<bridge::ExitStatus>& exit() const noexcept { return exit_; }
    const OutputRing& output() const noexcept { return ring_; }
    /// The line that tells of this process in a list.
    std::string line() const;
    std::size_t described_bytes() const noexcept { return spec_.described.size(); }

    /// Somebody has taken output, or has gone.
    void on_read();

  private:
    /// The read end of stdout or stderr, or the master of the terminal.
    struct Output final : FdHandler {
        Output(BackgroundProcess& in_process, bridge::FrameType in_type)
            : process(in_process), type(in_type) {}
        void on_ready(std::uint32_t) override { process.on_output(*this); }
        BackgroundProcess& process;
        const bridge::FrameType type;
        base::UniqueFd fd;
        bool listening = false;
    };

    ProgramRefusal launch();
    ProgramRefusal launch_in_terminal(SpawnRequest& spawned);
    ProgramRefusal launch_with_pipes(SpawnRequest& spawned);
    ProgramRefusal run(SpawnRequest& spawned);
    void on_output(Output& output);
    ssize_t read_some(Output& output, std::size_t limit_bytes);
    void listen(Output& output);
    void pause(Output& output);
    void drain(Output& output);
    bool has_output() const noexcept { return output_.fd || error_.fd; }
    bool must_wait() const;
    void wait_for_readers();
    void stop_waiting();
    pid_t foreground_group() const;
    void signal_all(int number);
    void escalate(int signal_number);
    void on_passed(std::size_t bytes);
    void on_exit(const Ending& ending);
    void await_output();
    void finish();

    Services& services_;
    Spec spec_;
    std::function<void()> on_end_;
    const std::int64_t started_ms_;  // of the wall clock
    pid_t pid_ = -1;                 // also after its end
    std::optional<Ending> ending_;   // it has ended; its output may still be read
    std::optional<bridge::ExitStatus> exit_;
    bool timed_out_ = false;
    bool killed_ = false;    // by this: its session ends with it
    int output_waits_ = 0;   // behind the end, for output that still comes
    int end_waits_ = 0;      // for that, and for readers
    TimerId timer_ = 0;      // of the timeout, then of the output behind the end
    TimerId patience_ = 0;   // while output is not read for the sake of readers
    base::UniqueFd holder_;  // of its terminal, until it ends
    struct Waiting {
        Attachment* from;  // null: it has gone
        std::size_t bytes;
    };
    std::deque<Waiting> waiting_;  // what waits in input_
    InputPipe input_;
    Output output_{*this, bridge::FrameType::output};
    Output error_{*this, bridge::FrameType::error};
    OutputRing ring_{k_kept_output_bytes};
    std::list<Attachment> attachments_;
};

}  // namespace atl::guest
