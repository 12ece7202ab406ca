// The byte stream of one client: an input buffer that at most one read fills, writes that try the socket at
// once and wait only when it is full, one deadline, and one event that wakes the session for all of them. TCP
// and Unix sockets alike, with TLS or without: no other part of http knows the difference. Not here: HTTP,
// the socket (byte_stream.hpp), the TLS protocol (tls_stream.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/base/task.hpp"
#include "http/wire/byte_stream.hpp"
#include "http/wire/tls_stream.hpp"
#include "http/wire/wake_event.hpp"
#include "http/wire/wire_settings.hpp"

namespace atl::http {

/// Why a wait ended.
enum class Io : std::uint8_t {
    ok,
    eof,        // the peer sends nothing more
    deadline,   // the deadline passed and is cleared
    stopped,    // interrupt() was called, or abort()
    plaintext,  // async_open() only: the peer speaks HTTP where TLS is spoken
    failed,     // the connection is broken
};

/// The input buffer's size: `small` for requests and frames, which come a few at a time; `full` for bulk.
enum class BufferSize : std::uint8_t { small, full };

class Connection final : public std::enable_shared_from_this<Connection> {
  public:
    /// With `tls` the connection speaks TLS, and is of no use before async_open(). The references must
    /// outlive the connection.
    Connection(std::unique_ptr<ByteStream> stream, const base::Clock& clock, base::Timers& timers,
               const WireSettings& settings, std::shared_ptr<const TlsContext> tls = nullptr);
    /// A connection that a coroutine waits for together with another: whatever happens to this one wakes the
    /// other's waiter. Deadlines belong to the other one. Once its peer takes nothing more
    /// (has_peer_stopped_reading()), what the peer has said can still be read.
    Connection(std::unique_ptr<ByteStream> stream, const Connection& other);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    /// The handshake of TLS, within the header deadline; nothing without TLS. ok, eof, deadline, stopped,
    /// failed. After `plaintext` the connection goes on without TLS: for an answer and async_linger().
    base::Task<Io> async_open();
    /// From now on the connection speaks TLS, of which the input is the beginning: async_open() has to
    /// follow. Precondition: it does not yet, and nothing of it is waited for.
    void start_tls(std::shared_ptr<const TlsContext> tls);
    /// True if the input came through TLS.
    bool is_secure() const noexcept { return secure_; }

    /// The bytes that have arrived and were not consumed. The view is valid until the next wait.
    std::string_view input() const noexcept { return {buffer_.data() + begin_, end_ - begin_}; }
    void consume(std::size_t count) noexcept;

    /// From now on. With `full` the buffer has its greatest size at once and is kept when it is empty.
    void use_buffer(BufferSize size) noexcept;

    /// From now on output that the peer does not take is this holder's in WireSettings::buffers, but for what
    /// each connection has free. Without room there the kernel takes less of it at once, and async_send()
    /// fails where much is left. Nobody: nothing is charged.
    void charge_to(std::optional<base::ShareHolder> payer) { payer_ = std::move(payer); }

    /// Where nobody is, the server's own key.
    base::ShareHolder payer() const { return payer_.value_or(base::ShareHolder()); }

    base::SteadyTime now() const { return clock_.steady_now(); }
    void set_deadline(base::Millis from_now);
    void clear_deadline() noexcept;
    /// At `at` the connection breaks off as by cut() and abort(), whatever the peer does and whatever is
    /// waited for. max: never.
    void cut_at(base::SteadyTime at);

    /// Waits until more input is there than before. ok, eof, deadline, stopped, failed.
    base::Task<Io> async_fill();
    /// Sends all of `bytes`, which must live until then; each 64 KiB has the write deadline. After a failure
    /// the number of sent bytes is unknown, and the connection is broken. ok, deadline, stopped (abort only),
    /// failed.
    base::Task<Io> async_send(std::string_view bytes);
    /// Waits for a wake, and meanwhile reads ahead so that a client that goes away is noticed. ok (something
    /// woke us, perhaps for nothing), eof, deadline, stopped (abort only), failed.
    base::Task<Io> async_idle();
    /// Waits for a wake and reads nothing more meanwhile. ok (something woke us, perhaps for nothing),
    /// deadline, stopped (abort only).
    base::Task<Io> async_pause();
    /// For a coroutine that waits for two connections at once: it does what can be done now on both, and then
    /// waits for the event that they share, with async_pause().
    /// Reads ahead as long as there is room; what arrives, or an end, wakes.
    void begin_read() { start_read(); }
    /// Sends what can be sent now. Gives how many bytes that was; where it was not all, a wake says that more
    /// can be sent, or that the connection has failed.
    std::size_t send_some(std::string_view bytes);
    /// The bytes that send_some() has sent.
    std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
    /// How the connection is, without a wait. ok, eof, stopped (abort only), failed.
    Io status() const noexcept;
    /// True if a write has failed where that does not end reading. An end of the input behind it is `failed`:
    /// a reset looks like one once the write has taken its error (tcp(7), SO_ERROR).
    bool has_peer_stopped_reading() const noexcept { return deaf_; }
    /// Takes the stream away, for another use; null where a read or a wait of it is under way. Only without
    /// TLS and input.
    std::unique_ptr<ByteStream> release();
    /// The peer sees the end of what is sent. TLS has no half-open state: there it ends both sides.
    void end_sending();

    /// Ends the sending side and reads on, dropping input, until the peer closes or the linger deadline
    /// passes: an answer before the end of a request would otherwise be lost to a reset (RFC 9112
    /// section 9.6).
    base::Task<> async_linger();

    /// Ends async_fill() with `stopped`, now and later.
    void interrupt();
    /// Ends every wait with `stopped` and closes the socket.
    void abort();
    /// Breaks the connection off with a reset: what was sent so far must not look complete to the peer.
    /// close() has to follow.
    void cut();
    void close();
    const bool& is_aborted() const noexcept { return aborted_; }
    const std::shared_ptr<WakeEvent>& wake() const noexcept { return wake_; }

  private:
    void arm_timer();
    void on_timer();
    void start_read();
    void start_tls_read();
    void take_tls_input();
    void start_read_wait();
    void start_write_wait();
    void fail_write() noexcept;
    std::size_t write_some(std::string_view bytes);
    bool hold_output(std::size_t left);
    void give_output_back(std::size_t next_bytes);
    void end_tls();
    bool make_room();
    void free_buffer() noexcept;

    std::unique_ptr<ByteStream> stream_;
    const base::Clock& clock_;
    base::Timers& timers_;
    const WireSettings& settings_;
    std::shared_ptr<WakeEvent> wake_;
    std::unique_ptr<TlsStream> tls_;  // gone before the stream is closed
    std::vector<char> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::uint64_t sent_bytes_ = 0;
    base::SteadyTime deadline_ = base::SteadyTime::max();  // max: none
    base::SteadyTime timer_at_{};
    base::TimerId timer_ = 0;
    base::TimerId cut_timer_ = 0;
    std::optional<base::ShareHolder> payer_;
    base::Share kernel_share_;  // of output that the kernel has taken and may not have sent
    base::Share rest_share_;    // of the rest of it, beside the free part
    BufferSize size_ = BufferSize::small;
    bool read_pending_ = false;
    bool write_pending_ = false;
    bool eof_ = false;
    bool failed_ = false;
    bool reads_on_ = false;  // when a write has failed
    bool deaf_ = false;
    bool secure_ = false;
    bool read_wants_write_ = false;  // TLS cannot read on before it has sent
    bool deadline_passed_ = false;
    bool interrupted_ = false;
    bool aborted_ = false;
};

}  // namespace atl::http
