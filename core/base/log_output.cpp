#include "core/base/log_output.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/base/log_events.hpp"

namespace atl::base {
namespace {

std::uint64_t dropped_lines = 0;

// The colours are those of spdlog on a terminal.
std::string_view colour_of(spdlog::level::level_enum level) {
    switch (level) {
        case spdlog::level::debug:
            return "\033[36m";
        case spdlog::level::info:
            return "\033[32m";
        case spdlog::level::warn:
            return "\033[33m\033[1m";
        case spdlog::level::err:
            return "\033[31m\033[1m";
        default:
            return "";
    }
}
constexpr std::string_view k_colour_end = "\033[m";

// Writes to an open file description that is shared with other programs. Where RWF_NOWAIT does not work
// (preadv2(2); it does for pipes of newer kernels), poll(2) asks for room first: a pipe with room takes
// PIPE_BUF bytes (pipe(7)), unless another program fills it in between. A terminal with room may take less,
// and then waits for its reader.
ssize_t write_polled(int fd, std::string_view text) {
    std::array<char, PIPE_BUF> piece{};
    const iovec part{piece.data(), text.copy(piece.data(), piece.size())};
    const ssize_t count = ::pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
    if (count >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return count;
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)
        return 0;
    return ::write(fd, part.iov_base, part.iov_len);
}

}  // namespace

LogOutput::LogOutput(int fd) : fd_(fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 ||
        (!S_ISSOCK(status.st_mode) && !S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)))
        return;
    if (S_ISSOCK(status.st_mode)) {
        kind_ = Kind::socket;
        return;
    }
    is_terminal_ = ::isatty(fd) == 1;
    // The file status flags belong to the open file description (open(2)): a new one has its own.
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    own_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    kind_ = own_ ? Kind::reopened : Kind::polled;
}

// 0 where nothing fits.
std::string_view::size_type LogOutput::write_some(std::string_view text) {
    ssize_t count = -1;
    do {
        switch (kind_) {
            case Kind::plain:
                count = ::write(fd_, text.data(), text.size());
                break;
            case Kind::socket:
                count = ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
                break;
            case Kind::reopened:
                count = ::write(own_.get(), text.data(), text.size());
                break;
            case Kind::polled:
                count = write_polled(fd_, text);
                break;
        }
    } while (count < 0 && errno == EINTR);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
}

/// True when nothing of it is left.
bool LogOutput::push(std::string& rest) {
    while (!rest.empty()) {
        const std::size_t count = write_some(rest);
        if (count == 0)
            return false;
        rest.erase(0, count);
    }
    return true;
}

bool LogOutput::write(std::string_view text) {
    if (!push(rest_))
        return false;
    std::string left(text);
    if (!push(left) && left.size() == text.size())
        return false;
    rest_ = std::move(left);
    return true;
}

std::string LogSink::formatted(const spdlog::details::log_msg& message) {
    message.color_range_start = 0;
    message.color_range_end = 0;
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string text(buffer.data(), buffer.size());
    if (output_.is_terminal() && message.color_range_end > message.color_range_start) {
        text.insert(message.color_range_end, k_colour_end);
        text.insert(message.color_range_start, colour_of(message.level));
    }
    return text;
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
    if (dropped_ > 0) {
        const std::string count =
            "evt=" + std::string(evt::log_dropped) + " lines=" + std::to_string(dropped_);
        const spdlog::details::log_msg note(message.logger_name, spdlog::level::warn, count);
        if (output_.write(formatted(note)))
            dropped_ = 0;
    }
    if (dropped_ > 0 || !output_.write(formatted(message))) {
        ++dropped_;
        ++dropped_lines;
    }
}

std::uint64_t dropped_log_lines() noexcept {
    return dropped_lines;
}

}  // namespace atl::base
