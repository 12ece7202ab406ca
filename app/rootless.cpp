#include "app/rootless.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "core/base/fix.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/user_namespace.hpp"
#include "fs-guard/workspace_root.hpp"

namespace atl::app {
namespace {

namespace fs = std::filesystem;
namespace evt = base::evt;

base::Result<fs_guard::WorkspaceOwners> owners_of_workspaces(const fs::path& data_dir) {
    std::error_code error;
    if (!fs::exists(data_dir, error))
        return fs_guard::WorkspaceOwners{};
    const auto root = fs_guard::workspace_root(data_dir);
    if (!root)
        return root.error();
    return fs_guard::workspace_owners(*root, ::geteuid());
}

// FIRST-UID FIRST-GID COUNT: the ids of the workspaces in this data directory.
constexpr const char* k_ids_file = "subordinate-ids";

base::Result<std::optional<isolation::SubordinateIds>> read_ids(const fs::path& data_dir) {
    const fs::path path = data_dir / k_ids_file;
    std::error_code error;
    if (!fs::exists(path, error))
        return std::optional<isolation::SubordinateIds>();
    isolation::SubordinateIds ids;
    std::ifstream file(path);
    if (file >> ids.first_uid >> ids.first_gid >> ids.count && ids.count >= base::k_host_uids_per_block &&
        ids.count <= base::k_host_uids_per_block * base::k_host_uid_blocks)
        return std::optional(ids);
    return base::Error(
        base::Errc::storage_failed,
        path.string() + " is damaged: it names the ids of the workspaces as FIRST-UID FIRST-GID COUNT");
}

base::Result<void> write_ids(const fs::path& data_dir, const isolation::SubordinateIds& ids) {
    std::error_code error;
    // The folder gets mode 0700 here, because DataDir::open() sets it only for a folder that it makes.
    if (fs::create_directories(data_dir, error)) {
        std::error_code left;
        fs::permissions(data_dir, fs::perms::owner_all, error);
        if (error)
            fs::remove(data_dir, left);  // the next start would take it as it is
    }
    if (error)
        return base::Error(base::Errc::storage_failed, "cannot make the data directory " + data_dir.string() +
                                                           ": " + error.message() +
                                                           "; choose another with --data-dir");
    const fs::path fresh = data_dir / (std::string(k_ids_file) + ".new");
    std::ofstream file(fresh);
    file << ids.first_uid << ' ' << ids.first_gid << ' ' << ids.count << '\n' << std::flush;
    fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write, error);
    if (file && !error)
        fs::rename(fresh, data_dir / k_ids_file, error);
    if (!file || error)
        return base::Error(base::Errc::storage_failed, "cannot write " + fresh.string());
    return {};
}

/// The commands go to the end of what the start says.
void tell_shared(const std::string& why, std::string& fixes) {
    const auto end = std::min(why.find(base::k_fix), why.size());
    base::LogLine(evt::uids_shared).quoted("err", why.substr(0, end)).warn();
    fixes += why.substr(end);
}

/// Why the server shares its uid with sandboxes where workspaces of the data directory have that uid.
std::string why_shared_stays() {
    const auto ids = isolation::find_subordinate_ids();
    return ids ? "the data directory has workspaces from before the server had subordinate uids; end their "
                 "conversations, or take another --data-dir"
               : ids.error().detail();
}

base::Result<void> use(Config& config, const isolation::SubordinateIds& ids, bool are_new) {
    // --print-profile writes nothing into the data directory.
    if (are_new && !config.print_profile) {
        if (auto written = write_ids(config.data_dir, ids); !written)
            return written;
    }
    if (config.unix_socket_group)
        config.unix_socket_group = 0;
    base::LogLine(evt::uids_private)
        .field("first_uid", static_cast<std::int64_t>(ids.first_uid))
        .field("count", static_cast<std::int64_t>(ids.count))
        .info();
    return {};
}

}  // namespace

base::Result<void> take_subordinate_ids(Config& config) {
    if (::geteuid() == 0)
        return {};
    const auto owners = owners_of_workspaces(config.data_dir);
    if (!owners)
        return owners.error();
    const bool maps_group = !config.unix_socket_group || *config.unix_socket_group == ::getegid();
    std::string why;
    if (config.shared_uid)
        why = "--shared-uid is given";
    else if (!maps_group)
        why = "the group of --unix-socket-group is not the server's own";
    else if (owners->own)
        why = why_shared_stays();
    if (why.empty()) {
        const auto wanted = read_ids(config.data_dir);
        if (!wanted)
            return wanted.error();
        const auto entered = isolation::enter_user_namespace(*wanted);
        if (entered)
            return use(config, *entered, !wanted->has_value());
        if (entered.error().code() != base::Errc::host_unsupported)
            return entered.error();
        why = entered.error().detail();
    }
    if (owners->others)
        return base::Error(base::Errc::host_unsupported,
                           "the workspaces in " + config.data_dir.string() +
                               " belong to other uids than the server's, and it cannot have them: " + why);
    tell_shared(why, config.fixes);
    return {};
}

}  // namespace atl::app
