// The Store of conversations in one SQLite database (connection.hpp says what a commit survives).
//
// Invariants: one connection, one process (the data directory is locked before this is opened); the file is
// mode 0600; automatic checkpoints are off: checkpointer.hpp has them made outside the loop. A database that
// is damaged, or whose files are no longer those that were opened, takes no more writes. Every call is
// answered from inside it, after its statement was reset, but for lists and loads, of which another process
// may read the many rows. Opening reads the header and the schema, not the whole file: damage elsewhere is
// found by the read or the commit that meets it. Not here: what the rows mean.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/conversation/store.hpp"
#include "core/secrets/secret_store.hpp"
#include "core/store/list_helper.hpp"
#include "core/store/log_mark.hpp"

namespace atl::store {

class SqliteStore final : public conversation::Store, public secrets::SecretStore {
  public:
    /// Opens or makes the database and brings its schema up to date. Errors: storage_failed, with the fault
    /// of the file and its remedy (also for a schema of a newer server and for a damaged file).
    static base::Result<std::unique_ptr<SqliteStore>> open(const std::filesystem::path& file);
    ~SqliteStore() override;

    base::Result<void> usable() const override;
    void commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) override;
    base::Result<conversation::Purged> purge_log(std::int64_t key, std::uint64_t below_seq,
                                                 conversation::PurgeBound bound) override;
    void load_start(conversation::ReadDone<conversation::StartState> done) override;
    void load(const std::string& id,
              conversation::ReadDone<std::optional<conversation::StoredConversation>> done) override;
    void find_conversation(
        const std::string& id,
        conversation::ReadDone<std::optional<conversation::ListedConversation>> done) override;
    void find_created(const std::string& create_key,
                      conversation::ReadDone<std::optional<conversation::CreatedBefore>> done) override;
    void list(const conversation::ListRange& range,
              conversation::ReadDone<conversation::ConversationList> done) override;
    void list_sandboxes(const conversation::SandboxRange& range,
                        conversation::ReadDone<conversation::Listed<sandbox::Record>> done) override;
    void find_sandbox(const std::string& id,
                      conversation::ReadDone<std::optional<sandbox::Record>> done) override;
    void count_open(const std::string& user_id, std::size_t limit,
                    conversation::ReadDone<std::size_t> done) override;
    void log_sizes(const conversation::LogRange& range,
                   conversation::ReadDone<conversation::Listed<conversation::LogSize>> done) override;
    void largest_logs(std::size_t limit, conversation::ReadDone<std::vector<std::string>> done) override;
    std::uint64_t free_bytes() override;
    void find_ending(bool has_ended, std::size_t limit,
                     conversation::ReadDone<std::vector<conversation::Ending>> done) override;
    void read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                     conversation::EventsRead done) override {
        done(events_after(key, after, limit_bytes));
    }
    void find_turn(std::int64_t key, const std::string& idempotency_key,
                   conversation::TurnFound done) override {
        done(turn_of(key, idempotency_key));
    }

    base::Result<std::vector<secrets::Row>> load_secrets(std::size_t limit) override;
    base::Result<void> put_secret(const secrets::Row& row) override;
    base::Result<void> erase_secret(std::string_view user_id, std::string_view name) override;
    base::Result<void> erase_secrets_of(std::string_view user_id) override;

    /// See log_epoch.hpp. Errors: storage_failed.
    base::Result<std::optional<LogMark>> log_mark();
    base::Result<void> put_log_mark(const LogMark& mark);

    /// Checks that the database's paths still lead to the opened files (stat(2), twice). While a file is
    /// removed or replaced, usable() and commit() return errors: a write to a file without a name is lost
    /// with the process.
    void check_files();

    /// `shared` lets another process open the database, for a checkpoint, a backup or long reads. `exclusive`
    /// keeps this connection's locks, which saves six system calls a commit (pragma.html, locking_mode).
    enum class Sharing : std::uint8_t { exclusive, shared };
    /// Each sharer shares for itself; the database is exclusive only while no sharer shares it.
    enum class Sharer : std::uint8_t { checkpoint, backup, lists };
    base::Result<void> set_sharing(Sharing sharing, Sharer sharer = Sharer::checkpoint);

    enum class ReadKind : std::uint8_t { load, list };
    /// For whom many rows are read. A load, or a count, is a part of another request.
    struct Asker {
        base::ShareHolder user;
        ReadKind kind = ReadKind::load;
    };
    /// Has list(), list_sandboxes(), count_open(), log_sizes(), largest_logs() and load() answered by this,
    /// later from the loop; null: from inside the call again. A load of a conversation that is not there is
    /// answered at once. Questions and answers as in list_helper.hpp. Errors, of these calls then, too:
    /// too_many_requests.
    using ListsAsked =
        std::function<void(const Asker& asker, const std::string& question, ListHelper::Answered answered)>;
    void read_lists_by(ListsAsked ask);

    /// Called at the end of each commit, also of a purge, with the size of the write-ahead log in bytes, from
    /// inside commit() or purge_log().
    void on_commit(std::function<void(std::uintmax_t wal_bytes)> committed);
    /// Called likewise when SQLite has refused one, but not of a database that is damaged.
    void on_refusal(std::function<void()> refused);

  private:
    struct Impl;
    explicit SqliteStore(std::unique_ptr<Impl> impl);
    base::Result<void> keep(const std::vector<conversation::Write>& writes);
    base::Result<void> write_secrets(const std::function<void(SQLite::Database&)>& write);
    base::Result<std::vector<conversation::EventPtr>> events_after(std::int64_t key, std::uint64_t after,
                                                                   std::size_t limit_bytes);
    base::Result<conversation::TurnRecord> turn_of(std::int64_t key, const std::string& idempotency_key);

    std::unique_ptr<Impl> impl_;
};

}  // namespace atl::store
