#include "core/store/paired_writes.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "core/store/resident_pages.hpp"

namespace atl::store {
namespace {

// https://sqlite.org/fileformat2.html#the_write_ahead_log
constexpr int k_head_bytes = 24;
constexpr int k_max_page_bytes = 65'536;
constexpr char k_name[] = "atoll-paired-writes";

/// An open log. The system's own file lies behind it, in the same memory, which is SQLite's.
struct LogFile {
    sqlite3_file base;
    sqlite3_file* real;
    sqlite3_int64 end;   // of the last write: where the head of a next frame would be
    sqlite3_int64 held;  // offset of the head that is held back; -1: none is
    std::array<std::byte, k_head_bytes + k_max_page_bytes>* bytes;
    ResidentPages* pages;
};

constexpr std::size_t k_file_bytes =
    (sizeof(LogFile) + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);

LogFile& log_of(sqlite3_file* file) {
    return *reinterpret_cast<LogFile*>(file);
}
sqlite3_file* real(sqlite3_file* file) {
    return log_of(file).real;
}

int write_real(LogFile& log, const void* bytes, int size, sqlite3_int64 at) {
    log.end = at + size;
    log.pages->cover(log.end);
    return log.real->pMethods->xWrite(log.real, bytes, size, at);
}

/// Writes a head that waited in vain.
int write_held(LogFile& log) {
    if (log.held < 0)
        return SQLITE_OK;
    const sqlite3_int64 at = log.held;
    log.held = -1;
    return write_real(log, log.bytes->data(), k_head_bytes, at);
}

int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
    LogFile& log = log_of(file);
    if (log.held >= 0 && at == log.held + k_head_bytes && size <= k_max_page_bytes) {
        std::memcpy(log.bytes->data() + k_head_bytes, bytes, static_cast<std::size_t>(size));
        const sqlite3_int64 begin = log.held;
        log.held = -1;
        return write_real(log, log.bytes->data(), k_head_bytes + size, begin);
    }
    if (const int failed = write_held(log); failed != SQLITE_OK)
        return failed;
    // Only a head that follows a frame is followed by its page for certain: heads that are written anew,
    // where they were, are not.
    if (size != k_head_bytes || at != log.end)
        return write_real(log, bytes, size, at);
    std::memcpy(log.bytes->data(), bytes, k_head_bytes);
    log.held = at;
    return SQLITE_OK;
}

int close(sqlite3_file* file) {
    LogFile& log = log_of(file);
    const int written = write_held(log);
    delete log.bytes;
    delete log.pages;
    const int closed = log.real->pMethods->xClose(log.real);
    return written != SQLITE_OK ? written : closed;
}

int read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 at) {
    const int written = write_held(log_of(file));
    return written != SQLITE_OK ? written : real(file)->pMethods->xRead(real(file), bytes, size, at);
}

int truncate(sqlite3_file* file, sqlite3_int64 size) {
    const int written = write_held(log_of(file));
    log_of(file).pages->forget();
    return written != SQLITE_OK ? written : real(file)->pMethods->xTruncate(real(file), size);
}

int sync(sqlite3_file* file, int flags) {
    const int written = write_held(log_of(file));
    return written != SQLITE_OK ? written : real(file)->pMethods->xSync(real(file), flags);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
    const int written = write_held(log_of(file));
    return written != SQLITE_OK ? written : real(file)->pMethods->xFileSize(real(file), size);
}

int lock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xLock(real(file), level);
}
int unlock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xUnlock(real(file), level);
}
int check_reserved_lock(sqlite3_file* file, int* reserved) {
    return real(file)->pMethods->xCheckReservedLock(real(file), reserved);
}
int file_control(sqlite3_file* file, int code, void* argument) {
    return real(file)->pMethods->xFileControl(real(file), code, argument);
}
int sector_size(sqlite3_file* file) {
    return real(file)->pMethods->xSectorSize(real(file));
}
int device_characteristics(sqlite3_file* file) {
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

// Version 1: a log has no shared memory and is not mapped.
constexpr sqlite3_io_methods k_methods{.iVersion = 1,
                                       .xClose = close,
                                       .xRead = read,
                                       .xWrite = write,
                                       .xTruncate = truncate,
                                       .xSync = sync,
                                       .xFileSize = file_size,
                                       .xLock = lock,
                                       .xUnlock = unlock,
                                       .xCheckReservedLock = check_reserved_lock,
                                       .xFileControl = file_control,
                                       .xSectorSize = sector_size,
                                       .xDeviceCharacteristics = device_characteristics};

sqlite3_vfs* system_vfs() {
    return ::sqlite3_vfs_find(nullptr);
}

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    sqlite3_vfs* const system = system_vfs();
    if ((flags & SQLITE_OPEN_WAL) == 0)
        return system->xOpen(system, name, file, flags, out_flags);
    file->pMethods = nullptr;
    LogFile& log = log_of(file);
    auto* const real = reinterpret_cast<sqlite3_file*>(reinterpret_cast<std::byte*>(file) + k_file_bytes);
    const int opened = system->xOpen(system, name, real, flags, out_flags);
    if (opened != SQLITE_OK) {
        if (real->pMethods)
            real->pMethods->xClose(real);
        return opened;
    }
    log.bytes = new (std::nothrow) std::array<std::byte, k_head_bytes + k_max_page_bytes>;
    log.pages = new (std::nothrow) ResidentPages(name);
    if (!log.bytes || !log.pages) {
        delete log.bytes;
        delete log.pages;
        real->pMethods->xClose(real);
        return SQLITE_NOMEM;
    }
    log.real = real;
    log.end = -1;
    log.held = -1;
    log.base.pMethods = &k_methods;
    return SQLITE_OK;
}

}  // namespace

const char* paired_writes_vfs() {
    static const bool registered = [] {
        ::sqlite3_initialize();
        // The copy has the system's methods and data; it is never taken back.
        static sqlite3_vfs paired = *system_vfs();
        paired.zName = k_name;
        paired.pNext = nullptr;
        paired.szOsFile += static_cast<int>(k_file_bytes);
        paired.xOpen = open;
        return ::sqlite3_vfs_register(&paired, 0) == SQLITE_OK;
    }();
    return registered ? k_name : nullptr;  // null: SQLite's default
}

}  // namespace atl::store
