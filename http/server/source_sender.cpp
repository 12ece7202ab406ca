#include "http/server/source_sender.hpp"

#include <exception>
#include <limits>
#include <memory>
#include <span>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::http {
namespace {

Io cut(Connection& connection) {
    connection.cut();
    return Io::failed;
}

// A source that is always ready, with a client that always reads, would keep the loop to itself.
base::Task<> async_give_way(Connection& connection) {
    connection.wake()->post();
    co_await connection.async_pause();
}

}  // namespace

base::Task<base::Result<void>> async_read_piece(SourceJob& job, std::size_t most_bytes) {
    std::string failure;
    try {
        if (!job.room)
            job.room = std::make_unique_for_overwrite<char[]>(base::k_source_piece_bytes);
        const std::span<char> room(job.room.get(), most_bytes);
        const auto count = co_await job.source.async_read_some(room);
        if (count.has_error())
            co_return count.error();
        job.piece = {job.room.get(), *count};
        co_return base::Result<void>();
    } catch (const std::exception& error) {
        failure = error.what();
    }
    base::LogLine(base::evt::task_failed).quoted("err", failure).error();
    co_return base::Error(base::Errc::internal);
}

base::Task<Io> async_send_source(Connection& connection, SourceJob& job) {
    std::uint64_t left = job.length.value_or(std::numeric_limits<std::uint64_t>::max());
    std::string out = std::move(job.head);
    for (;;) {
        const bool finished = job.piece.empty();
        if (job.piece.size() > left || (finished && job.length && left > 0))
            co_return cut(connection);
        left -= job.piece.size();
        const bool last = finished || left == 0;
        // A piece without anything around it goes as it is.
        const bool goes_alone = out.empty() && job.framing != Framing::chunked && !last;
        if (job.framing == Framing::chunked)
            write_chunk(out, job.piece);
        else if (!goes_alone)
            out += job.piece;
        if (!finished && left == 0) {
            // The last byte of the promised length goes out only once the source has ended there.
            const auto more = co_await async_read_piece(job, 1);
            if (more.has_error() || !job.piece.empty())
                co_return cut(connection);
        }
        if (last && job.framing == Framing::chunked)
            out += k_last_chunk;
        const std::string_view sent = goes_alone ? job.piece : std::string_view(out);
        const Io io = co_await connection.async_send(sent);
        if (io != Io::ok || last)
            co_return io;
        out.clear();
        co_await async_give_way(connection);
        const auto next = co_await async_read_piece(job);
        if (next.has_error())
            co_return cut(connection);
    }
}

}  // namespace atl::http
