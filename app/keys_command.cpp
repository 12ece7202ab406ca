#include "app/keys_command.hpp"

#include <algorithm>

#include "app/data_dir.hpp"
#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "http/access/key_file.hpp"
#include "http/access/limit_ceilings.hpp"

namespace atl::app {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using http::ApiKey;

Result<CommandOutput> add(const std::filesystem::path& file, const KeysCommand& command) {
    if (!http::is_key_text(command.label, base::k_max_key_label_bytes))
        return Error(Errc::invalid_field, "a label is 1 to " + std::to_string(base::k_max_key_label_bytes) +
                                              " bytes of text without control characters");
    if (command.user_id && !http::is_key_text(*command.user_id, base::k_max_user_id_bytes))
        return Error(Errc::invalid_field, "--user-id is 1 to " + std::to_string(base::k_max_user_id_bytes) +
                                              " bytes of text without control characters");
    const std::string secret = http::new_key();
    ApiKey key;
    key.id = base::new_id();
    key.label = command.label;
    key.user_id = command.user_id;
    key.created_at = base::rfc3339(base::SystemClock().wall_now());
    key.digest = http::key_digest(secret);
    key.ceilings = command.ceilings;
    const auto changed = http::change_key_file(file, [&](std::vector<ApiKey>& keys) -> Result<void> {
        if (keys.size() >= base::k_max_api_keys)
            return Error(Errc::capacity, "there are " + std::to_string(keys.size()) +
                                             " keys, which is the most; revoke some");
        keys.push_back(key);
        return {};
    });
    if (!changed)
        return changed.error();
    const std::string whom =
        key.user_id ? "for the conversations of user " + base::escaped(*key.user_id) : "for everything";
    return CommandOutput{secret + "\n",
                         "Key " + key.id + ", " + whom + ". It is shown this once and kept nowhere:\n"};
}

Result<CommandOutput> list_keys(const std::filesystem::path& file) {
    auto keys = http::read_key_file(file);
    if (!keys)
        return keys.error();
    CommandOutput output;
    for (const ApiKey& key : *keys) {
        output.text += key.id + "  " + key.created_at + "  " + base::escaped(key.label);
        if (key.user_id)
            output.text += "  user " + base::escaped(*key.user_id, base::k_max_user_id_bytes);
        for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
            if (const auto ceiling = key.ceilings.*limit.change)
                output.text += "  " + std::string(limit.api) + " <= " + std::to_string(*ceiling);
        }
        output.text += "\n";
    }
    if (keys->empty())
        output.note = "There are no keys but the server's own.\n";
    return output;
}

Result<CommandOutput> revoke(const std::filesystem::path& file, const std::string& id) {
    const auto changed = http::change_key_file(file, [&](std::vector<ApiKey>& keys) -> Result<void> {
        if (std::erase_if(keys, [&](const ApiKey& key) { return key.id == id; }) == 0)
            return Error(Errc::not_found, "there is no key with the id " + base::escaped(id) +
                                              "; `atolld keys list` shows them");
        return {};
    });
    if (!changed)
        return changed.error();
    return CommandOutput{"", "The key " + id + " is revoked.\n"};
}

}  // namespace

Result<CommandOutput> run_keys_command(const Config& config) {
    std::error_code failure;
    // Not made here: a key in a folder that no server uses would be a riddle.
    if (!std::filesystem::is_directory(config.data_dir, failure))
        return Error(Errc::storage_failed, "there is no data directory " + config.data_dir.string() +
                                               "; start the server once, or name its own with --data-dir");
    const auto file = DataDir::keys_file(config.data_dir);
    switch (config.keys->action) {
        case KeysCommand::Action::add:
            return add(file, *config.keys);
        case KeysCommand::Action::list:
            return list_keys(file);
        case KeysCommand::Action::revoke:
            return revoke(file, config.keys->id);
    }
    return Error(Errc::internal);
}

}  // namespace atl::app
