#include "core/store/log_epoch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/store/node_store.hpp"
#include "core/store/sqlite_store.hpp"

namespace atl::store {

using base::Errc;
using base::Error;
using base::Result;
using base::UniqueFd;

namespace {

std::string state_of(const struct stat& marker) {
    return std::to_string(marker.st_ino) + " " + std::to_string(marker.st_ctim.tv_sec) + "." +
           std::to_string(marker.st_ctim.tv_nsec);
}

std::string read_marker(const std::filesystem::path& file) {
    struct stat status {};
    return ::lstat(file.c_str(), &status) == 0 ? state_of(status) : "missing";
}

/// Gives the state that the file has from here on.
Result<std::string> write_marker(const std::filesystem::path& file, const std::string& text) {
    const UniqueFd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat status {};
    if (!made || ::write(made.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(made.get()) != 0 || ::fstat(made.get(), &status) != 0)
        return Error(Errc::storage_failed, base::errno_text("cannot write " + file.string(), errno));
    return state_of(status);
}

}  // namespace

static_assert(base::k_log_epoch_length <= base::k_id_length);

std::string_view why_new_epoch(const std::optional<LogMark>& log, const std::optional<NodeMark>& node,
                               const EpochPlace& here, std::string_view marker) {
    if (!log && !node)
        return "there was none";
    if (!log)
        return "the database is new or from a backup";
    if (!node)
        return "node.db is new";
    if (node->place != here.place)
        return "the database is a copy, or in another place";
    const bool may_be_ahead = !node->is_settled;
    if (log->epoch != node->epoch ||
        (log->count != node->count && !(may_be_ahead && log->count == node->count + 1)))
        return "the database is of another time than node.db";
    if (node->is_settled && node->marker != marker)
        return "the data directory was written over, as a restore does";
    if (!log->boot.empty() && log->boot != here.boot)
        return "the host went down while the server ran";
    return {};
}

Result<LogEpoch> LogEpoch::begin(SqliteStore& logs, SqliteNodeStore& node, EpochPlace here) {
    const auto log_mark = logs.log_mark();
    if (!log_mark)
        return log_mark.error();
    const auto node_mark = node.mark();
    if (!node_mark)
        return node_mark.error();
    const std::string_view why = why_new_epoch(*log_mark, *node_mark, here, read_marker(here.marker));
    LogEpoch epoch(logs, node, std::move(here));
    if (why.empty()) {
        epoch.word_ = (*log_mark)->epoch;
        epoch.count_ = (*log_mark)->count;
    } else {
        epoch.word_ = base::new_id().substr(0, base::k_log_epoch_length);
    }
    if (auto kept = epoch.step(epoch.here_.boot); !kept)
        return kept.error();
    if (!why.empty()) {
        base::LogLine line(base::evt::log_epoch_begun);
        line.quoted("err", why).field("is", epoch.word_);
        *log_mark || *node_mark ? line.warn() : line.info();
    }
    return epoch;
}

Result<void> LogEpoch::end() {
    return step("");
}

// The two databases and the marker have no commit in common: meanwhile the node's mark says that either of
// the log's marks may be true, and any state of the marker.
Result<void> LogEpoch::step(const std::string& boot) {
    if (auto kept = node_->put_mark({word_, count_, false, here_.place, ""}); !kept)
        return kept;
    if (auto kept = logs_->put_log_mark({word_, count_ + 1, boot}); !kept)
        return kept;
    ++count_;
    auto marker = write_marker(here_.marker, word_ + " " + std::to_string(count_) + "\n");
    if (!marker)
        return marker.error();
    return node_->put_mark({word_, count_, true, here_.place, std::move(*marker)});
}

}  // namespace atl::store
