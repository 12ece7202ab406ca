// Keeps the pages of a growing file in memory (mlock(2)). A write to part of a page that the kernel has
// dropped first reads the page: the loop would wait for the disk and its queue.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

#include "core/base/unique_fd.hpp"

namespace atl::store {

class ResidentPages {
  public:
    /// The most to lock, in bytes. The usual log is shorter (Checkpointer::Bounds::due), and every user may
    /// lock more (RLIMIT_MEMLOCK, 8 MiB since Linux 5.16).
    static constexpr off_t k_most = 5L * 1024 * 1024;

    /// Locks the pages that the file already has; this may wait for the disk.
    explicit ResidentPages(const char* file) noexcept;
    ~ResidentPages();
    ResidentPages(const ResidentPages&) = delete;
    ResidentPages& operator=(const ResidentPages&) = delete;

    /// Locks the pages before `end`, and some after it. A shorter file is extended with zeros. Once the
    /// system refuses (a small RLIMIT_MEMLOCK), no further page is locked, and writes may wait for the disk.
    void cover(off_t end) noexcept {
        if (end > covered_ && covered_ < k_most)
            grow(end);
    }
    /// The file became shorter: begins anew with the next call.
    void forget() noexcept;

  private:
    static constexpr off_t k_chunk_bytes = 512L * 1024;
    static_assert(k_most % k_chunk_bytes == 0);

    void grow(off_t end) noexcept;
    bool grow_once() noexcept;

    base::UniqueFd file_;
    std::array<void*, k_most / k_chunk_bytes> chunks_{};
    std::size_t count_ = 0;
    off_t covered_ = 0;  // k_most also after a refusal
};

}  // namespace atl::store
