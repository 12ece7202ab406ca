// TLS of one connection over a non-blocking socket, as a server or as a client: every call does the work that
// is possible at once and names the event to wait for. A server allocates nothing before the client's first
// byte, and an idle connection keeps no record buffers. Each call does a bounded amount of work: a peer that
// never pauses lets the loop run. Not here: waiting, deadlines (connection.hpp), the rules (tls_context.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/wire/tls_context.hpp"

struct ssl_st;

namespace atl::http {

class TlsStream {
  public:
    enum class Step : std::uint8_t {
        done,
        want_read,   // again when the socket can be read
        want_write,  // again when the socket can be written, which may be at once
        eof,         // the peer sends nothing more: close_notify, or the end of TCP
        plaintext,   // handshake() only: the peer speaks HTTP without TLS; nothing was read or sent
        failed,      // reason() says why; an alert was sent where there is one for it
    };
    struct IoResult {
        std::size_t bytes;
        Step step;
    };

    /// `socket` must be non-blocking and stay open as long as this lives. Sends and reads nothing yet.
    TlsStream(std::shared_ptr<const TlsContext> context, int socket) noexcept;
    /// The client's side, with a context of make_client(). It asks for `server_name`, a host name or an
    /// address literal without brackets, and takes no server whose certificate is for another.
    TlsStream(std::shared_ptr<const TlsContext> context, int socket, std::string server_name) noexcept;
    TlsStream(const TlsStream&) = delete;
    TlsStream& operator=(const TlsStream&) = delete;
    ~TlsStream();

    /// Bytes that were read from the socket before, and come first. Before the first handshake().
    void read_before(std::string bytes) noexcept { early_ = std::move(bytes); }
    /// Goes on with the handshake; `done` once it is complete. Anything but a want is its last answer. As a
    /// client it reads one message a call, and checks the certificates in a call of its own.
    Step handshake();
    /// Up to `size` bytes, more than 0, of one record at most; `done` says that there are some. A peer that
    /// sends new keys or tickets again and again has failed. Precondition here and below: the handshake is
    /// done.
    IoResult read(char* data, std::size_t size);
    /// Takes some or all of `bytes`. `want_write`: the socket is full, and the next call must begin with the
    /// first byte that was not taken. `done` with fewer than all: others should run before the next call.
    IoResult write(std::string_view bytes);
    /// True if read() may have something without the socket being readable.
    bool has_pending() const noexcept;
    /// Says that nothing more follows, if that can be said now: not within a record (RFC 8446 section 6.1).
    void send_close_notify();

    /// The reason of a failure; a static text.
    const char* reason() const noexcept { return reason_; }

  private:
    static void on_message(int is_sent, int version, int type, const void* data, std::size_t size,
                           ssl_st* ssl, void* self);
    Step begin();
    Step look_at_first_byte();
    bool ask_for_server();
    Step step_of(int code);

    std::shared_ptr<const TlsContext> context_;
    ssl_st* ssl_ = nullptr;
    const char* reason_ = "";
    std::string server_name_;
    std::string early_;
    int socket_;
    int late_messages_ = 0;  // of the peer, behind the handshake
    bool is_client_;
    bool established_ = false;
    bool inside_record_ = false;  // of which a part is sent
};

}  // namespace atl::http
