#include "core/store/node_store.hpp"

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <optional>
#include <utility>

#include "core/store/connection.hpp"

namespace atl::store {

using base::Result;
using sandbox::HostFacts;

namespace {

constexpr char k_advice[] =
    "; stop the server and remove the file and its -wal: the next start makes it anew from the workspaces "
    "(docs/operations/backup.md)";

// In the order of the ids: a row is small, and a change is one page of the log.
constexpr const char* k_schema =
    "CREATE TABLE IF NOT EXISTS sandboxes (id TEXT PRIMARY KEY, host_uid INTEGER NOT NULL) STRICT, WITHOUT "
    "ROWID";

}  // namespace

struct SqliteNodeStore::Impl : Connection {
    Impl(const std::filesystem::path& path, CheckpointHelper& with, std::uintmax_t due)
        : Connection(path, k_advice), helper(with), log_due_bytes(due) {
        // A row is found through few pages, and the rows of a million sandboxes fit into no cache of this
        // size or four times it.
        database.exec("PRAGMA cache_size = -1024");
        database.exec(k_schema);
        database.exec(k_node_mark_schema);
        put.emplace(database, "INSERT OR REPLACE INTO sandboxes VALUES (?,?)");
        erase.emplace(database, "DELETE FROM sandboxes WHERE id = ?");
        find.emplace(database, "SELECT host_uid FROM sandboxes WHERE id = ?");
    }

    void bind(const HostFacts& facts) {
        put->bind(1, facts.sandbox_id);
        put->bind(2, facts.host_uid);
    }
    void bind(const std::string& sandbox_id) { erase->bind(1, sandbox_id); }

    /// Executes `statement` once for each of `all`, in a single transaction.
    template <class Each>
    Result<void> run_all(SQLite::Statement& statement, std::span<const Each> all) {
        try {
            SQLite::Transaction batch(database);
            for (const Each& each : all) {
                statement.reset();
                bind(each);
                statement.exec();
            }
            statement.reset();
            batch.commit();
        } catch (const SQLite::Exception& error) {
            statement.tryReset();
            return failure(error);
        }
        // If it fails, a later one writes back the rest.
        if (log_bytes() >= log_due_bytes)
            database.tryExec("PRAGMA wal_checkpoint(PASSIVE)");
        return {};
    }

    Result<void> run(SQLite::Statement& statement) {
        try {
            statement.exec();
            statement.reset();
        } catch (const SQLite::Exception& error) {
            statement.tryReset();
            return failure(error);
        }
        if (log_bytes() >= log_due_bytes && !std::exchange(*is_written_back, true))
            helper.checkpoint(file, [busy = is_written_back](const Result<void>&) { *busy = false; });
        return {};
    }

    CheckpointHelper& helper;
    std::uintmax_t log_due_bytes;
    std::shared_ptr<bool> is_written_back = std::make_shared<bool>(false);
    std::optional<SQLite::Statement> put, erase, find;
};

SqliteNodeStore::SqliteNodeStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteNodeStore::~SqliteNodeStore() = default;

Result<std::unique_ptr<SqliteNodeStore>> SqliteNodeStore::open(const std::filesystem::path& file,
                                                               CheckpointHelper& helper,
                                                               std::uintmax_t log_due_bytes) {
    if (auto whole = Connection::check(file, k_advice); !whole)
        return whole.error();
    try {
        return std::unique_ptr<SqliteNodeStore>(
            new SqliteNodeStore(std::make_unique<Impl>(file, helper, log_due_bytes)));
    } catch (const SQLite::Exception& error) {
        return Connection::refusal(file, k_advice, error);
    }
}

Result<void> SqliteNodeStore::put(const HostFacts& facts) {
    impl_->bind(facts);
    return impl_->run(*impl_->put);
}

Result<void> SqliteNodeStore::erase(const std::string& sandbox_id) {
    impl_->bind(sandbox_id);
    return impl_->run(*impl_->erase);
}

Result<std::optional<std::uint32_t>> SqliteNodeStore::find(const std::string& sandbox_id) {
    SQLite::Statement& row = *impl_->find;
    try {
        row.bind(1, sandbox_id);
        std::optional<std::uint32_t> host_uid;
        if (row.executeStep())
            host_uid = row.getColumn(0).getUInt();
        row.reset();
        return host_uid;
    } catch (const SQLite::Exception& error) {
        row.tryReset();
        return impl_->failure(error);
    }
}

Result<void> SqliteNodeStore::put_all(std::span<const HostFacts> facts) {
    return impl_->run_all(*impl_->put, facts);
}

Result<void> SqliteNodeStore::erase_all(std::span<const std::string> sandbox_ids) {
    return impl_->run_all(*impl_->erase, sandbox_ids);
}

Result<std::vector<HostFacts>> SqliteNodeStore::list(const std::string& after_id, std::size_t limit) {
    std::vector<HostFacts> facts;
    try {
        SQLite::Statement rows(impl_->database,
                               "SELECT id, host_uid FROM sandboxes WHERE id > ? ORDER BY id LIMIT ?");
        rows.bind(1, after_id);
        rows.bind(2, static_cast<std::int64_t>(limit));
        while (rows.executeStep())
            facts.push_back({rows.getColumn(0).getString(), rows.getColumn(1).getUInt()});
        return facts;
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<std::size_t> SqliteNodeStore::count() {
    try {
        return static_cast<std::size_t>(
            impl_->database.execAndGet("SELECT count(*) FROM sandboxes").getInt64());
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<std::optional<NodeMark>> SqliteNodeStore::mark() {
    try {
        return read_node_mark(impl_->database);
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

Result<void> SqliteNodeStore::put_mark(const NodeMark& mark) {
    try {
        write_mark(impl_->database, mark);
        return {};
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

}  // namespace atl::store
