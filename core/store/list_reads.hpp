// Has lists, and the turns of conversations that are loaded, read by a helper process, so that the loop does
// not wait for many rows. The database is shared with it while there are questions, and some time longer: a
// commit of a database that is shared costs more (SqliteStore::set_sharing).
//
// Invariant: the helper has the database open only while it is shared.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/clock.hpp"
#include "core/store/list_helper.hpp"
#include "core/store/sqlite_store.hpp"

namespace atl::store {

class ListReads {
  public:
    /// From now on the store's many rows come from the helper; everything given must outlive this.
    ListReads(base::Timers& timers, ListHelper& helper, SqliteStore& store, std::filesystem::path database);
    /// The store answers by itself again; questions that are not answered are dropped.
    ~ListReads();
    ListReads(const ListReads&) = delete;
    ListReads& operator=(const ListReads&) = delete;

    static constexpr base::Millis k_shared_after_use{2000};

  private:
    void ask(const std::string& question, ListHelper::Answered answered);
    void on_answer();
    void close();

    base::Timers& timers_;
    ListHelper& helper_;
    SqliteStore& store_;
    std::filesystem::path database_;
    bool is_shared_ = false;
    std::size_t asked_ = 0;  // questions without an answer
    base::TimerId closing_ = 0;
    std::shared_ptr<ListReads*> self_;  // null inside once it is destroyed
};

}  // namespace atl::store
