// Reads requests from bytes: Beast's parser for the grammar, and on top of it what a server that may stand
// behind a proxy has to refuse, because two readers of the same bytes must never see different requests
// (RFC 9112 section 11.2): Content-Length with Transfer-Encoding, repeated or list-valued Content-Length, any
// transfer coding but `chunked`, repeated Host, Origin or Authorization, folded fields. Bounded: head, body,
// chunk lines and trailers have caps; a body that is streamed has none, since nothing of it is kept. Pure: no
// socket, no clock. One message at a time; reset() before the next.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The forms of a target (RFC 9112 section 3.2) that are taken: those of a server; or those of a proxy, the
/// authority form of CONNECT and the absolute form with http:.
enum class TargetForms : std::uint8_t { of_server, of_proxy };

struct ParserLimits {
    std::size_t head_bytes;
    std::size_t body_bytes;
    TargetForms targets = TargetForms::of_server;
};

class RequestParser {
  public:
    explicit RequestParser(ParserLimits limits);
    ~RequestParser();
    RequestParser(RequestParser&&) noexcept;

    /// Parses from `bytes` and returns how many were consumed; the caller keeps the rest, adds to it and
    /// comes again. Stops at the end of the head and again at the end of the message. An error is final: the
    /// connection cannot be used further. Errors: invalid_request, target_too_long, header_too_large,
    /// body_too_large.
    base::Result<std::size_t> feed(std::string_view bytes);

    /// The cap on a body that is collected; until then that of the constructor. Once head_done().
    void set_body_limit(std::size_t bytes) noexcept;
    /// From now on feed_body() takes the place of feed(), until the message is done. Once head_done().
    void stream_body() noexcept;
    struct Fed {
        std::size_t used = 0;     // of the bytes given, as of feed()
        std::size_t written = 0;  // of the room
    };
    /// Parses from `bytes` and writes the body's into `room`, which must not be empty. Stops when there is no
    /// room left. Errors: invalid_request, header_too_large.
    base::Result<Fed> feed_body(std::string_view bytes, std::span<char> room);
    /// The same of a body with Content-Length, for bytes that the caller passes on by itself: at most
    /// body_left(). Gives how many were used.
    base::Result<std::size_t> pass_body(std::string_view bytes);
    /// The bytes that are missing of a body with Content-Length; else 0. Valid once head_done().
    std::uint64_t body_left() const;

    /// True from the first byte of a message on.
    bool started() const noexcept;
    bool head_done() const noexcept;
    bool done() const noexcept;
    /// The length that the head announces, if it does. Valid once head_done(). May be over the cap: feed()
    /// refuses the body itself, the caller should refuse it unread.
    std::optional<std::uint64_t> content_length() const;
    /// True if the message lets the connection persist. Valid once head_done().
    bool wants_keep_alive() const;
    /// `Expect: 100-continue` of an HTTP/1.1 client. Valid once head_done().
    bool expects_continue() const noexcept;

    /// Valid once head_done(), body once done(); until reset().
    Request& request() noexcept;
    const Request& request() const noexcept;
    /// Drops the message, and its memory except the part that the next message is likely to need.
    void reset();

  private:
    class Sink;
    base::Result<std::size_t> parse(std::string_view bytes, std::size_t used);

    std::unique_ptr<Sink> sink_;
    ParserLimits limits_;
};

}  // namespace atl::http
