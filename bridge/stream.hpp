// A connection to a guest as a byte stream: connects, writes from a queue, and shows what arrives to its
// reader. Nothing it receives is trusted: no length, no rate, no descriptor (recv(2) without control data
// drops those). A handler reads at most base::k_bridge_read_bytes, shows them once, then yields.
// An idle stream owns no buffer: all streams of a server read into one.
// Not here: what the bytes are (line_reader.hpp, frame.hpp) and what they mean (query_stream.hpp and others).
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
#include "core/plain/unique_fd.hpp"

namespace atl::bridge {

/// The objects that all streams of a server share. `timers` must outlive every stream.
struct StreamContext {
    StreamContext(base::Executor in_executor, base::Timers& in_timers)
        : executor(in_executor), timers(in_timers) {}
    base::Executor executor;
    base::Timers& timers;
    std::array<char, base::k_bridge_read_bytes> scratch;  // of the handler that runs
};

/// How long a stream with Pace::pause is left alone: at first, and at most, doubling in between.
inline constexpr base::Millis k_first_pause{1};
inline constexpr base::Millis k_longest_pause{16};
/// Frames that one handler hands out; then others have their turn.
inline constexpr std::size_t k_frames_per_handler = 64;

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    enum class End : std::uint8_t { connect_failed, closed, refused };
    /// slow: base::k_truncated_read_bytes_per_s; pause: nothing for a while, then it is asked again; hold:
    /// nothing until resume().
    enum class Pace : std::uint8_t { full, slow, pause, hold };
    /// After the guest's last byte: whether the stream stays open for writing.
    enum class AtEof : std::uint8_t { end, keep_writing };

    /// The answer of a reader to the bytes that it was shown.
    struct Taken {
        enum class Rest : std::uint8_t { needs_more, go_on };
        std::size_t bytes = 0;          // from the front; the rest is shown again
        Rest rest = Rest::needs_more;   // go_on: show the rest in another handler, without more behind it
        const char* refusal = nullptr;  // ends the stream: a sentence that quotes nothing of the bytes
    };

    /// Called from the loop, never from inside open(). Each call may call close() or release().
    class Reader {
      public:
        /// All that is here and was not taken yet; valid during the call. What is left untaken must be
        /// bounded by the reader. After a callback of its own that may have destroyed it, it may still ask
        /// `stream` whether it has a reader.
        virtual Taken on_bytes(Stream& stream, std::string_view bytes) = 0;
        /// The guest sends no more.
        virtual AtEof on_eof() { return AtEof::end; }
        /// All that waited in the write queue has been written.
        virtual void on_writable() {}
        /// Last call. `detail` is a sentence, safe to show.
        virtual void on_end(End end, std::string_view detail) = 0;
        virtual Pace pace() const { return Pace::full; }

      protected:
        ~Reader() = default;
    };

    /// Connects to the socket that is at `path` now (at most 107 bytes, unix(7)) and sends `command`. A full
    /// backlog is tried again for about a second, at the same socket, whatever is at the path by then.
    /// `reader` is called until its on_end() or until close().
    static std::shared_ptr<Stream> open(std::shared_ptr<StreamContext> context, const std::string& path,
                                        std::string command, Reader& reader);
    /// Use open().
    explicit Stream(std::shared_ptr<StreamContext> context);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// From inside Reader::on_bytes(), at the byte that ends the command: the reader is not called any more,
    /// and the connection stays open for begin(). It closes by itself if the guest closes it or has more to
    /// say: only a command is answered.
    void release() noexcept { reader_ = nullptr; }
    /// Sends the next command after release(), as open() does. False, with `command` untouched: the
    /// connection is gone.
    bool begin(std::string& command, Reader& reader);

    /// Writes now what the kernel takes, queues the rest: the caller keeps to room(). Nothing happens once
    /// the guest takes no more.
    void write(std::string_view bytes) { write({}, bytes); }
    /// Both at once, which wakes the guest once.
    void write(std::string_view head, std::string_view bytes);
    /// How much more the queue should hold.
    std::size_t room() const noexcept;
    /// No write follows: the guest is told behind what is queued.
    void close_write();
    /// After Pace::hold: reads on. Harmless otherwise.
    void resume();
    /// From inside Reader::on_bytes(): counts as so many bytes read, for Pace::slow.
    void charge(std::size_t bytes) noexcept { unpaced_bytes_ += bytes; }

    /// Closes the connection, which cancels what the guest does for it. The reader is not called any more.
    /// Safe to repeat.
    void close();
    /// True until its end, release() or close().
    bool has_reader() const noexcept { return reader_ != nullptr; }

  private:
    using Socket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol, base::Executor>;
    enum class Connected : std::uint8_t { yes, later, failed };

    void connect();
    Connected try_connect(const char*& why);
    bool pin_address();
    void retry_connect();
    std::size_t send_some(std::string_view head, std::string_view bytes);
    void flush();
    void written();
    void wait_writable();
    void wait_readable();
    void on_readable();
    void on_eof();
    std::size_t show(std::string_view bytes);
    void go_on();
    bool rests();
    void work_off();
    void keep_for_next();
    void end(End why, std::string_view detail);
    void end_later(End why, const char* detail);

    std::shared_ptr<StreamContext> context_;
    Reader* reader_ = nullptr;  // null between commands and once closed
    Socket socket_;
    sockaddr_un address_{};
    base::UniqueFd pinned_;  // the socket's inode, which address_ names while connecting is tried again
    std::string output_;
    std::size_t sent_bytes_ = 0;     // of output_
    std::string pending_;            // received and not taken
    std::size_t unpaced_bytes_ = 0;  // read since the pace was last looked at
    bool backlog_ = false;           // the reader can go on with pending_
    bool connected_ = false;
    bool waits_readable_ = false;
    bool held_ = false;
    bool write_ends_ = false;   // close_write() was called
    bool write_ended_ = false;  // the guest was told, or takes no more
    bool read_ended_ = false;   // at the end of what it sends
    bool closed_ = false;
    std::size_t connect_attempts_ = 0;
    base::Millis next_pause_ = k_first_pause;
    base::TimerId timer_ = 0;
};

/// The connection of the last command that left it good, for the next one, which then need not connect.
/// Shared by those who send commands to one guest and the commands.
class IdleStream {
  public:
    /// Sends `command` by the connection that is kept, if it is still good, or by a new one, as
    /// Stream::open().
    std::shared_ptr<Stream> begin(std::shared_ptr<StreamContext> context, const std::string& path,
                                  std::string command, Stream::Reader& reader);
    /// `stream` was released. It is closed where another one is kept, or none any more.
    void keep(std::shared_ptr<Stream> stream);
    /// None is kept from now on.
    void drop();
    bool is_dropped() const noexcept { return dropped_; }

  private:
    std::shared_ptr<Stream> stream_;
    bool dropped_ = false;
};

}  // namespace atl::bridge
