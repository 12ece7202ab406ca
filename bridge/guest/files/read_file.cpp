// stat: what is there, links not followed. read: the bytes of a regular file, or a part of them.
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "bridge/guest/files/file_entry.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr std::size_t k_read_piece_bytes = base::k_max_frame_bytes;
constexpr std::size_t k_read_bytes_per_turn = 8 * k_read_piece_bytes;

/// A file that is open for reading, or why it is not.
struct Opened {
    base::UniqueFd fd;
    struct stat about {};
    CallEnd refusal;
};

/// Never opens what is no regular file: opening a FIFO waits, opening a device may do anything.
Opened open_regular(const FileJob& job) {
    const std::string& path = job.request.path;
    Opened opened;
    const base::UniqueFd looked_at = job.root.look(path, LastLink::followed);
    if (!looked_at || fstat(looked_at.get(), &opened.about) != 0) {
        opened.refusal = refuse_errno(path);
        return opened;
    }
    if (!S_ISREG(opened.about.st_mode)) {
        const bool is_folder = S_ISDIR(opened.about.st_mode);
        opened.refusal = is_folder
                             ? refuse_errno(path, EISDIR)
                             : refuse_file(path, "a FIFO, socket or device", bridge::refusal::not_a_file);
        return opened;
    }
    opened.fd = Beneath::reopen(looked_at.get(), O_RDONLY);
    if (!opened.fd || fstat(opened.fd.get(), &opened.about) != 0)
        opened.refusal = refuse_errno(path);
    return opened;
}

/// The bytes that are asked for, as far as they are there.
struct Part {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

/// Chosen here, by the size that the open file has: another look at a file that grows all the time would
/// always find another one.
Part part_of(const FileRequest& request, const struct stat& about) {
    const auto size = static_cast<std::uint64_t>(about.st_size);
    if (!request.if_range.empty() && request.if_range != entity_tag(about))
        return {0, size};
    if (request.suffix) {
        const std::uint64_t length = std::min(*request.suffix, size);
        return {size - length, length};
    }
    const std::uint64_t offset = std::min(request.offset, size);
    return {offset, std::min(request.length.value_or(size), size - offset)};
}

/// Sends `left` bytes from `at` on; the host has been promised so many.
Task<CallEnd> send_bytes(Call& call, const FileJob& job, int fd, std::uint64_t at, std::uint64_t left) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_read_piece_bytes);
    std::size_t turn_bytes = 0;
    while (left > 0) {
        const std::size_t wanted = std::min<std::uint64_t>(left, k_read_piece_bytes);
        const ssize_t size = pread(fd, buffer.get(), wanted, static_cast<off_t>(at));
        if (size < 0)
            co_return refuse_errno(job.request.path);
        if (size == 0)
            co_return refuse_file(job.request.path, "the file became shorter while it was read",
                                  bridge::refusal::file_changed);
        call.output({buffer.get(), static_cast<std::size_t>(size)});
        at += static_cast<std::uint64_t>(size);
        left -= static_cast<std::uint64_t>(size);
        turn_bytes += static_cast<std::size_t>(size);
        if (turn_bytes >= k_read_bytes_per_turn) {
            turn_bytes = 0;
            co_await call.turn();
        }
        co_await call.room();
    }
    co_return CallEnd{};
}

}  // namespace

Task<CallEnd> stat_file(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    const base::UniqueFd there = job.root.look(path, LastLink::itself);
    struct stat about {};
    if (!there || fstat(there.get(), &about) != 0)
        co_return refuse_errno(path);
    call.reply(entry_member(path, about, there.get()));
    co_return CallEnd{};
}

Task<CallEnd> read_file(Call& call, const FileJob& job) {
    const FileRequest& request = job.request;
    const Opened file = open_regular(job);
    if (!file.refusal.is_good())
        co_return file.refusal;
    const Part part = part_of(request, file.about);
    call.reply(entry_member(request.path, file.about, file.fd.get()) +
               ",\"length\":" + std::to_string(part.length));
    auto sending = send_bytes(call, job, file.fd.get(), part.offset, part.length);
    co_return co_await sending;
}

}  // namespace atl::guest
