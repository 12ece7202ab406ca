// What conversations need of a database: a batch of writes committed as one, and a few reads. A port: SQLite
// implements it (core/store), the simulation has one in memory that fails on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.hpp"
#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

// The writes. Put replaces what has the same key, of a sandbox the same id.
struct PutConversation {
    Record record;
};
struct EraseConversation {  // with its turns; its events go by purge_events()
    std::int64_t key;
};
struct PutSandbox {
    sandbox::Record record;
};
struct EraseSandbox {
    std::string id;
};
struct PutTurn {
    TurnRecord record;
};
struct ForgetTurns {  // those that ended at or before this seq
    std::int64_t key;
    std::uint64_t last_seq;
};
struct AppendEvent {
    std::int64_t key;
    EventPtr event;
};

using Write = std::variant<PutConversation, EraseConversation, PutSandbox, EraseSandbox, PutTurn, ForgetTurns,
                           AppendEvent>;

/// A turn as its events tell of it.
struct LoggedTurn {
    std::int64_t conversation_key = 0;
    std::uint64_t turn = 0;
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    std::uint64_t bytes = 0;
    bool done = false;  // its `done` is there
};

/// Everything that is kept, as a start of the server finds it.
struct Snapshot {
    std::vector<Record> conversations;  // first_seq, last_seq and last_turn as the log says
    std::vector<sandbox::Record> sandboxes;
    std::vector<TurnRecord> turns;  // per conversation in order; without digests and keys of ended ones
    std::vector<LoggedTurn> unrecorded_turns;  // those that have events but no record, or one that is open
    std::int64_t last_key = 0;                 // the highest key that any row uses
    std::vector<std::int64_t> orphaned_logs;   // keys of events whose conversation is gone
};

/// Writes that are committed together, in order, or not at all. Batches have growing numbers; none changes
/// once it has one.
struct WriteBatch {
    std::uint64_t number = 0;
    std::vector<Write> writes;
};
using WriteBatchPtr = std::shared_ptr<const WriteBatch>;

/// How a commit ended.
enum class CommitEnd : std::uint8_t {
    durable,  // every write is kept
    refused,  // none is; the same batch may be tried again
    fenced,   // none is, and none of this server ever will be: another one has taken over
};
/// `why` of anything but durable: storage_failed, with what the database says.
using CommitDone = std::function<void(CommitEnd end, const base::Error& why)>;
using EventsRead = std::function<void(base::Result<std::vector<EventPtr>> events)>;
using TurnFound = std::function<void(base::Result<TurnRecord> turn)>;

/// commit(), read_events() and find_turn() answer with a callback: `done` is called once, from inside the
/// call (SQLite) or later from the loop, and never after the destruction of the store. `done` may call the
/// store again. A call cannot be cancelled: a caller that no longer wants the answer drops it, so `done`
/// must not refer to anything that may be gone by then. Arguments are used only during the call, but for the
/// batch. Answers may come in another order than the calls. A read shows at least every batch that had ended
/// durable when it was called.
class Store {
  public:
    virtual ~Store() = default;

    /// Whether writes can be kept now, without a look at the disk. Errors: storage_failed, saying what is
    /// wrong with the database and what the operator can do.
    virtual base::Result<void> usable() const { return {}; }
    /// All of the batch or nothing. Precondition: the batch before has ended.
    virtual void commit(WriteBatchPtr batch, CommitDone done) = 0;
    /// Removes events below `below_seq`, at most `max_rows`; returns how many. Not part of any batch.
    virtual base::Result<std::size_t> purge_events(std::int64_t key, std::uint64_t below_seq,
                                                   std::size_t max_rows) = 0;

    virtual base::Result<Snapshot> load() = 0;
    /// Events after `after`, in order: at least one if there is one, then until `limit_bytes` is passed
    /// by what they cost (Event::cost_bytes). Errors: storage_failed.
    virtual void read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                             EventsRead done) = 0;
    /// The turn that this Idempotency-Key started; its `turn` is 0 if there is none. Errors: storage_failed.
    virtual void find_turn(std::int64_t key, const std::string& idempotency_key, TurnFound done) = 0;
};

}  // namespace atl::conversation
