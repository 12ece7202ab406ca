#include "app/orphans_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/data_dir.hpp"
#include "app/database_watch.hpp"
#include "core/base/ids.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/store/sqlite_store.hpp"
#include "fs-guard/folders.hpp"
#include "fs-guard/orphans.hpp"
#include "fs-guard/workspace_root.hpp"
#include "http/access/key_file.hpp"

namespace atl::app {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using fs_guard::Orphan;
using fs_guard::Orphans;

std::string label(const Orphan& orphan) {
    return orphan.date + "/" + orphan.name;
}

CommandOutput no_orphans() {
    return {"", "There are no orphaned workspaces.\n"};
}

CommandOutput list_orphans(const Orphans& orphans) {
    CommandOutput output;
    for (const Orphan& orphan : orphans.list())
        output.text += orphan.date + "  " + base::escaped(orphan.name) + "  uid " +
                       std::to_string(orphan.owner_uid) + "\n";
    return output.text.empty() ? no_orphans() : output;
}

Result<Orphan> find(const Orphans& orphans, const std::string& name) {
    std::vector<Orphan> found = orphans.list();
    std::erase_if(found, [&](const Orphan& orphan) { return orphan.name != name && label(orphan) != name; });
    if (found.empty())
        return Error(Errc::not_found, "there is no orphaned workspace " + base::escaped(name) +
                                          "; `atolld orphans list` shows them");
    if (found.size() > 1)
        return Error(Errc::invalid_field, "more than one has this name; give it as DATE/ID");
    return found.front();
}

/// Errors: invalid_field if no sandbox may have this workspace. A server that is root gives each sandbox a
/// uid of its own, any other server gives its own uid. The next start takes the uid from the owner.
Result<void> check_owner(const Orphan& orphan) {
    if (orphan.owner_uid >= base::k_first_host_uid || ::geteuid() != 0)
        return {};
    return Error(Errc::invalid_field, "the workspace belongs to uid " + std::to_string(orphan.owner_uid) +
                                          ", which no sandbox of a server that is root has; copy what is "
                                          "wanted out of it, then remove it");
}

std::string text_of(const nlohmann::json& data) {
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The records that make the orphan a conversation: paused, as after a restart of the server.
std::vector<conversation::Write> records(const Orphan& orphan, std::int64_t key,
                                         const OrphansCommand& command) {
    const auto now = base::SystemClock().wall_now();
    conversation::Record record;
    record.key = key;
    record.id = base::new_id();
    record.agent = command.agent;
    record.user_id = command.user_id;
    record.sandbox_id = orphan.name;
    record.status = conversation::Status::paused;
    record.reason = conversation::PauseReason::server_restart;
    record.created_at = record.last_active_at = now;
    sandbox::Record sandbox_record;
    sandbox_record.id = orphan.name;
    sandbox_record.conversation_id = record.id;
    sandbox_record.created_at = now;
    const nlohmann::json began{{"agent", command.agent}, {"sandboxId", orphan.name}};
    const nlohmann::json waits{{"reason", to_string(record.reason)},
                               {"mode", to_string(conversation::PauseMode::cold)},
                               {"detail", "the operator adopted the workspace"}};
    auto started =
        conversation::make_event(1, conversation::EventType::session_start, now, 0, text_of(began));
    auto paused =
        conversation::make_event(2, conversation::EventType::sandbox_paused, now, 0, text_of(waits));
    std::vector<conversation::Write> writes;
    writes.emplace_back(conversation::PutConversation{std::move(record)});
    writes.emplace_back(conversation::PutSandbox{std::move(sandbox_record)});
    writes.emplace_back(conversation::AppendEvent{key, std::move(started)});
    writes.emplace_back(conversation::AppendEvent{key, std::move(paused)});
    return writes;
}

Result<void> check_texts(const OrphansCommand& command) {
    if (command.user_id && !http::is_key_text(*command.user_id, base::k_max_user_id_bytes))
        return Error(Errc::invalid_field, "--user-id is 1 to " + std::to_string(base::k_max_user_id_bytes) +
                                              " bytes of text without control characters");
    if (!http::is_key_text(command.agent, base::k_max_key_label_bytes))
        return Error(Errc::invalid_field, "--agent is the name of a configured agent");
    return {};
}

Result<CommandOutput> adopt(const DataDir& data, const std::filesystem::path& root, const Orphans& orphans,
                            const OrphansCommand& command) {
    if (auto fine = check_texts(command); !fine)
        return fine.error();
    const auto orphan = find(orphans, command.name);
    if (!orphan)
        return orphan.error();
    if (!base::is_id(orphan->name))
        return Error(Errc::invalid_field, "this is no workspace of a sandbox: its name is no id");
    if (auto fits = check_owner(*orphan); !fits)
        return fits.error();
    if (auto there = check_database_is_there(data, root); !there)
        return there.error();
    auto store = store::SqliteStore::open(data.database());
    if (!store)
        return store.error();
    using Found = std::optional<sandbox::Record>;
    const auto found = conversation::answered_at_once<Found>(
        [&](conversation::ReadDone<Found> done) { (*store)->find_sandbox(orphan->name, std::move(done)); });
    if (!found)
        return found.error();
    if (*found)
        return Error(Errc::invalid_field,
                     "the database has this sandbox already, of conversation " + (*found)->conversation_id +
                         "; if that has not ended, the next start of the server gives the workspace back");
    const auto state = conversation::answered_at_once<conversation::StartState>(
        [&](conversation::ReadDone<conversation::StartState> done) {
            (*store)->load_start(std::move(done));
        });
    if (!state)
        return state.error();
    const auto batch = std::make_shared<conversation::WriteBatch>();
    batch->writes = records(*orphan, state->last_key + 1, command);
    Result<void> committed;
    (*store)->commit(batch, [&](conversation::CommitEnd end, const Error& why) {
        if (end != conversation::CommitEnd::durable)
            committed = why;
    });
    if (!committed)
        return committed.error();
    // From here on the next start of the server would do it.
    const auto workspaces = fs_guard::open_folder(root / fs_guard::k_workspaces);
    if (!workspaces)
        return workspaces.error();
    if (auto moved = orphans.give(*orphan, workspaces->get(), orphan->name); !moved)
        return moved.error();
    const std::string& id = std::get<conversation::PutConversation>(batch->writes.front()).record.id;
    return CommandOutput{id + "\n", "The workspace " + orphan->name + " is that of conversation:\n"};
}

Result<CommandOutput> remove(const std::filesystem::path& root, const Orphans& orphans,
                             const OrphansCommand& command) {
    const auto orphan = find(orphans, command.name);
    if (!orphan)
        return orphan.error();
    const auto trash = fs_guard::open_folder(root / fs_guard::k_trash);
    if (!trash)
        return trash.error();
    if (auto moved = orphans.give(*orphan, trash->get(), "orphan." + base::new_id()); !moved)
        return moved.error();
    return CommandOutput{
        "", "The workspace " + base::escaped(label(*orphan)) + " goes with the next start of the server.\n"};
}

}  // namespace

Result<CommandOutput> run_orphans_command(const Config& config) {
    const OrphansCommand& command = *config.orphans;
    std::error_code failure;
    if (!std::filesystem::is_directory(config.data_dir, failure))
        return Error(Errc::storage_failed, "there is no data directory " + config.data_dir.string() +
                                               "; name the server's own with --data-dir");
    const auto root = fs_guard::workspace_root(config.data_dir);
    if (!root)
        return root.error();
    if (command.action == OrphansCommand::Action::list) {
        // This command does not make the folder: it would belong to the user who runs the command.
        if (!std::filesystem::is_directory(*root / fs_guard::k_orphaned, failure))
            return no_orphans();
        auto orphans = Orphans::open(*root);
        if (!orphans)
            return orphans.error();
        return list_orphans(*orphans);
    }
    auto data = DataDir::open(config.data_dir);
    if (!data)
        return data.error();
    auto orphans = Orphans::open(*root);
    if (!orphans)
        return orphans.error();
    return command.action == OrphansCommand::Action::adopt ? adopt(*data, *root, *orphans, command)
                                                           : remove(*root, *orphans, command);
}

}  // namespace atl::app
