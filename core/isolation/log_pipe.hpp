// The pipe for a sandbox's stdout and stderr: hostile bytes, read no faster than
// base::k_sandbox_log_read_bytes_per_s so that a writer cannot overload the loop; the last
// base::k_log_tail_bytes are kept. A faster writer blocks in its own write(2).
// Not here: showing the output, which takes escaping.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/base/limits.hpp"

namespace atl::isolation {

class LogPipe {
  public:
    /// Takes over the reading end, which must not block. `timers` outlives this.
    LogPipe(const base::Executor& executor, base::Timers& timers, base::UniqueFd read_end);
    ~LogPipe();
    LogPipe(const LogPipe&) = delete;
    LogPipe& operator=(const LogPipe&) = delete;

    /// Reads the bytes that are in the pipe now, at most its capacity. For use after the writers have ended.
    void drain();
    /// The last base::k_log_tail_bytes, as written.
    const std::string& tail() const noexcept { return kept_; }
    /// `on_text` gets each piece as it is read; null: pieces are only kept.
    void on_text(std::function<void(std::string_view)> on_text) { on_text_ = std::move(on_text); }

  private:
    void await();
    ssize_t read_chunk();

    base::Timers& timers_;
    base::FdWatch watch_;
    base::TimerId pause_ = 0;
    std::string kept_;
    std::function<void(std::string_view)> on_text_;
};

}  // namespace atl::isolation
