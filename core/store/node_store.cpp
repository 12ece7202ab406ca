#include "core/store/node_store.hpp"

#include <SQLiteCpp/Statement.h>

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
        database.exec(k_schema);
        put.emplace(database, "INSERT OR REPLACE INTO sandboxes VALUES (?,?)");
        erase.emplace(database, "DELETE FROM sandboxes WHERE id = ?");
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
    std::optional<SQLite::Statement> put, erase;
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
    impl_->put->bind(1, facts.sandbox_id);
    impl_->put->bind(2, facts.host_uid);
    return impl_->run(*impl_->put);
}

Result<void> SqliteNodeStore::erase(const std::string& sandbox_id) {
    impl_->erase->bind(1, sandbox_id);
    return impl_->run(*impl_->erase);
}

Result<std::vector<HostFacts>> SqliteNodeStore::load() {
    std::vector<HostFacts> facts;
    try {
        SQLite::Statement rows(impl_->database, "SELECT id, host_uid FROM sandboxes");
        while (rows.executeStep())
            facts.push_back({rows.getColumn(0).getString(), rows.getColumn(1).getUInt()});
        return facts;
    } catch (const SQLite::Exception& error) {
        return impl_->failure(error);
    }
}

}  // namespace atl::store
