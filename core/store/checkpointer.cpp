#include "core/store/checkpointer.hpp"

#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::store {
namespace {

// Before a log that could not be begun anew is tried again.
constexpr base::Millis k_rest{250};

}  // namespace

Checkpointer::Checkpointer(base::Timers& timers, CheckpointHelper& helper, SqliteStore& store,
                           conversation::Journal& journal, std::filesystem::path database, Bounds bounds)
    : timers_(timers),
      helper_(helper),
      store_(store),
      journal_(journal),
      database_(std::move(database)),
      bounds_(bounds) {
    share(SqliteStore::Sharing::exclusive);
    store_.on_commit([this](std::uintmax_t wal_bytes) { on_commit(wal_bytes); });
    store_.on_refusal([this] { on_refusal(); });
}

Checkpointer::~Checkpointer() {
    store_.on_commit(nullptr);
    store_.on_refusal(nullptr);
    timers_.cancel(timer_);
    journal_.release();
}

// From inside a commit: what is to be done waits until it is over.
void Checkpointer::on_commit(std::uintmax_t wal_bytes) {
    wal_bytes_ = wal_bytes;
    is_refused_ = false;
    const bool wanted = (state_ == State::watching && wal_bytes >= bounds_.due) ||
                        (state_ == State::resting && wal_bytes >= bounds_.most);
    if (wanted)
        begin_soon();
}

void Checkpointer::on_refusal() {
    if (state_ == State::watching && !std::exchange(is_refused_, true))
        begin_soon();
}

void Checkpointer::begin_soon() {
    timers_.cancel(timer_);
    state_ = State::busy;
    timer_ = timers_.arm(base::Millis{0}, [this] { sync_log(); });
}

// Before anything is shared: the wait for the disk is most of a round, and commits that share cost twice as
// much.
void Checkpointer::sync_log() {
    timer_ = 0;
    helper_.sync_log(database_, [this](const base::Result<void>&) { begin(Commits::go_on); });
}

void Checkpointer::begin(Commits commits) {
    timer_ = 0;
    late_ = false;
    share(SqliteStore::Sharing::shared);
    if (commits == Commits::held) {
        journal_.hold();
        timer_ = timers_.arm(k_longest_hold, [this] {
            timer_ = 0;
            late_ = true;
            base::LogLine(base::evt::checkpoint_late).field("bytes", wal_bytes_).warn();
            journal_.release();
        });
    }
    helper_.checkpoint(
        database_, [this, commits](const base::Result<void>& result) { end(commits, result.has_value()); });
}

void Checkpointer::end(Commits commits, bool done) {
    timers_.cancel(std::exchange(timer_, 0));
    ++rounds_;
    share(SqliteStore::Sharing::exclusive);
    if (commits == Commits::held) {
        ++held_rounds_;
        journal_.release();
    }
    if (!done || late_)
        return rest(State::failed);
    if (commits == Commits::held)
        state_ = State::watching;
    else if (wal_bytes_ >= bounds_.most)
        begin(Commits::held);  // commits overtook the round; what they added since its begin is little
    else
        rest(State::resting);
}

void Checkpointer::rest(State state) {
    state_ = state;
    timer_ = timers_.arm(k_rest, [this] {
        timer_ = 0;
        state_ = State::watching;
    });
}

void Checkpointer::share(SqliteStore::Sharing sharing) {
    if (const auto changed = store_.set_sharing(sharing); !changed)
        base::LogLine(base::evt::store_failed).quoted("err", changed.error().detail()).warn();
}

}  // namespace atl::store
