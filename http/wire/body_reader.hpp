// The body of one request, read from its connection as it is asked for. Invariants: between two reads nothing
// is taken from the socket beyond the connection's buffer; the peer may keep the reader waiting for
// body_deadline for each base::k_body_slice_bytes, and the time in which nobody reads does not count; an
// error is final. Not here: bodies that are collected (session.cpp), the grammar of chunks
// (request_parser.hpp).
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "core/base/clock.hpp"
#include "http/wire/body_source.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/request_parser.hpp"

namespace atl::http {

class BodyReader final : public BodySource {
  public:
    /// `parser` has read a head and was told to stream. All three must outlive the reader.
    BodyReader(Connection& connection, RequestParser& parser, const WireSettings& settings);
    ~BodyReader() override;
    BodyReader(const BodyReader&) = delete;
    BodyReader& operator=(const BodyReader&) = delete;

    /// The first call answers `Expect: 100-continue`, if the client seems to wait for that. Errors:
    /// request_timeout; invalid_request for a body that is malformed, or that ends before it is complete;
    /// header_too_large for a chunk's line or trailers; shutting_down; request_timeout also for what was
    /// given up.
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override;
    void give_up_if(std::function<bool()> is_over) override { is_over_ = std::move(is_over); }

    /// The head of the response is on its way: `100 Continue` would be out of place from now on.
    void response_begins() noexcept { may_continue_ = false; }
    /// Reads and drops what has arrived. True if that was all of the rest, so that the connection can go on.
    bool drop_rest();

  private:
    base::Task<Io> async_wait();
    base::Task<Io> async_fill();
    base::Error fail(base::Error error);

    Connection& connection_;
    RequestParser& parser_;
    const WireSettings& settings_;
    std::function<bool()> is_over_;
    std::optional<base::Error> error_;
    std::size_t slice_bytes_ = 0;               // read since the time for them began
    std::chrono::steady_clock::duration left_;  // of that time
    bool may_continue_ = true;
};

}  // namespace atl::http
