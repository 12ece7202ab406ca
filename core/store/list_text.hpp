// The questions of lists and of loads and their answers as JSON, for the process that reads (atoll-helper).
// Both ends are of one build: what does not have this form is an error of the program, and throws
// nlohmann::json::exception. Internal to core/store and to atoll-helper.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/conversation/store.hpp"

namespace atl::store {

class Finder;
struct StoredTurns;

nlohmann::json question_of(const conversation::ListRange& range);
nlohmann::json question_of(const conversation::SandboxRange& range);
/// How many conversations of a user have not ended.
nlohmann::json question_of(const std::string& user_id, std::size_t limit);
/// The turns of a conversation.
nlohmann::json question_of_turns(std::int64_t key);

/// The answer to any of these, also what SQLite says against it.
nlohmann::json answer(Finder& finder, const nlohmann::json& question);

/// Throws SQLite::Exception as the one who answered met it.
void check_answer(const nlohmann::json& answer);
conversation::ConversationList conversations_in(const nlohmann::json& answer);
conversation::Listed<sandbox::Record> sandboxes_in(const nlohmann::json& answer);
std::size_t count_in(const nlohmann::json& answer);
StoredTurns turns_in(const nlohmann::json& answer);

}  // namespace atl::store
