// Requests and responses as handlers see them: plain values, free of the parser and the socket.
// A Request's views live as long as the parser that made it is not reset. Not here: JSON, routing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "core/base/task.hpp"
#include "http/wire/body_source.hpp"

namespace atl::http {

enum class Method : std::uint8_t { get, head, post, put, patch, delete_, options, other };

/// The method as in a request line; "" for other.
std::string_view to_string(Method method) noexcept;

struct HeaderField {
    std::string_view name;
    std::string_view value;
};

/// The head of a request, and its body once that is complete.
struct Request {
    Method method = Method::other;
    std::string_view method_text;  // as sent
    unsigned version = 11;         // 10 or 11
    // The path as sent, still percent-encoded; begins with "/", or is the "*" of OPTIONS; empty with CONNECT.
    std::string_view path;
    std::string_view query;      // without the '?'
    bool has_query = false;      // a '?' follows the path, perhaps with nothing behind it
    std::string_view authority;  // of the target in absolute form, else of the Host field; may be empty
    std::vector<HeaderField> fields;
    std::vector<HeaderField> trailers;  // behind a chunked body that is streamed, once it has ended
    std::string body;

    /// The value of the first field of that name, empty if there is none.
    std::string_view header(std::string_view name) const noexcept;
    bool has_header(std::string_view name) const noexcept;
};

/// Says that there is more for a stream.
using StreamWake = std::function<void()>;

/// The body of a response that is made while it is sent: the session pulls a piece, sends it, and pulls
/// again. Single-threaded; destroyed when it is finished or the client is gone.
class BodyStream {
  public:
    enum class State : std::uint8_t {
        more,      // pull again as soon as this is sent
        waiting,   // pull again after a wake
        finished,  // this was the last
    };
    virtual ~BodyStream() = default;
    /// Appends the available bytes to `out`, about `limit_bytes` at most.
    virtual State pull(std::string& out, std::size_t limit_bytes) = 0;
    /// `wake` is called when a pull that said `waiting` is worth repeating. It only sets something off.
    virtual void on_wake(StreamWake wake) = 0;
    /// Appends bytes that keep an idle connection alive in proxies.
    virtual void heartbeat(std::string& out) = 0;
    /// Appends a last word that says why the stream ends before it is finished.
    virtual void end_early(base::Errc reason, std::string& out) = 0;
};

class Connection;
class RequestParser;
class ServerState;

/// The protocol that takes over the connection after a 101 (RFC 9110 section 15.2.2). The session closes the
/// connection afterwards.
class Takeover {
  public:
    virtual ~Takeover() = default;
    /// Serves until the peer or the server ends it. Not cancellable: it watches ServerState::stopping at each
    /// wake, and Connection's waits say when it was aborted. Call once.
    virtual base::Task<> async_run(Connection& connection, const ServerState& state) = 0;
};

struct Response;

/// An answer that another server makes, head and all (http/proxy): nothing of this server's is added to it.
class Relay {
  public:
    enum class After : std::uint8_t {
        again,   // the answer is complete, the request was read: another one may come
        linger,  // the answer is complete, the request was not read
        close,
    };
    struct Outcome {
        After after = After::close;
        unsigned status = 0;                // that the client got; 0: none
        std::unique_ptr<Response> instead;  // to be sent by the session, since nothing was sent yet
    };
    virtual ~Relay() = default;
    /// Answers, and reads what it needs of the request's body from `connection` through `request`. A protocol
    /// that follows a 101 is over, too, when it returns. Not cancellable: the connection's waits say when it
    /// was aborted. Once ServerState::stopping is set, such a protocol ends at the next wake; an answer goes
    /// on, since nothing tells one without end from a long one, and is cut off after the grace of the stop.
    /// Call once.
    virtual base::Task<Outcome> async_run(Connection& connection, RequestParser& request,
                                          const ServerState& state) = 0;
};

/// The answer of a handler. With a `stream` or a `source` the body is not used; a 101 has a `takeover` and
/// its own Connection field.
struct Response {
    unsigned status = 200;
    std::string_view content_type = "application/json";  // of static storage; empty with an empty body
    std::string_view problem_code{};                     // of static storage; of a problem, else empty
    std::string body;
    std::string_view lasting_body{};  // behind `body`, sent as it lies: of what outlives all sessions
    std::string_view cache_control = "no-store";                    // of static storage
    std::vector<std::pair<std::string_view, std::string>> headers;  // names of static storage
    std::unique_ptr<BodyStream> stream;
    // May refer to the RequestContext: it is gone before that. Not read for HEAD; not for a status without a
    // body (101, 204, 304).
    std::unique_ptr<BodySource> source;
    std::optional<std::uint64_t> length;  // of the source, in bytes; nothing: not known
    std::unique_ptr<Takeover> takeover;
    std::unique_ptr<Relay> relay;  // with BodyKind::stream; nothing else of the response is used
    // The first bytes of the protocol of the takeover; they go out in one write with the head.
    std::string first_bytes;
    base::SteadyTime cut_at =
        base::SteadyTime::max();  // the connection is cut then, whatever the client does
    // Whose room output takes that the client does not; nobody: the sender's.
    std::optional<base::ShareHolder> payer{};
    // Behind the status, up to the first character that is not visible ASCII; empty: reason_phrase().
    std::string phrase{};
};

/// A 200, or another status, with the text of a JSON value.
Response json_response(std::string body, unsigned status = 200);

/// Tells if the connection persists; for an HTTP/1.0 client the response has to say so.
enum class KeepAlive : std::uint8_t { no, implied, told };
enum class Framing : std::uint8_t {
    length,      // Content-Length and the body; that of a source is sent by the caller
    head_only,   // the answer to HEAD: Content-Length as for GET, no body
    chunked,     // Transfer-Encoding: chunked, the caller sends chunks
    until_close  // HTTP/1.0 stream or source: the end of the connection ends the body
};

/// Appends the head of `response`, and with Framing::length the body but for `lasting_body`, ready for the
/// wire. `date` is an IMF-fixdate.
void write_response(std::string& out, const Response& response, std::string_view request_id,
                    std::string_view date, KeepAlive keep_alive, Framing framing);

/// Appends one chunk (RFC 9112 section 7.1); nothing for an empty payload, which would end the body.
void write_chunk(std::string& out, std::string_view payload);
inline constexpr std::string_view k_last_chunk = "0\r\n\r\n";

/// IMF-fixdate of RFC 9110 section 5.6.7, in UTC.
std::string http_date(std::int64_t unix_seconds);

/// The reason phrase of a status that this server uses.
std::string_view reason_phrase(unsigned status) noexcept;

}  // namespace atl::http
