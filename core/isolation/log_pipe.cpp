#include "core/isolation/log_pipe.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace atl::isolation {
namespace {

constexpr std::size_t k_reads_per_s = 64;
constexpr std::size_t k_chunk_bytes = base::k_sandbox_log_read_bytes_per_s / k_reads_per_s;
constexpr base::Millis k_pause{1000 / k_reads_per_s};
constexpr std::size_t k_drain_chunks = 64UL * 1024 / k_chunk_bytes;
static_assert(k_drain_chunks >= 1 && k_chunk_bytes <= base::k_sandbox_log_bytes);

}  // namespace

LogPipe::LogPipe(const base::Executor& executor, base::Timers& timers, base::UniqueFd read_end)
    : timers_(timers), watch_(executor, std::move(read_end)) {
    await();
}

LogPipe::~LogPipe() {
    timers_.cancel(pause_);
}

void LogPipe::await() {
    watch_.wait(base::FdWatch::Event::readable, [this] {
        if (read_chunk() == 0)
            return;
        pause_ = timers_.arm(k_pause, [this] {
            pause_ = 0;
            await();
        });
    });
}

// Returns what read(2) does, but goes on after a signal: 0 at the end of the pipe, negative if it is empty.
ssize_t LogPipe::read_chunk() {
    std::array<char, k_chunk_bytes> chunk;
    ssize_t count = 0;
    do {
        count = ::read(watch_.fd().get(), chunk.data(), chunk.size());
    } while (count < 0 && errno == EINTR);
    if (count <= 0)
        return count;
    const std::string_view text(chunk.data(), static_cast<std::size_t>(count));
    kept_.append(text.substr(text.size() - std::min(text.size(), base::k_log_tail_bytes)));
    if (kept_.size() > base::k_log_tail_bytes)
        kept_.erase(0, kept_.size() - base::k_log_tail_bytes);
    if (on_text_)
        on_text_(text);
    return count;
}

void LogPipe::drain() {
    for (std::size_t i = 0; i < k_drain_chunks && read_chunk() > 0; ++i) {
    }
}

}  // namespace atl::isolation
