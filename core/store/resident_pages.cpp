#include "core/store/resident_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace atl::store {
namespace {

constexpr off_t k_chunk_bytes = 512L * 1024;
static_assert(ResidentPages::k_most % k_chunk_bytes == 0);

}  // namespace

// SQLite has no lock on this file that closing the descriptor would take away (https://sqlite.org/wal.html:
// they are on the other two).
ResidentPages::ResidentPages(const std::filesystem::path& file)
    : file_(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {
    if (!file_)
        covered_ = k_most;
}

ResidentPages::~ResidentPages() {
    forget();
}

void ResidentPages::grow(off_t end) {
    while (end > covered_ && covered_ < k_most) {
        if (!grow_once())
            covered_ = k_most;
    }
}

bool ResidentPages::grow_once() {
    const off_t end = covered_ + k_chunk_bytes;
    struct stat status {};
    // There are no pages after the end of a file.
    if (::fstat(file_.get(), &status) != 0 || (status.st_size < end && ::ftruncate(file_.get(), end) != 0))
        return false;
    void* const chunk = ::mmap(nullptr, k_chunk_bytes, PROT_READ, MAP_SHARED, file_.get(), covered_);
    if (chunk == MAP_FAILED)
        return false;
    // Nothing reads through the mapping: a file that someone truncates has no SIGBUS for this process.
    if (::mlock(chunk, k_chunk_bytes) != 0) {
        ::munmap(chunk, k_chunk_bytes);
        return false;
    }
    chunks_.push_back(chunk);
    covered_ = end;
    return true;
}

void ResidentPages::forget() {
    for (void* const chunk : chunks_)
        ::munmap(chunk, k_chunk_bytes);
    chunks_.clear();
    covered_ = file_ ? 0 : k_most;
}

}  // namespace atl::store
