#include "core/store/resident_pages.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/store/paired_writes.hpp"
#include "tests/support/server_process.hpp"

using namespace atl;
namespace fs = std::filesystem;

namespace {

constexpr off_t k_page_bytes = 4096;

/// Pages of the file in memory, after the kernel was asked to drop what it may (posix_fadvise(2)).
std::size_t pages_that_stay(const fs::path& file) {
    const base::UniqueFd open(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(open);
    REQUIRE(::fdatasync(open.get()) == 0);
    REQUIRE(::posix_fadvise(open.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
    const std::size_t bytes = fs::file_size(file);
    void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, open.get(), 0);
    REQUIRE(map != MAP_FAILED);
    std::vector<unsigned char> resident((bytes + k_page_bytes - 1) / k_page_bytes);
    const int found = ::mincore(map, bytes, resident.data());
    ::munmap(map, bytes);
    REQUIRE(found == 0);
    return static_cast<std::size_t>(
        std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

void write_zeros(const fs::path& file, off_t bytes) {
    const base::UniqueFd open(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::string zeros(static_cast<std::size_t>(bytes), '\0');
    REQUIRE(::pwrite(open.get(), zeros.data(), zeros.size(), 0) == bytes);
}

bool may_lock(std::size_t bytes) {
    void* const pages = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool locked = ::mlock2(pages, bytes, 0) == 0;
    ::munmap(pages, bytes);
    return locked;
}

/// A directory on a disk, as /tmp often is not: the kernel keeps the pages of a file that is only in memory.
class DiskDir {
  public:
    DiskDir() : DiskDir("/var/tmp/atoll-test-XXXXXX") {
        write_zeros(path() / "control", 64 * k_page_bytes);
        if (pages_that_stay(path() / "control") != 0)
            SKIP("needs a /var/tmp whose files' pages the kernel can drop");
        if (!may_lock(store::ResidentPages::k_most))
            SKIP("needs the right to lock 5 MiB of memory (RLIMIT_MEMLOCK)");
    }
    ~DiskDir() { fs::remove_all(path_); }
    DiskDir(const DiskDir&) = delete;
    DiskDir& operator=(const DiskDir&) = delete;
    fs::path path() const { return path_; }

  private:
    // A constructor of its own, so that a directory whose test is skipped is removed.
    explicit DiskDir(std::string pattern) : path_(std::move(pattern)) {
        if (::mkdtemp(path_.data()) == nullptr)
            SKIP("needs a /var/tmp to write to");
    }

    std::string path_;
};

/// Without the right to lock memory while it lives; root's own right is taken away as well.
class NoLocking {
  public:
    NoLocking() {
        REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before_) == 0);
        const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
        if (uid_ == 0 && ::seteuid(test::k_rootless_uid) != 0)
            FAIL("seteuid");
    }
    ~NoLocking() {
        if (::seteuid(uid_) != 0 || ::setrlimit(RLIMIT_MEMLOCK, &before_) != 0)
            std::abort();  // no test after this one would mean anything
    }
    NoLocking(const NoLocking&) = delete;
    NoLocking& operator=(const NoLocking&) = delete;

  private:
    const uid_t uid_ = ::geteuid();
    rlimit before_{};
};

std::size_t pages_of_a_log(const fs::path& file, const char* vfs) {
    sqlite3* raw = nullptr;
    const int opened = ::sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(raw, ::sqlite3_close_v2);
    REQUIRE(opened == SQLITE_OK);
    const std::string sql =
        "PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200)"
        " INSERT INTO t SELECT randomblob(900) FROM n";
    REQUIRE(::sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    return pages_that_stay(file.string() + "-wal");
}

}  // namespace

TEST_CASE("resident pages: what is covered stays in memory, up to a bound") {
    const DiskDir dir;
    const fs::path file = dir.path() / "file";
    write_zeros(file, 64 * k_page_bytes);
    CHECK(pages_that_stay(file) == 0);
    store::ResidentPages pages(file.c_str());
    pages.cover(3);
    const auto covered = static_cast<std::size_t>(fs::file_size(file) / k_page_bytes);
    CHECK(covered >= 64);
    CHECK(pages_that_stay(file) == covered);
    pages.cover(store::ResidentPages::k_most * 3);
    CHECK(fs::file_size(file) == store::ResidentPages::k_most);
    CHECK(pages_that_stay(file) == store::ResidentPages::k_most / k_page_bytes);
}

TEST_CASE("resident pages: a file that became shorter is covered anew") {
    const DiskDir dir;
    const fs::path file = dir.path() / "file";
    write_zeros(file, k_page_bytes);
    store::ResidentPages pages(file.c_str());
    pages.cover(1);
    pages.forget();
    fs::resize_file(file, 0);
    pages.cover(1);
    CHECK(pages_that_stay(file) == fs::file_size(file) / k_page_bytes);
    CHECK(fs::file_size(file) > 0);
}

TEST_CASE("resident pages: what the file has already is kept from the start") {
    const DiskDir dir;
    const fs::path file = dir.path() / "file";
    write_zeros(file, 256 * k_page_bytes);
    REQUIRE(pages_that_stay(file) == 0);
    const store::ResidentPages pages(file.c_str());
    CHECK(pages_that_stay(file) == 256);
}

TEST_CASE("resident pages: without the right to lock, and without a file, nothing is kept") {
    const DiskDir dir;
    store::ResidentPages none((dir.path() / "none").c_str());
    none.cover(1);
    CHECK_FALSE(fs::exists(dir.path() / "none"));
    const fs::path file = dir.path() / "file";
    write_zeros(file, 0);
    store::ResidentPages pages(file.c_str());
    {
        const NoLocking refused;
        pages.cover(1);
    }
    write_zeros(file, k_page_bytes);
    CHECK(pages_that_stay(file) == 0);
}

TEST_CASE("resident pages: the log of the database stays in memory") {
    const DiskDir dir;
    CHECK(pages_of_a_log(dir.path() / "plain", nullptr) == 0);
    CHECK(pages_of_a_log(dir.path() / "kept", store::paired_writes_vfs()) >= 50);
}
