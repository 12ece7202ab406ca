// One accepted stream of the bridge: first a command line, read at once where it is already there, then an
// output queue with flow control, then the next command line or the end. Knows nothing of commands. While a
// command runs input is not read: all that matters is when the host goes (EPOLLRDHUP, epoll_ctl(2)).
#pragma once

#include <cstdint>
#include <string>

#include "bridge/agents/runtime.hpp"

namespace atl::guest {

class Connection;

class ConnectionOwner {
  public:
    /// The first line, without its newline.
    virtual void on_command(Connection& connection, std::string_view line) = 0;
    /// The queue of a stream is empty again.
    virtual void on_drained(Connection& connection) = 0;
    /// Last call: the stream is closed. The connection may be destroyed, but not before this call returns to
    /// the loop.
    virtual void on_closed(Connection& connection) = 0;

  protected:
    ~ConnectionOwner() = default;
};

class Connection final : public FdHandler, public TurnSink {
  public:
    /// What the owner uses the stream for, once it has read the command.
    enum class Role : std::uint8_t { none, query, control };

    Connection(base::UniqueFd socket, Loop& loop, ConnectionOwner& owner);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Reads the command now or as it comes.
    void open();
    void close();

    void write(std::string_view lines) override;
    bool wants_more() const override;
    void finish() override;
    void break_off() override;
    void on_ready(std::uint32_t events) override;

    Role role = Role::none;

  private:
    /// Ending: what is queued is still to be sent, then comes what `after_` says.
    enum class Phase : std::uint8_t { command, stream, ending, closed };
    enum class After : std::uint8_t { next_command, close };

    void read_command();
    void accept_command(std::size_t newline);
    void end(After after);
    void settle();
    void flush();
    std::uint32_t watched() const;
    void wait_for(std::uint32_t events);

    base::UniqueFd socket_;
    Loop& loop_;
    ConnectionOwner& owner_;
    Phase phase_ = Phase::command;
    After after_ = After::close;
    bool input_early_ = false;  // the host said something before its command was done: read later
    std::uint32_t waiting_for_ = 0;
    std::string input_;
    std::string output_;
    std::size_t sent_bytes_ = 0;  // of output_
};

}  // namespace atl::guest
