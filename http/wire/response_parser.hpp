// Reads the responses of another server from bytes. It takes what browsers and curl take where the meaning is
// certain (RFC 9112 sections 2.2, 4, 5.1, 5.2 and 6.3): lines that end in a bare LF, a status line without a
// reason, with several spaces or tabs or with `http/1.1`, folded fields, which become one line, spaces before
// a colon, Content-Length given again with the same value. Fields whose name is no token are left out. It
// refuses what two readers could understand differently: Content-Length with Transfer-Encoding, lengths that
// differ, any transfer coding but `chunked`, a NUL or a bare CR in a line, a name that is no token and
// resembles one of these two fields, also by a space before the colon. Bounded: head, chunk lines and
// trailers have a cap, and so has the number of fields; a body has none, since nothing of it is kept. Pure:
// no socket, no clock. One message at a time; begin() before each, an interim response (1xx) being one of its
// own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "http/wire/field_arena.hpp"
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
    /// `head_bytes` is the most that a head has, and the most that a chunk's line or all trailers have.
    explicit ResponseParser(std::size_t head_bytes) : head_bytes_(head_bytes) {}
    // `fields_` views `arena_`.
    ResponseParser(const ResponseParser&) = delete;
    ResponseParser& operator=(const ResponseParser&) = delete;

    /// A response is expected, to HEAD if `to_head`. Drops the last message and its memory but a small part.
    void begin(bool to_head);
    /// Parses from `bytes` until the end of the head and gives how many were consumed: all, unless the head
    /// ends before. Errors, which are final: upstream_failed.
    base::Result<std::size_t> feed_head(std::string_view bytes);
    /// Parses from `bytes` and appends the body's to `body`, at most `most_bytes`. Errors: upstream_failed.
    base::Result<std::size_t> feed_body(std::string_view bytes, std::string& body, std::size_t most_bytes);
    /// The same of a body with Content-Length, for bytes that the caller passes on by itself: at most
    /// body_left().
    base::Result<std::size_t> pass_body(std::string_view bytes);
    /// The bytes that are missing of a body with Content-Length; else 0. Valid once head_done().
    std::uint64_t body_left() const noexcept { return body_end_ == BodyEnd::length ? data_left_ : 0; }
    /// The other server sends no more. Errors: upstream_failed, for a message that is not complete.
    base::Result<void> end_input();

    /// True from the first byte of a message on.
    bool started() const noexcept { return started_; }
    bool head_done() const noexcept { return part_ != Part::status_line && part_ != Part::head; }
    bool done() const noexcept { return part_ == Part::done; }

    // Valid once head_done(), trailers once done(); until begin().
    unsigned status() const noexcept { return status_; }
    /// Without spaces around it; may be empty.
    std::string_view reason() const noexcept { return arena_.view(reason_); }
    const std::vector<HeaderField>& fields() const noexcept { return fields_; }
    const std::vector<HeaderField>& trailers() const noexcept { return trailers_; }
    BodyEnd body_end() const noexcept { return body_end_; }
    /// The length that the head says, also where there is no body.
    std::optional<std::uint64_t> content_length() const noexcept { return length_; }
    /// True if the connection can be used for another request once this message is done.
    bool keeps_alive() const noexcept;

  private:
    /// The part that the next byte belongs to.
    enum class Part : std::uint8_t { status_line, head, body, chunk_size, chunk, chunk_end, trailers, done };

    base::Result<std::size_t> parse(std::string_view bytes, std::string* body, std::size_t room);
    base::Result<bool> read_line(std::string_view& bytes);
    base::Result<void> take_line();
    base::Result<void> take_status_line();
    base::Result<void> take_field_line();
    base::Result<void> end_field();
    base::Result<void> take_framing(std::string_view name, std::string_view value);
    base::Result<void> end_head();
    base::Result<void> take_chunk_size();

    std::size_t head_bytes_;
    Part part_ = Part::status_line;
    std::string line_;            // that has begun
    std::string field_;           // the last one, which may go on in the next line
    std::size_t part_bytes_ = 0;  // of the head, of a chunk's line or of the trailers
    FieldArena arena_;
    std::vector<HeaderField> fields_;
    std::vector<HeaderField> trailers_;
    std::size_t field_count_ = 0;
    FieldArena::Piece reason_;
    BodyEnd body_end_ = BodyEnd::none;
    bool is_to_head_ = false;
    bool started_ = false;
    bool is_chunked_ = false;
    bool is_http_11_ = true;
    unsigned status_ = 0;
    std::optional<std::uint64_t> length_;
    std::uint64_t data_left_ = 0;  // of the body, or of the chunk that has begun
};

}  // namespace atl::http
