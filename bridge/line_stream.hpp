// One connection to a guest: connects, writes a command, then hands out lines, each bounded. Nothing it
// receives is trusted: no length, no rate, no descriptor (recv(2) without control data drops those).
// A handler reads at most base::k_bridge_read_bytes, hands out a bounded number of lines, then yields.
// An idle stream owns no buffer: all streams of a server read into one.
// Not here: what lines mean (query_stream.hpp, control_stream.hpp, request.hpp).
#pragma once

#include <sys/un.h>

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/base/task.hpp"

namespace atl::bridge {

/// What all streams of a server share. `timers` must outlive every stream.
struct StreamContext {
    StreamContext(base::Executor in_executor, base::Timers& in_timers)
        : executor(in_executor), timers(in_timers) {}
    base::Executor executor;
    base::Timers& timers;
    std::array<char, base::k_bridge_read_bytes> scratch;  // of the handler that runs
};

/// Lines that one handler hands out; then others have their turn.
inline constexpr std::size_t k_lines_per_handler = 64;
/// How long a stream with Pace::pause is left alone: at first, and at most, doubling in between.
inline constexpr base::Millis k_first_pause{1};
inline constexpr base::Millis k_longest_pause{16};

class LineStream : public std::enable_shared_from_this<LineStream> {
  public:
    enum class End : std::uint8_t { connect_failed, closed, line_too_long };
    /// slow: base::k_truncated_read_bytes_per_s; pause: nothing for a while, then it is asked again.
    enum class Pace : std::uint8_t { full, slow, pause };

    /// Called from the loop, never from inside open(). Each call may call close().
    class Sink {
      public:
        /// A line without its newline, valid during the call.
        virtual void on_line(std::string_view line) = 0;
        /// Last call. `detail` is a sentence, safe to show.
        virtual void on_end(End end, std::string_view detail) = 0;
        virtual Pace pace() const { return Pace::full; }

      protected:
        ~Sink() = default;
    };

    /// Connects to the socket at `path` (at most 107 bytes, unix(7)) and sends `command`. A full backlog is
    /// tried again for about a second. `sink` is called until its on_end() or until close().
    static std::shared_ptr<LineStream> open(std::shared_ptr<StreamContext> context, const std::string& path,
                                            std::string command, std::size_t max_line_bytes, Sink& sink);
    /// Use open().
    LineStream(std::shared_ptr<StreamContext> context, std::size_t max_line_bytes);
    LineStream(const LineStream&) = delete;
    LineStream& operator=(const LineStream&) = delete;

    /// From inside Sink::on_line(), at the line that ends the command: the sink is not called any more, and
    /// the connection stays open for begin(). It closes by itself if the guest closes it or has more to say:
    /// only a command is answered.
    void release() noexcept { sink_ = nullptr; }
    /// Sends the next command after release(), as open() does. False, with `command` untouched: the
    /// connection is gone.
    bool begin(std::string& command, Sink& sink);

    /// Closes the connection, which cancels what the guest does for it. The sink is not called any more.
    /// Safe to repeat.
    void close();
    /// True until its end, release() or close().
    bool has_sink() const noexcept { return sink_ != nullptr; }

  private:
    using Socket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol, base::Executor>;
    enum class Connected : std::uint8_t { yes, later, failed };

    void connect();
    Connected try_connect(const char*& why);
    void retry_connect();
    void write_command();
    void wait_readable();
    void on_readable();
    std::size_t hand_out(std::string_view bytes);
    void go_on();
    void pause();
    void work_off();
    void keep_for_next();
    void end(End why, std::string_view detail);
    void end_later(End why, const char* detail);

    std::shared_ptr<StreamContext> context_;
    Sink* sink_ = nullptr;  // null between commands and once closed
    Socket socket_;
    sockaddr_un address_{};
    std::string command_;
    std::size_t sent_bytes_ = 0;  // of command_
    const std::size_t max_line_bytes_;
    std::string pending_;             // received, not handed out: part of a line, or what a handler left over
    std::size_t searched_bytes_ = 0;  // of pending_: no newline there
    std::size_t unpaced_bytes_ = 0;   // read since the pace was last looked at
    bool backlog_ = false;            // pending_ may hold complete lines
    bool waits_readable_ = false;
    bool closed_ = false;
    std::size_t connect_attempts_ = 0;
    base::Millis next_pause_ = k_first_pause;
    base::TimerId timer_ = 0;
};

}  // namespace atl::bridge
