#include "core/store/sqlite_store.hpp"

#include <sqlite3.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/store/connection.hpp"
#include "core/store/database_files.hpp"
#include "core/store/finder.hpp"
#include "core/store/log_purge.hpp"
#include "core/store/reader.hpp"
#include "core/store/record_text.hpp"
#include "core/store/row_ids.hpp"
#include "core/store/schema.hpp"
#include "core/store/secret_rows.hpp"

namespace atl::store {

using base::Errc;
using base::Error;
using base::Result;
using conversation::AppendEvent;
using conversation::EraseConversation;
using conversation::EraseKeptProcess;
using conversation::EraseSandbox;
using conversation::EventPtr;
using conversation::PurgeBound;
using conversation::Purged;
using conversation::PutConversation;
using conversation::PutKeptProcess;
using conversation::PutPreviewNumber;
using conversation::PutSandbox;
using conversation::PutTurn;
using conversation::ReadDone;
using conversation::TurnRecord;

namespace {

constexpr char k_restore_advice[] =
    "; stop the server, keep the damaged file and restore the database from a backup "
    "(docs/operations/backup.md)";

/// Without a user it is a list of all, for a key of the server's own.
SqliteStore::Asker lister(const std::optional<std::string>& user_id) {
    return {user_id ? base::ShareHolder::user(*user_id) : base::ShareHolder(), SqliteStore::ReadKind::list};
}

}  // namespace

struct SqliteStore::Impl : Connection {
    explicit Impl(const std::filesystem::path& path) : Connection(path, k_restore_advice) {}

    void prepare();
    /// Ends a failed batch. sqlite3_reset() repeats the error of a failed step, so that is taken here and
    /// not left for the statement's next use.
    void abandon() noexcept;
    /// The same, and the error to tell.
    Error refuse(const SQLite::Exception& error);
    /// After the end of a transaction.
    void tell_committed() const {
        if (committed)
            committed(log_bytes());
    }
    void apply(const PutConversation& write) { put(*put_conversation, write.record); }
    void apply(const EraseConversation& write) {
        run(*erase_conversation, write.key);
        run(*erase_processes, row_id(write.key, 0), row_id(write.key + 1, 0));
    }
    void apply(const PutSandbox& write) { put(*put_sandbox, write.record); }
    void apply(const EraseSandbox& write) { run(*erase_sandbox, write.id); }
    void apply(const PutTurn& write);
    void apply(const PutKeptProcess& write) {
        run(*put_process, row_id(write.key, write.process.number), rest_text(write.process.spec));
    }
    void apply(const EraseKeptProcess& write) {
        const std::int64_t id = row_id(write.key, write.number);
        run(*erase_processes, id, id + 1);
    }
    void apply(const PutPreviewNumber& write);
    void apply(const AppendEvent& write) {
        const conversation::Event& event = *write.event;
        run(*append_event, row_id(write.key, event.seq), event.type, event.turn, event.json);
    }
    /// The answer of one of the reader's calls.
    template <class Call>
    auto read_with(Call call) -> Result<decltype(call(std::declval<Reader&>()))>;
    template <class T, class Asked>
    void find_with(ReadDone<T> done, const Asked& asked, const Asker& asker);

    OpenedFiles opened;
    std::optional<Error> lost;  // while a file is not where it was opened
    std::map<Sharer, Sharing> sharing;
    std::function<void(std::uintmax_t)> committed;
    std::function<void()> refused;
    std::unique_ptr<SQLite::Statement> begin, end;
    std::unique_ptr<SQLite::Statement> put_conversation, erase_conversation, put_sandbox, erase_sandbox,
        put_turn, put_process, erase_processes, put_number, append_event, read, find;
    std::optional<LogPurge> purge;
    std::optional<Reader> reader;
    std::optional<Finder> finder;
    ListsAsked lists_asked;  // empty: `finder` answers
};

void SqliteStore::Impl::prepare() {
    const auto statement = [&](const std::string& sql) {
        return std::make_unique<SQLite::Statement>(database, sql);
    };
    begin = statement("BEGIN IMMEDIATE");
    end = statement("COMMIT");
    put_conversation = statement(put_sql<conversation::Record>("key"));
    erase_conversation = statement("DELETE FROM conversations WHERE key = ?");
    put_sandbox = statement(put_sql<sandbox::Record>("id"));
    erase_sandbox = statement("DELETE FROM sandboxes WHERE id = ?");
    put_turn = statement("INSERT OR REPLACE INTO turns VALUES (?,?,?,?,?,?)");
    put_process = statement("INSERT OR REPLACE INTO kept_processes VALUES (?,?)");
    erase_processes = statement("DELETE FROM kept_processes WHERE id >= ? AND id < ?");
    put_number = statement("INSERT OR REPLACE INTO preview_numbers VALUES (?,?,?,?)");
    append_event = statement("INSERT INTO events VALUES (?,?,?,?)");
    read = statement("SELECT id, type, turn, json FROM events WHERE id > ? AND id < ? ORDER BY id");
    find = statement("SELECT * FROM turns WHERE idempotency_key = ? AND id >= ? AND id < ?");
    purge.emplace(database);
    reader.emplace(database);
    finder.emplace(database);
}

void SqliteStore::Impl::abandon() noexcept {
    for (auto* statement :
         {&begin, &end, &put_conversation, &erase_conversation, &put_sandbox, &erase_sandbox, &put_turn,
          &put_process, &erase_processes, &put_number, &append_event, &read, &find})
        (*statement)->tryReset();
    // SQLite has rolled back by itself after some errors (lang_transaction.html, section 3).
    if (sqlite3_get_autocommit(database.getHandle()) == 0)
        sqlite3_exec(database.getHandle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Error SqliteStore::Impl::refuse(const SQLite::Exception& error) {
    Error why = failure(error);
    abandon();
    if (refused && !damage)
        refused();
    return why;
}

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteStore::~SqliteStore() = default;

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::filesystem::path& file) {
    if (auto whole = Connection::check(file, k_restore_advice); !whole)
        return whole.error();
    try {
        auto impl = std::make_unique<Impl>(file);
        if (auto prepared = prepare_schema(impl->database); !prepared)
            return prepared.error();
        impl->prepare();
        impl->opened = OpenedFiles(file);
        return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(impl)));
    } catch (const SQLite::Exception& error) {
        return Connection::refusal(file, k_restore_advice, error);
    }
}

Result<void> SqliteStore::usable() const {
    if (impl_->damage)
        return *impl_->damage;
    if (impl_->lost)
        return *impl_->lost;
    return {};
}

Result<std::optional<LogMark>> SqliteStore::log_mark() {
    try {
        return read_log_mark(impl_->database);
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<void> SqliteStore::put_log_mark(const LogMark& mark) {
    if (auto allowed = usable(); !allowed)
        return allowed;
    try {
        write_mark(impl_->database, mark);
        return {};
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<std::vector<secrets::Row>> SqliteStore::load_secrets(std::size_t limit) {
    try {
        return read_secrets(impl_->database, limit);
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<void> SqliteStore::write_secrets(const std::function<void(SQLite::Database&)>& write) {
    if (auto allowed = usable(); !allowed)
        return allowed;
    try {
        write(impl_->database);
        impl_->tell_committed();
        return {};
    } catch (const SQLite::Exception& error) {
        return impl_->refuse(error);
    }
}

Result<void> SqliteStore::put_secret(const secrets::Row& row) {
    return write_secrets([&row](SQLite::Database& database) { write_secret(database, row); });
}

Result<void> SqliteStore::erase_secret(std::string_view user_id, std::string_view name) {
    return write_secrets([&](SQLite::Database& database) { store::erase_secret(database, user_id, name); });
}

Result<void> SqliteStore::erase_secrets_of(std::string_view user_id) {
    return write_secrets([&](SQLite::Database& database) { store::erase_secrets_of(database, user_id); });
}

void SqliteStore::check_files() {
    const auto missed = impl_->opened.find_missed();
    impl_->lost.reset();
    // The files at these paths may belong to another database: closing this one must not remove its log
    // (c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE).
    sqlite3_db_config(impl_->database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, missed ? 1 : 0, nullptr);
    if (!missed)
        return;
    impl_->lost =
        Error(Errc::storage_failed, "the database's file " + missed->string() +
                                        " was removed or replaced while the server runs, and nothing more is "
                                        "written: put the file back, or stop the server and restore the "
                                        "database (docs/operations/backup.md)");
}

void SqliteStore::commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) {
    const auto kept = keep(batch->writes);
    done(kept ? conversation::CommitEnd::durable : conversation::CommitEnd::refused,
         kept ? Error() : kept.error());
}

Result<void> SqliteStore::keep(const std::vector<conversation::Write>& writes) {
    if (auto allowed = usable(); !allowed)
        return allowed;
    try {
        run(*impl_->begin);
        for (const auto& write : writes)
            std::visit([&](const auto& one) { impl_->apply(one); }, write);
        run(*impl_->end);
        impl_->tell_committed();
        return {};
    } catch (const SQLite::Exception& error) {
        return impl_->refuse(error);
    }
}

void SqliteStore::Impl::apply(const PutTurn& write) {
    put_turn->reset();
    put_turn->bind(1, row_id(write.record.conversation_key, write.record.turn));
    bind_columns(*put_turn, 2, write.record);
    put_turn->exec();
}

void SqliteStore::Impl::apply(const PutPreviewNumber& write) {
    put_number->reset();
    bind_columns(*put_number, 1, write.row);
    put_number->exec();
}

Result<Purged> SqliteStore::purge_log(std::int64_t key, std::uint64_t below_seq, PurgeBound bound) {
    if (auto allowed = usable(); !allowed)
        return allowed.error();
    try {
        run(*impl_->begin);
        const Purged purged = impl_->purge->remove(key, below_seq, bound);
        run(*impl_->end);
        impl_->tell_committed();
        return purged;
    } catch (const SQLite::Exception& error) {
        return impl_->refuse(error);
    }
}

template <class Call>
auto SqliteStore::Impl::read_with(Call call) -> Result<decltype(call(std::declval<Reader&>()))> {
    try {
        return call(*reader);
    } catch (const SQLite::Exception& error) {
        return failure(error);
    }
}

void SqliteStore::load_start(ReadDone<conversation::StartState> done) {
    done(impl_->read_with([](Reader& reader) { return reader.load_start(); }));
}

void SqliteStore::load(const std::string& id,
                       ReadDone<std::optional<conversation::StoredConversation>> done) {
    auto rows = impl_->read_with([&id](Reader& reader) { return reader.load_rows(id); });
    if (!rows || !*rows)
        return done(std::move(rows));
    const auto stored = std::make_shared<conversation::StoredConversation>(std::move(**rows));
    const std::int64_t key = stored->record.key;
    // The rest must come from the same file.
    check_files();
    impl_->find_with<StoredTurns>(
        [stored, done = std::move(done)](Result<StoredTurns> turns) {
            if (!turns)
                return done(turns.error());
            turns->move_to(*stored);
            done(std::optional(std::move(*stored)));
        },
        TurnsOf{key}, {stored->record.holder(), ReadKind::load});
}

void SqliteStore::find_conversation(const std::string& id,
                                    ReadDone<std::optional<conversation::ListedConversation>> done) {
    done(impl_->read_with([&id](Reader& reader) { return reader.find_conversation(id); }));
}

void SqliteStore::find_created(const std::string& create_key,
                               ReadDone<std::optional<conversation::CreatedBefore>> done) {
    done(impl_->read_with([&](Reader& reader) { return reader.find_created(create_key); }));
}

/// The answer to a read of many rows, from `finder` or from the helper, which opens the file that has the
/// database's name: not where that is another one.
template <class T, class Asked>
void SqliteStore::Impl::find_with(ReadDone<T> done, const Asked& asked, const Asker& asker) {
    if (!lists_asked || lost)
        return done([&]() -> Result<T> {
            try {
                return finder->find(asked);
            } catch (const SQLite::Exception& error) {
                return failure(error);
            }
        }());
    auto answered = [this, done = std::move(done)](const Result<nlohmann::json>& answer) {
        if (!answer)
            return done(answer.error());
        T found{};
        if (const auto text = answer->find("sqliteText"); text != answer->end())
            return done(failure(SQLite::Exception(text->get<std::string>(), answer->value("sqliteCode", 0))));
        if (!read_json(answer->value("found", nlohmann::json()), found))
            return done(Error(Errc::storage_failed, "the helper's answer to a read is none"));
        done(std::move(found));
    };
    lists_asked(asker, json_text(Question(asked)), std::move(answered));
}

void SqliteStore::read_lists_by(ListsAsked ask) {
    impl_->lists_asked = std::move(ask);
}

void SqliteStore::list(const conversation::ListRange& range, ReadDone<conversation::ConversationList> done) {
    impl_->find_with(std::move(done), range, lister(range.filter.user_id));
}

void SqliteStore::list_sandboxes(const conversation::SandboxRange& range,
                                 ReadDone<conversation::Listed<sandbox::Record>> done) {
    impl_->find_with(std::move(done), range, lister(range.user_id));
}

void SqliteStore::count_open(const std::string& user_id, std::size_t limit, ReadDone<std::size_t> done) {
    impl_->find_with(std::move(done), OpenCount{user_id, limit},
                     {base::ShareHolder::user(user_id), ReadKind::load});
}

void SqliteStore::log_sizes(const conversation::LogRange& range,
                            ReadDone<conversation::Listed<conversation::LogSize>> done) {
    impl_->find_with(std::move(done), range, {});
}

void SqliteStore::largest_logs(std::size_t limit, ReadDone<std::vector<std::string>> done) {
    impl_->find_with(std::move(done), LargestLogs{limit}, {});
}

std::uint64_t SqliteStore::free_bytes() {
    try {
        const auto pages = impl_->database.execAndGet("PRAGMA freelist_count").getInt64();
        return static_cast<std::uint64_t>(pages) * impl_->page_bytes;
    } catch (const SQLite::Exception&) {
        return 0;
    }
}

void SqliteStore::find_sandbox(const std::string& id, ReadDone<std::optional<sandbox::Record>> done) {
    done(impl_->read_with([&id](Reader& reader) { return reader.find_sandbox(id); }));
}

void SqliteStore::find_ending(bool has_ended, std::size_t limit,
                              ReadDone<std::vector<conversation::Ending>> done) {
    done(impl_->read_with([=](Reader& reader) { return reader.find_ending(has_ended, limit); }));
}

Result<std::vector<EventPtr>> SqliteStore::events_after(std::int64_t key, std::uint64_t after,
                                                        std::size_t limit_bytes) {
    std::vector<EventPtr> events;
    try {
        SQLite::Statement& rows = *impl_->read;
        rows.reset();
        rows.bind(1, row_id(key, after));
        rows.bind(2, row_id(key + 1, 0));
        for (std::size_t bytes = 0; bytes < limit_bytes && rows.executeStep();) {
            auto event = std::make_shared<conversation::Event>();
            event->seq = low_of(rows.getColumn(0).getInt64());
            event->type = static_cast<conversation::EventType>(rows.getColumn(1).getInt());
            event->turn = static_cast<std::uint64_t>(rows.getColumn(2).getInt64());
            event->json = rows.getColumn(3).getString();
            bytes += event->cost_bytes();
            events.push_back(std::move(event));
        }
        // An open read would hold back checkpoints.
        rows.reset();
        return events;
    } catch (const SQLite::Exception& error) {
        impl_->read->tryReset();
        return impl_->failure(error);
    }
}

Result<TurnRecord> SqliteStore::turn_of(std::int64_t key, const std::string& idempotency_key) {
    TurnRecord turn;
    try {
        SQLite::Statement& row = *impl_->find;
        row.reset();
        row.bindNoCopy(1, idempotency_key);
        row.bind(2, row_id(key, 0));
        row.bind(3, row_id(key + 1, 0));
        if (row.executeStep()) {
            turn.conversation_key = key;
            turn.turn = low_of(row.getColumn(0).getInt64());
            read_columns(row, turn);
        }
        row.reset();
        return turn;
    } catch (const SQLite::Exception& error) {
        impl_->find->tryReset();
        return impl_->failure(error);
    }
}

Result<void> SqliteStore::set_sharing(Sharing sharing, Sharer sharer) {
    auto changed = impl_->sharing;
    changed[sharer] = sharing;
    const bool shared = std::any_of(changed.begin(), changed.end(),
                                    [](const auto& each) { return each.second == Sharing::shared; });
    try {
        impl_->database.exec(shared ? "PRAGMA locking_mode = NORMAL" : "PRAGMA locking_mode = EXCLUSIVE");
        // The mode takes effect at the next access.
        static_cast<void>(impl_->database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt());
        impl_->sharing = std::move(changed);
        return {};
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

void SqliteStore::on_commit(std::function<void(std::uintmax_t wal_bytes)> committed) {
    impl_->committed = std::move(committed);
}

void SqliteStore::on_refusal(std::function<void()> refused) {
    impl_->refused = std::move(refused);
}

}  // namespace atl::store
