// The node's store (core/sandbox/node_store.hpp) in a small SQLite database of its own. Each call is one
// commit, which waits for no disk (connection.hpp): a loss of power may take the last facts, and a start
// makes them anew. Invariants: one process; the log is written back by the helper, never on the loop, but for
// the batches of a start; no read stays open after a call.
#pragma once

#include <filesystem>
#include <memory>

#include "core/sandbox/node_store.hpp"
#include "core/store/checkpoint_helper.hpp"
#include "core/store/log_mark.hpp"

namespace atl::store {

class SqliteNodeStore final : public sandbox::NodeStore {
  public:
    /// The bytes of the write-ahead log from which on the helper writes it back.
    static constexpr std::uintmax_t k_log_due_bytes = 4UL * 1024 * 1024;

    /// Opens or makes the database. `helper` outlives the last call. Errors: storage_failed, with the remedy.
    static base::Result<std::unique_ptr<SqliteNodeStore>> open(
        const std::filesystem::path& file, CheckpointHelper& helper,
        std::uintmax_t log_due_bytes = k_log_due_bytes);
    ~SqliteNodeStore() override;

    base::Result<void> put(const sandbox::HostFacts& facts) override;
    base::Result<void> erase(const std::string& sandbox_id) override;
    base::Result<std::optional<std::uint32_t>> find(const std::string& sandbox_id) override;
    /// These two write the log back themselves when it is due: nothing is served yet, and the helper's answer
    /// could not come.
    base::Result<void> put_all(std::span<const sandbox::HostFacts> facts) override;
    base::Result<void> erase_all(std::span<const std::string> sandbox_ids) override;
    base::Result<std::vector<sandbox::HostFacts>> list(const std::string& after_id,
                                                       std::size_t limit) override;
    base::Result<std::size_t> count() override;

    /// See log_epoch.hpp. Errors: storage_failed.
    base::Result<std::optional<NodeMark>> mark();
    base::Result<void> put_mark(const NodeMark& mark);

  private:
    struct Impl;
    explicit SqliteNodeStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace atl::store
