// Keeps the write-ahead log of the server's database short, without the loop ever waiting for a disk: a
// helper process (checkpoint_helper.hpp) writes the log back while commits go on
// (https://sqlite.org/c3ref/wal_checkpoint_v2.html, PASSIVE). SQLite begins the log anew at the first commit
// that finds all of it written back; under an unbroken load no commit does. Then, and only then, commits are
// held for the short last pass, at most k_longest_hold. A commit that is refused may lack the room by which
// the log would grow: then the log is written back however short it is, once, since commits begin it anew.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/base/clock.hpp"
#include "core/conversation/journal.hpp"
#include "core/store/checkpoint_helper.hpp"
#include "core/store/sqlite_store.hpp"

namespace atl::store {

class Checkpointer {
  public:
    /// In bytes of the log: a checkpoint is due from `due`; from `most` commits are held for it.
    struct Bounds {
        std::uintmax_t due = 4UL * 1024 * 1024;
        std::uintmax_t most = 16UL * 1024 * 1024;
    };

    /// Watches from now on; everything given must outlive this.
    Checkpointer(base::Timers& timers, CheckpointHelper& helper, SqliteStore& store,
                 conversation::Journal& journal, std::filesystem::path database, Bounds bounds);
    /// Commits that are held go on.
    ~Checkpointer();
    Checkpointer(const Checkpointer&) = delete;
    Checkpointer& operator=(const Checkpointer&) = delete;

    /// Rounds finished so far, and those of them for which commits were held.
    std::uint64_t rounds() const noexcept { return rounds_; }
    std::uint64_t held_rounds() const noexcept { return held_rounds_; }

    static constexpr base::Millis k_longest_hold{100};

  private:
    enum class Commits : std::uint8_t { go_on, held };
    /// Resting: the last round did not empty the log, so the next one waits; a load that does not let it is
    /// met sooner. Failed: the helper did not come in time, or at all.
    enum class State : std::uint8_t { watching, busy, resting, failed };

    void on_commit(std::uintmax_t wal_bytes);
    void on_refusal();
    void begin_soon();
    void sync_log();
    void begin(Commits commits);
    void end(Commits commits, bool done);
    void rest(State state);
    void share(SqliteStore::Sharing sharing);

    base::Timers& timers_;
    CheckpointHelper& helper_;
    SqliteStore& store_;
    conversation::Journal& journal_;
    std::filesystem::path database_;
    Bounds bounds_;
    std::uintmax_t wal_bytes_ = 0;  // after the last commit
    State state_ = State::watching;
    bool is_refused_ = false;  // a round was begun for it, and nothing was committed since
    bool late_ = false;        // commits were held too long for the round under way
    base::TimerId timer_ = 0;  // the begin of a round, the end of a hold or of a rest
    std::uint64_t rounds_ = 0;
    std::uint64_t held_rounds_ = 0;
};

}  // namespace atl::store
