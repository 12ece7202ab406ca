#include "app/rootless.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/user_namespace.hpp"
#include "fs-guard/workspace_root.hpp"

namespace atl::app {
namespace {

namespace fs = std::filesystem;
namespace evt = base::evt;

/// Whose workspaces there are already.
struct Owners {
    bool own = false;
    bool others = false;
};

void look_at(const fs::path& folder, Owners& owners) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        struct stat status {};
        if (::lstat(entry.path().c_str(), &status) == 0)
            (status.st_uid == ::geteuid() ? owners.own : owners.others) = true;
    }
}

base::Result<Owners> owners_of_workspaces(const fs::path& data_dir) {
    Owners owners;
    std::error_code error;
    if (!fs::exists(data_dir, error))
        return owners;
    const auto root = fs_guard::workspace_root(data_dir);
    if (!root)
        return root.error();
    look_at(*root / "workspaces", owners);
    return owners;
}

void tell_shared(const std::string& why) {
    base::LogLine(evt::uids_shared).quoted("err", why).warn();
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
        why =
            "the data directory has workspaces from before the server had subordinate uids; end their "
            "conversations, or take another --data-dir";
    if (why.empty()) {
        const auto entered = isolation::enter_user_namespace();
        if (entered) {
            if (config.unix_socket_group)
                config.unix_socket_group = 0;
            base::LogLine(evt::uids_private).field("map", *entered).info();
            return {};
        }
        why = entered.error().detail();
    }
    if (owners->others)
        return base::Error(base::Errc::host_unsupported,
                           "the workspaces in " + config.data_dir.string() +
                               " belong to other uids than the server's, and it cannot have them: " + why);
    tell_shared(why);
    return {};
}

}  // namespace atl::app
