// Has lists, and the turns of conversations that are loaded, read by a helper process, so that the loop does
// not wait for many rows. The database is shared with it while there are questions, and some time longer: a
// commit of a database that is shared costs more (SqliteStore::set_sharing).
//
// The helper has one question at a time. Users take turns, and loads go before lists.
//
// Invariant: the helper has the database open only while it is shared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/fair_queue.hpp"
#include "core/base/limits.hpp"
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
    using Run = base::FairQueue::Run;
    struct Question {
        SqliteStore::ReadKind kind;
        std::string text;
        ListHelper::Answered answered;
    };

    void ask(const SqliteStore::Asker& asker, const std::string& text, ListHelper::Answered answered);
    base::FairQueue& line_of(SqliteStore::ReadKind kind) noexcept;
    std::optional<Run> take_turn();
    void ask_next();
    void on_answer(Run run, base::Result<nlohmann::json> found);
    void close();

    base::Timers& timers_;
    ListHelper& helper_;
    SqliteStore& store_;
    std::filesystem::path database_;
    bool is_shared_ = false;
    base::FairQueue loads_{
        {.running = 1, .running_per_user = 1, .waiting_per_user = base::k_waiting_loads_of_user}};
    base::FairQueue lists_{
        {.running = 1, .running_per_user = 1, .waiting_per_user = base::k_waiting_lists_of_user}};
    std::map<Run, Question> asked_;  // questions without an answer
    Run last_ = 0;
    bool is_asking_ = false;  // the helper has one
    std::size_t loads_in_row_ = 0;
    base::TimerId closing_ = 0;
    std::shared_ptr<ListReads*> self_;  // null inside once it is destroyed
};

}  // namespace atl::store
