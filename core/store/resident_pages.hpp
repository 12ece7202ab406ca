// Keeps the pages of a file that grows in memory (mlock(2)). A write to part of a page that the kernel has
// dropped waits until it is read again: behind whatever else the disk has to do, in the loop.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/base/unique_fd.hpp"

namespace atl::store {

class ResidentPages {
  public:
    /// Not more than this, in bytes: usual logs are below (Checkpointer::Bounds::due), and so is what every
    /// user may lock (RLIMIT_MEMLOCK, 8 MiB since Linux 5.16).
    static constexpr off_t k_most = 5L * 1024 * 1024;

    explicit ResidentPages(const std::filesystem::path& file);
    ~ResidentPages();
    ResidentPages(const ResidentPages&) = delete;
    ResidentPages& operator=(const ResidentPages&) = delete;

    /// Keeps what is before `end`, and some after it: a file that is shorter is made longer, with zeros. May
    /// wait for the disk where there are bytes already. Where the system refuses, pages stay as they are.
    void cover(off_t end) {
        if (end > covered_ && covered_ < k_most)
            grow(end);
    }
    /// The file became shorter: begins anew with the next call.
    void forget();

  private:
    void grow(off_t end);
    bool grow_once();

    base::UniqueFd file_;
    std::vector<void*> chunks_;
    off_t covered_ = 0;  // k_most also after a refusal
};

}  // namespace atl::store
