// A helper of a store's reads of many rows, in this process.
#pragma once

#include <SQLiteCpp/Database.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/store/finder.hpp"
#include "core/store/list_helper.hpp"

namespace atl::test {

/// Reads over a connection of its own, as atoll-helper does; answers when it is told to.
class ListReading final : public store::ListHelper {
  public:
    void find(const std::filesystem::path& database, const std::string& question,
              Answered answered) override {
        asked.push_back([this, database, question, answered = std::move(answered)] {
            using nlohmann::json;
            if (is_dead)
                return answered(base::Error(base::Errc::storage_failed, "the helper died of this request"));
            json answer;
            try {
                if (!opened)
                    opened.emplace(database.string(), SQLite::OPEN_READONLY);
                const std::string found = store::Finder(*opened).answer(question);
                answer_bytes = found.size();
                answer = {{"found", json::parse(found)}};
            } catch (const SQLite::Exception& error) {
                answer = {{"sqliteCode", error.getErrorCode()}, {"sqliteText", error.what()}};
            }
            answered(std::move(answer));
        });
    }
    void close_database(const std::filesystem::path&, std::function<void(base::Result<void>)> done) override {
        asked.push_back([this, done = std::move(done)] {
            opened.reset();
            done({});
        });
    }
    bool is_lost() const noexcept override { return is_away; }
    void answer_one() {
        const auto answer = std::move(asked.front());
        asked.pop_front();
        answer();
    }
    /// Also what is asked meanwhile.
    void answer_all() {
        while (!asked.empty())
            answer_one();
    }

    std::deque<std::function<void()>> asked;
    std::optional<SQLite::Database> opened;
    bool is_dead = false;
    bool is_away = false;
    std::size_t answer_bytes = 0;  // of the last one
};

}  // namespace atl::test
