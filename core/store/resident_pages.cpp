#include "core/store/resident_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace atl::store {

// Closing this descriptor drops no lock of SQLite: its locks are on the other two files
// (https://sqlite.org/wal.html).
ResidentPages::ResidentPages(const char* file) noexcept
    : file_(::open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {
    struct stat status {};
    if (::fstat(file_.get(), &status) == 0)
        cover(status.st_size);
    else
        covered_ = k_most;
}

ResidentPages::~ResidentPages() {
    forget();
}

void ResidentPages::grow(off_t end) noexcept {
    while (end > covered_ && covered_ < k_most) {
        if (!grow_once())
            covered_ = k_most;
    }
}

bool ResidentPages::grow_once() noexcept {
    const off_t end = covered_ + k_chunk_bytes;
    struct stat status {};
    // There are no pages after the end of a file.
    if (::fstat(file_.get(), &status) != 0 || (status.st_size < end && ::ftruncate(file_.get(), end) != 0))
        return false;
    void* const chunk = ::mmap(nullptr, k_chunk_bytes, PROT_READ, MAP_SHARED, file_.get(), covered_);
    if (chunk == MAP_FAILED)
        return false;
    // No code reads through the mapping, so a truncated file causes no SIGBUS. Without flags this is
    // mlock(2), which sanitizers make do nothing.
    if (::mlock2(chunk, k_chunk_bytes, 0) != 0) {
        ::munmap(chunk, k_chunk_bytes);
        return false;
    }
    chunks_.at(count_++) = chunk;
    covered_ = end;
    return true;
}

void ResidentPages::forget() noexcept {
    while (count_ > 0)
        ::munmap(chunks_.at(--count_), k_chunk_bytes);
    covered_ = file_ ? 0 : k_most;
}

}  // namespace atl::store
