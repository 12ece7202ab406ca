// An accepted stream of the bridge: first a command line, read at once where it is already there, then what
// the command makes of it, then the next command line or the end. Output is a queue with flow control. Input
// behind the line is read only for a command that asks for it, and then as fast as the command takes it; what
// it does not take stays in the socket, but for one read. For other commands only the end of the host's
// stream matters (EPOLLRDHUP, epoll_ctl(2)). Knows nothing of commands.
#pragma once

#include <cstdint>
#include <string>

#include "bridge/agents/runtime.hpp"
#include "bridge/frame.hpp"

namespace atl::guest {

class Connection;

/// Bytes of input that one event reads: a frame of the greatest size.
inline constexpr std::size_t k_connection_read_bytes = base::k_max_frame_bytes + bridge::k_frame_header_bytes;

/// An object that follows a connection while a command runs on it. Each call may end the command.
class ConnectionUser {
  public:
    /// Input, after read_input(). Returns how many of `bytes` are done with; if not all, no more is read
    /// until resume_input().
    virtual std::size_t on_input(Connection&, std::string_view bytes) { return bytes.size(); }
    /// The host sends no more; only with HalfClose::told, and behind all input.
    virtual void on_input_end(Connection&) {}
    /// The output queue is empty again.
    virtual void on_drained(Connection&) {}
    /// Last call: the stream is closed.
    virtual void on_closed(Connection&) {}

  protected:
    ~ConnectionUser() = default;
};

class ConnectionOwner {
  public:
    /// A command line, without its newline.
    virtual void on_command(Connection& connection, std::string_view line) = 0;
    /// Last call: the stream is closed. The connection may be destroyed, but not before this call returns to
    /// the loop.
    virtual void on_gone(Connection& connection) = 0;

  protected:
    ~ConnectionOwner() = default;
};

class Connection final : public FdHandler, public TurnSink {
  public:
    /// The meaning of the end of the host's stream. ends: the host is gone, and unread input is dropped.
    /// ends_behind_input: the host is gone, and its input is read first. told: the input is complete.
    enum class HalfClose : std::uint8_t { ends, ends_behind_input, told };

    Connection(base::UniqueFd socket, Loop& loop, ConnectionOwner& owner);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Reads the command now or as it comes.
    void open();
    void close();

    /// Who is told what happens until the command is over; null: nobody.
    void follow(ConnectionUser* user) noexcept { user_ = user; }
    /// From now on input goes to the user; what is here already at once.
    void read_input(HalfClose half_close);
    /// Hands the user the input that it left, then reads on.
    void resume_input();
    /// No write follows: the host is told behind what is queued.
    void end_output();

    void write(std::string_view bytes) override;
    /// Both at once, which wakes the host once.
    void write(std::string_view head, std::string_view bytes);
    bool wants_more() const override;
    void finish() override;
    void break_off() override;
    void on_ready(std::uint32_t events) override;

  private:
    /// Ending: what is queued is still to be sent, then comes what `after_` says.
    enum class Phase : std::uint8_t { command, stream, ending, closed };
    enum class After : std::uint8_t { next_command, close };
    enum class Input : std::uint8_t { unread, read, ended };

    void read_command();
    void accept_command(std::size_t newline);
    void on_stream(std::uint32_t events);
    void read_some();
    void show(std::string_view bytes);
    void end(After after);
    void settle();
    void flush();
    void shut_if_ended();
    std::uint32_t watched() const;
    void watch();

    base::UniqueFd socket_;
    Loop& loop_;
    ConnectionOwner& owner_;
    ConnectionUser* user_ = nullptr;
    Phase phase_ = Phase::command;
    After after_ = After::close;
    Input input_state_ = Input::unread;
    HalfClose half_close_ = HalfClose::ends;
    bool input_early_ = false;  // the host said something before its command was done: read later
    bool output_ends_ = false;
    bool output_shut_ = false;
    bool in_loop_ = false;
    std::uint32_t waiting_for_ = 0;
    std::string input_;  // of a command line; or what the user did not take
    std::string output_;
    std::size_t sent_bytes_ = 0;  // of output_
};

}  // namespace atl::guest
