// A port: the process that reads many rows from the store's database, over a connection that only reads.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/error.hpp"

namespace atl::store {

class ListHelper {
  public:
    /// Called once, from the loop; not at all once the helper is gone.
    using Answered = std::function<void(base::Result<nlohmann::json>)>;

    virtual ~ListHelper() = default;
    /// `question` is the text of a store::Question (finder.hpp). The answer is {"found": Finder::answer()},
    /// or {"sqliteCode":N,"sqliteText":S} where SQLite met an error. Opens the database, and keeps it open.
    /// Errors: storage_failed.
    virtual void find(const std::filesystem::path& database, const std::string& question,
                      Answered answered) = 0;
    /// True while it is not there and could not be started for some seconds.
    virtual bool is_lost() const noexcept { return false; }
    /// Closes what it has open. Errors: storage_failed.
    virtual void close_database(const std::filesystem::path& database,
                                std::function<void(base::Result<void>)> done) = 0;
};

}  // namespace atl::store
