// Reads the responses of another server from bytes: Beast's parser for the grammar, and on top of it the
// refusal of what two readers could understand differently (RFC 9112 section 6.3): Content-Length with
// Transfer-Encoding, lengths that differ, any transfer coding but `chunked`, folded fields. Bounded: head,
// chunk lines and trailers have a cap; a body has none, since nothing of it is kept. Pure: no socket, no
// clock. One message at a time; begin() before each, an interim response (1xx) being one of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Where the body of a response ends.
enum class BodyEnd : std::uint8_t {
    none,    // there is no body, whatever the fields say
    length,  // after Content-Length
    chunked,
    close,  // with the connection
};

class ResponseParser {
  public:
    explicit ResponseParser(std::size_t head_bytes);
    ~ResponseParser();
    ResponseParser(ResponseParser&&) noexcept;

    /// A response is expected, to HEAD if `to_head`. Drops the last message and its memory but a small part.
    void begin(bool to_head);
    /// Parses from `bytes` until the end of the head and gives how many were consumed; the caller keeps the
    /// rest, adds to it and comes again. Errors, which are final: bad_upstream.
    base::Result<std::size_t> feed_head(std::string_view bytes);
    /// Parses from `bytes` and appends the body's to `body`, at most `most_bytes`. Errors: bad_upstream.
    base::Result<std::size_t> feed_body(std::string_view bytes, std::string& body, std::size_t most_bytes);
    /// The same of a body with Content-Length, for bytes that the caller passes on by itself: at most
    /// body_left().
    base::Result<std::size_t> pass_body(std::string_view bytes);
    /// What is missing of a body with Content-Length; else 0. Valid once head_done().
    std::uint64_t body_left() const noexcept;
    /// The other server sends no more. Errors: bad_upstream, for a message that is not complete.
    base::Result<void> end_input();

    /// True from the first byte of a message on.
    bool started() const noexcept;
    bool head_done() const noexcept;
    bool done() const noexcept;

    // Valid once head_done(), trailers once done(); until begin().
    unsigned status() const noexcept;
    /// As sent; may be empty.
    std::string_view reason() const noexcept;
    const std::vector<HeaderField>& fields() const noexcept;
    const std::vector<HeaderField>& trailers() const noexcept;
    BodyEnd body_end() const noexcept;
    /// As the head says, also where there is no body.
    std::optional<std::uint64_t> content_length() const noexcept;
    /// Whether the connection can be used for another request once this message is done.
    bool keeps_alive() const noexcept;

  private:
    class Sink;
    base::Result<std::size_t> parse(std::string_view bytes);

    std::unique_ptr<Sink> sink_;
    std::size_t head_bytes_;
};

}  // namespace atl::http
