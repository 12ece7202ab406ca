// Maps ids to row keys, for tables whose rows are in the order of their inserts. An index in the database
// would change one more page with each insert.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace atl::store {

/// Keys are never used twice in one run. An id that a batch removes stays known until the batch is committed,
/// so that a failed batch can be tried again.
class RowKeys {
  public:
    /// A row that is in the table already. False if another row has its id.
    bool add(const std::string& id, std::int64_t key) {
        next_ = std::max(next_, key + 1);
        return keys_.try_emplace(id, key).second;
    }
    std::int64_t find_or_add(const std::string& id) {
        std::erase(removed_, id);
        const auto [at, added] = keys_.try_emplace(id, next_);
        if (added)
            ++next_;
        return at->second;
    }
    std::optional<std::int64_t> find(const std::string& id) const {
        const auto at = keys_.find(id);
        return at == keys_.end() ? std::nullopt : std::optional(at->second);
    }
    void remove(const std::string& id) { removed_.push_back(id); }
    void on_commit() {
        for (const std::string& id : removed_)
            keys_.erase(id);
        removed_.clear();
    }
    void on_rollback() { removed_.clear(); }

    std::size_t size() const { return keys_.size(); }

  private:
    std::unordered_map<std::string, std::int64_t> keys_;
    std::vector<std::string> removed_;
    std::int64_t next_ = 1;
};

}  // namespace atl::store
