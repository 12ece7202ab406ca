// A small blocking HTTP/1.1 client for tests: kept-alive requests, raw bytes in and out, Server-Sent Events
// one by one. Every wait has a deadline and throws std::runtime_error when it passes; nothing sleeps.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/tls_client.hpp"

namespace atl::test {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
    int status = 0;
    HeaderList headers;  // names in lower case
    std::string body;    // empty for an open stream

    /// The value of the first header of that lower-case name, empty if there is none.
    std::string header(std::string_view lower_name) const;
};

struct SseEvent {
    std::string id;     // empty: the frame had none
    std::string event;  // of the frame, else the `type` of its data; empty: neither has one
    std::string data;
    bool is_named = false;  // the frame had an `event`
};

class HttpClient {
  public:
    /// `address` is "127.0.0.1:PORT", "[::1]:PORT" or "unix:PATH", or "https://" before one of TCP. Connects
    /// at the first use and again after a close.
    explicit HttpClient(std::string address, HeaderList default_headers = {});
    /// How it speaks TLS from the next connection on.
    void set_tls_options(TlsClientOptions options) { tls_options_ = std::move(options); }
    /// Connects from this address of the host from the next connection on, "127.0.0.2" for example.
    void connect_from(std::string source) { source_ = std::move(source); }

    /// Sends a request and reads its response. A body makes the request JSON unless a Content-Type is given.
    /// The connection is kept when the server keeps it.
    HttpResponse request(std::string_view method, std::string_view target, std::string_view body = "",
                         const HeaderList& headers = {});
    /// Sends a request and reads only the head of the response; then next_event() reads its body.
    HttpResponse open_stream(std::string_view method, std::string_view target, std::string_view body = "",
                             const HeaderList& headers = {});
    /// The next event of the open stream; nothing at its end.
    std::optional<SseEvent> next_event(std::chrono::milliseconds deadline = k_client_deadline);
    /// Comment lines (heartbeats) seen so far on the open stream.
    std::size_t comments() const noexcept { return comments_; }

    /// Bytes as they are.
    void send_raw(std::string_view bytes);
    enum class Body { read, none };  // none: the answer to HEAD
    /// Reads one response to a request sent raw; of a 100 only its head.
    HttpResponse read_response(Body body = Body::read);
    /// Exactly so many bytes.
    std::string read_raw(std::size_t count, std::chrono::milliseconds deadline = k_client_deadline);
    /// Everything up to the end of the connection. A reset counts as its end.
    std::string read_until_close(std::chrono::milliseconds deadline = k_client_deadline);
    /// True if the server closes within the deadline without sending anything more.
    bool closes(std::chrono::milliseconds deadline = k_client_deadline);

    void connect();
    void close();
    /// Ends the sending side only.
    void shutdown_send();
    bool connected() const noexcept { return static_cast<bool>(fd_); }
    int fd() const noexcept { return fd_.get(); }
    /// Null if the connection is plain, or there is none.
    TlsClient* tls() noexcept { return tls_.get(); }

  private:
    std::string format(std::string_view method, std::string_view target, std::string_view body,
                       const HeaderList& headers) const;
    HttpResponse read_head();
    std::size_t send_some(std::string_view bytes, std::chrono::steady_clock::time_point deadline);
    std::size_t receive_some(char* data, std::size_t size, std::chrono::steady_clock::time_point deadline);
    bool fill(std::chrono::steady_clock::time_point deadline);
    std::string read_line(std::chrono::steady_clock::time_point deadline);
    std::string read_exactly(std::size_t count, std::chrono::steady_clock::time_point deadline);
    bool read_body_piece(std::chrono::steady_clock::time_point deadline);

    enum class Framing { none, length, chunked, until_close };

    std::string address_;  // without the scheme
    bool secure_;
    TlsClientOptions tls_options_;
    std::string source_;  // empty: the kernel chooses
    HeaderList default_headers_;
    base::UniqueFd fd_;
    std::unique_ptr<TlsClient> tls_;
    std::string buffer_;  // read and not yet consumed
    Framing framing_ = Framing::none;
    std::size_t left_ = 0;  // of a body with a length
    std::string stream_;    // body bytes of the open stream, not yet made events
    std::size_t comments_ = 0;
    bool keep_ = true;
};

}  // namespace atl::test
