#include "fs-guard/helper/checkpoint.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>

#include "core/plain/unique_fd.hpp"

namespace atl::helper {
namespace {

constexpr int k_busy_timeout_ms = 1000;
constexpr unsigned k_busy_pause_us = 500;

struct CloseDatabase {
    void operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }
};

}  // namespace

CheckpointResult checkpoint(const std::string& database) {
    CheckpointResult result;
    sqlite3* raw = nullptr;
    int code =
        ::sqlite3_open_v2(database.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    const std::unique_ptr<sqlite3, CloseDatabase> handle(raw);
    if (code == SQLITE_OK) {
        ::sqlite3_busy_timeout(raw, k_busy_timeout_ms);
        // A connection knows of the log only once it has read: a checkpoint before that does nothing.
        code = ::sqlite3_exec(raw, "SELECT 1 FROM sqlite_schema LIMIT 1", nullptr, nullptr, nullptr);
    }
    // A commit that changes the header of the log while a passive checkpoint reads it makes that busy at
    // once, without a wait (c3ref/wal_checkpoint_v2.html: the busy handler is not called).
    const auto begun = std::chrono::steady_clock::now();
    if (code == SQLITE_OK) {
        for (;;) {
            code = ::sqlite3_wal_checkpoint_v2(raw, nullptr, SQLITE_CHECKPOINT_PASSIVE, &result.log_frames,
                                               &result.written_frames);
            if (code != SQLITE_BUSY ||
                std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(k_busy_timeout_ms))
                break;
            ::usleep(k_busy_pause_us);  // check-allow: sleep nothing tells when the commit is over
        }
    }
    result.done = code == SQLITE_OK;
    if (!result.done)
        result.error = raw ? ::sqlite3_errmsg(raw) : "out of memory";
    return result;
}

std::string sync_log(const std::string& database) {
    const base::UniqueFd log(::open((database + "-wal").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!log)
        return "open: " + std::generic_category().message(errno);
    return ::fdatasync(log.get()) == 0 ? "" : "fdatasync: " + std::generic_category().message(errno);
}

}  // namespace atl::helper
