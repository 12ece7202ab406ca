// The port of conversations to a database: a batch of writes committed as one, and a few reads. SQLite
// implements it (core/store), the simulation has one in memory that fails on demand.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/counts_by.hpp"
#include "core/base/error.hpp"
#include "core/conversation/open_questions.hpp"
#include "core/conversation/preview_numbers.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

// The writes. Put replaces a row with the same key; for a sandbox, a row with the same id.
struct PutConversation {
    Record record;
};
struct EraseConversation {  // with its kept processes; its events and turns go by purge_log()
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
struct PutKeptProcess {
    std::int64_t key;
    RestartedProcess process;
};
struct EraseKeptProcess {
    std::int64_t key;
    std::uint32_t number;
};
struct PutPreviewNumber {
    PreviewNumber row;
};
struct AppendEvent {
    std::int64_t key;
    EventPtr event;
};

using Write = std::variant<PutConversation, EraseConversation, PutSandbox, EraseSandbox, PutTurn,
                           PutKeptProcess, EraseKeptProcess, PutPreviewNumber, AppendEvent>;

/// The conversation that a create request with an Idempotency-Key made.
struct CreatedBefore {
    std::string id;
    std::string digest;  // the digest of the request's fingerprint
};

/// A turn as its events tell of it.
struct LoggedTurn {
    std::uint64_t turn = 0;
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    std::uint64_t bytes = 0;
    bool done = false;  // its `done` is there
};

/// A conversation as the store keeps it: everything that is needed to go on with it.
struct StoredConversation {
    /// first_seq and last_seq are those of the log; last_turn is the highest that has a record, also of a
    /// turn whose events were cut.
    Record record;
    sandbox::Record sandbox;  // its id is empty if the store has none
    /// The turns in order, without those that ended before first_seq; ended turns come without digests and
    /// keys. If there are many, neighbours that have ended are told as one turn: with the first's first_seq
    /// and the last's turn and last_seq.
    std::vector<TurnRecord> turns;
    /// Turns that have events from first_seq on, and no record or a record that is open.
    std::vector<LoggedTurn> unrecorded_turns;
    std::uint64_t open_bytes = 0;  // the bytes of events behind the last finished turn, from first_seq on
    /// For a conversation that runs or has an open turn.
    OpenQuestions open_questions;
    std::vector<RestartedProcess> kept_processes;  // in the order of their numbers
};

/// A row of a list: a conversation and its sandbox, whose environment is left out.
struct ListedConversation {
    Record record;  // first_seq and last_seq as the log says
    sandbox::Record sandbox;
};

/// A conversation's place in every list: by when it was created, then by its key.
struct ListPlace {
    base::WallTime created_at{};
    std::int64_t key = 0;  // 0: before the first

    friend auto operator<=>(const ListPlace&, const ListPlace&) = default;
};
inline ListPlace place_of(const Record& record) {
    return {record.created_at, record.key};
}

/// The conversations that a list asks for. One call looks at k_list_scan_items rows at most.
struct ListRange {
    ListFilter filter;
    ListOrder order = ListOrder::oldest_first;
    ListPlace from;  // the place of the last one of the page before
    std::size_t limit = base::k_default_page_items;
};

/// The result of a list; `next` goes on behind it, its key is 0 at the end.
struct ConversationList {
    std::vector<ListedConversation> items;
    ListPlace next;
};

/// The sandboxes that a list asks for. One call looks at k_list_scan_items rows at most.
struct SandboxRange {
    std::optional<std::string> user_id;
    std::int64_t from_key = 0;
    std::size_t limit = base::k_default_page_items;
};

/// The result of a list; `next_key` goes on behind it, and is 0 at the end.
template <class T>
struct Listed {
    std::vector<T> items;
    std::int64_t next_key = 0;
};

/// The size of a conversation's log with its record, its owner, and its sandbox.
struct LogSize {
    std::optional<std::string> user_id;
    std::uint64_t bytes = 0;   // the bytes of its events, and record_bytes()
    std::string sandbox_id{};  // empty: it has ended
};

/// The keys of the conversations whose logs are asked for. One call looks at k_logs_counted_at_once at most.
struct LogRange {
    std::int64_t after_key = 0;
    std::int64_t last_key = 0;
};

/// A conversation with a time to live.
struct Ending {
    std::string id;
    base::WallTime created_at{};
    base::Millis life{};
};

/// The events of `key` below `below_seq`. They belong to nobody any more, nor do the turns that purge_log()
/// removes with them.
struct LeftEvents {
    std::int64_t key = 0;
    std::uint64_t below_seq = 0;
};

/// The bound of a call of purge_log(); both members are above 0.
struct PurgeBound {
    std::size_t rows;
    std::size_t bytes;  // the bytes of events; the last event may go beyond
};

struct Purged {
    std::size_t rows = 0;
    bool is_done = false;  // nothing is left; a call that uses up its bound may not know
};

/// The state that a start of the server needs. Conversations that rest are not in it.
struct StartState {
    /// The conversations that ran or had an open turn when the last server ended, and ended ones whose
    /// sandbox is still to be removed. Some may be named twice.
    std::vector<std::string> unfinished;
    std::vector<sandbox::Record> standalone;  // sandboxes without a conversation
    std::vector<sandbox::Record> abandoned;   // sandboxes whose conversation was deleted
    std::uint64_t sandboxes = 0;              // the number of all that are not gone
    std::vector<LeftEvents> left_events;
    std::vector<PreviewNumber> preview_numbers;    // the number of a sandbox that is no more is free
    std::vector<RestingPreview> resting_previews;  // that were up, then the latest first
    base::CountsBy<Status> by_status;              // for all conversations
    std::int64_t last_key = 0;                     // the highest key that any row uses
};

/// The answer to a read: called once, from inside the call or later from the loop. Errors: storage_failed.
template <class T>
using ReadDone = std::function<void(base::Result<T>)>;

/// The answer to `ask(done)`, for the start of a server and for commands: nothing is served before. Errors:
/// the store's; storage_failed if it does not answer from inside the call.
template <class T, class Ask>
base::Result<T> answered_at_once(Ask ask) {
    const auto answer = std::make_shared<base::Result<T>>(
        base::Error(base::Errc::storage_failed, "the database did not answer at once"));
    ask(ReadDone<T>([answer](base::Result<T> found) { *answer = std::move(found); }));
    return std::move(*answer);
}

/// Writes that are committed together, in order, or not at all. Batches have growing numbers; none changes
/// once it has one.
struct WriteBatch {
    std::uint64_t number = 0;
    std::vector<Write> writes;
};
using WriteBatchPtr = std::shared_ptr<const WriteBatch>;

/// The way a commit ended.
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

    /// Succeeds if writes can be kept now, without a look at the disk. Errors: storage_failed, saying what is
    /// wrong with the database and what the operator can do.
    virtual base::Result<void> usable() const { return {}; }
    /// Commits all of the batch or nothing. Precondition: the batch before has ended.
    virtual void commit(WriteBatchPtr batch, CommitDone done) = 0;
    /// Removes events below `below_seq`, then turns. For a whole log, whose `below_seq` is beyond every seq,
    /// all turns go; else those that ended below it, but not the last one, which the next turn's number
    /// follows. `bound` is for all of it. Not part of any batch.
    virtual base::Result<Purged> purge_log(std::int64_t key, std::uint64_t below_seq, PurgeBound bound) = 0;

    /// Loads the state for a start. Call it once, before anything else.
    virtual void load_start(ReadDone<StartState> done) = 0;
    /// The conversation with this id; none if there is none.
    virtual void load(const std::string& id, ReadDone<std::optional<StoredConversation>> done) = 0;
    /// The rows of the conversation with this id alone, without its turns; none if there is none.
    virtual void find_conversation(const std::string& id,
                                   ReadDone<std::optional<ListedConversation>> done) = 0;
    /// The conversation that was created with this key; none if it is not there any more, or never was.
    virtual void find_created(const std::string& create_key, ReadDone<std::optional<CreatedBefore>> done) = 0;
    /// A list in the order of places, about k_list_page_bytes at most.
    virtual void list(const ListRange& range, ReadDone<ConversationList> done) = 0;
    /// A list of sandboxes that are not gone, the oldest first; their environments are left out.
    virtual void list_sandboxes(const SandboxRange& range, ReadDone<Listed<sandbox::Record>> done) = 0;
    /// The record of a sandbox: a start asks for each workspace that it finds.
    virtual void find_sandbox(const std::string& id, ReadDone<std::optional<sandbox::Record>> done) = 0;
    /// The number of conversations of a user that have not ended; counts to `limit` at most.
    virtual void count_open(const std::string& user_id, std::size_t limit, ReadDone<std::size_t> done) = 0;
    /// The `limit` conversations that end first, among those with a time to live that have not ended, or
    /// among those that have ended.
    virtual void find_ending(bool has_ended, std::size_t limit, ReadDone<std::vector<Ending>> done) = 0;
    /// The sizes of logs, as their turns and the records of their conversations tell.
    virtual void log_sizes(const LogRange& range, ReadDone<Listed<LogSize>> done) = 0;
    /// The conversations with the largest logs of the user whose logs are largest together, the largest
    /// first; a conversation without an owner is a user of its own. Looks at all conversations.
    virtual void largest_logs(std::size_t limit, ReadDone<std::vector<std::string>> done) = 0;
    /// The bytes that can be written without more of the disk, about.
    virtual std::uint64_t free_bytes() { return 0; }
    /// Events after `after`, in order: at least one if there is one, then until `limit_bytes` is passed
    /// by what they cost (Event::cost_bytes). Errors: storage_failed.
    virtual void read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                             EventsRead done) = 0;
    /// The turn that this Idempotency-Key started; its `turn` is 0 if there is none. Errors: storage_failed.
    virtual void find_turn(std::int64_t key, const std::string& idempotency_key, TurnFound done) = 0;
};

}  // namespace atl::conversation
