// Sends a response whose body is a BodySource: a piece is read, sent, and only then the next one read. What
// cannot be completed is cut, so that no client takes a part for the whole. Not here: events
// (stream_sender.hpp), what the head says (session.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/limits.hpp"
#include "core/base/task.hpp"
#include "http/wire/body_source.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// A response whose body is a source, while it is sent. Lives in the caller until the task has finished.
struct SourceJob {
    BodySource& source;
    std::string head{};                     // of the response
    Framing framing = Framing::length;      // or chunked, or until_close
    std::optional<std::uint64_t> length{};  // as the head promises
    std::unique_ptr<char[]> room{};         // of base::k_source_piece_bytes, once one was read
    std::string_view piece{};               // the last one that was read
};

/// Reads the next piece, at most `most_bytes` of it; an empty one is the end. Errors: those of the source;
/// internal, logged, for what it throws.
base::Task<base::Result<void>> async_read_piece(SourceJob& job,
                                                std::size_t most_bytes = base::k_source_piece_bytes);

/// Sends the head with the piece that was read, and then all that follows.
/// `ok` when the body is complete and the connection can go on. Otherwise the connection is cut: the source
/// failed, or did not yield what the head promises, or the client does not take it.
base::Task<Io> async_send_source(Connection& connection, SourceJob& job);

}  // namespace atl::http
