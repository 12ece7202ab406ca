#include "http/wire/body_reader.hpp"

#include <algorithm>
#include <array>

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

Error body_error_of(Io io) {
    switch (io) {
        case Io::deadline:
            return Error(Errc::request_timeout, "The body of the request did not arrive in time.");
        case Io::stopped:
            return Error(Errc::shutting_down);
        default:
            return Error(Errc::invalid_request, "The connection ended before the body of the request did.");
    }
}

}  // namespace

BodyReader::BodyReader(Connection& connection, RequestParser& parser, const WireSettings& settings)
    : connection_(connection), parser_(parser), settings_(settings), left_(settings.body_deadline) {}

BodyReader::~BodyReader() {
    connection_.use_buffer(BufferSize::small);
}

Error BodyReader::fail(Error error) {
    error_ = error;
    return error;
}

base::Task<Result<std::size_t>> BodyReader::async_read_some(std::span<char> room) {
    if (error_)
        co_return *error_;
    const bool waits_for_word = parser_.expects_continue() && connection_.input().empty();
    if (std::exchange(may_continue_, false) && waits_for_word && !parser_.done()) {
        const Io io = co_await connection_.async_send("HTTP/1.1 100 Continue\r\n\r\n");
        if (io != Io::ok)
            co_return fail(body_error_of(io));
    }
    for (;;) {
        const auto fed = parser_.feed_body(connection_.input(), room);
        if (fed.has_error())
            co_return fail(fed.error());
        connection_.consume(fed->used);
        if (fed->written > 0) {
            slice_bytes_ += fed->written;
            if (slice_bytes_ >= base::k_body_slice_bytes) {
                slice_bytes_ = 0;
                left_ = settings_.body_deadline;
            }
            co_return fed->written;
        }
        if (parser_.done())
            co_return std::size_t{0};
        const Io io = co_await async_wait();
        if (io != Io::ok)
            co_return fail(body_error_of(io));
    }
}

// For more input, on the peer's time.
base::Task<Io> BodyReader::async_wait() {
    if (left_ == decltype(left_)::zero())
        co_return Io::deadline;
    connection_.use_buffer(BufferSize::full);
    const auto since = connection_.now();
    connection_.set_deadline(std::chrono::ceil<base::Millis>(left_));
    const Io io = co_await async_fill();
    connection_.clear_deadline();
    left_ = std::max(left_ - (connection_.now() - since), decltype(left_)::zero());
    co_return io;
}

// Does the same as Connection::async_fill(), but ends with `deadline` once nobody wants the rest.
base::Task<Io> BodyReader::async_fill() {
    const std::size_t before = connection_.input().size();
    for (;;) {
        if (is_over_ && is_over_())
            co_return Io::deadline;
        const Io io = co_await connection_.async_idle();
        if (io != Io::stopped && connection_.input().size() > before)
            co_return Io::ok;
        if (io != Io::ok)
            co_return io;
    }
}

bool BodyReader::drop_rest() {
    constexpr std::size_t k_scratch_bytes = 4096;
    std::array<char, k_scratch_bytes> scratch;
    while (!error_ && !parser_.done()) {
        const auto fed = parser_.feed_body(connection_.input(), scratch);
        if (fed.has_error()) {
            fail(fed.error());
            break;
        }
        connection_.consume(fed->used);
        if (fed->used == 0)
            break;
    }
    return !error_ && parser_.done();
}

}  // namespace atl::http
