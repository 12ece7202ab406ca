// Keeps the pages of a file that grows in memory (mlock(2)). A write to part of a page that the kernel has
// dropped waits until it is read again: behind whatever else the disk has to do, in the loop.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

#include "core/base/unique_fd.hpp"

namespace atl::store {

class ResidentPages {
  public:
    /// Not more than this, in bytes: usual logs are below (Checkpointer::Bounds::due), and so is what every
    /// user may lock (RLIMIT_MEMLOCK, 8 MiB since Linux 5.16).
    static constexpr off_t k_most = 5L * 1024 * 1024;

    /// Keeps what the file has already, for which it may wait for the disk.
    explicit ResidentPages(const char* file) noexcept;
    ~ResidentPages();
    ResidentPages(const ResidentPages&) = delete;
    ResidentPages& operator=(const ResidentPages&) = delete;

    /// Keeps what is before `end`, and some after it: a file that is shorter is made longer, with zeros. Once
    /// the system refuses (a small RLIMIT_MEMLOCK), nothing more is kept, and writes are what they are
    /// without.
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
