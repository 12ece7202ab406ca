// A rootless server with subordinate ids (subuid(5)): a user namespace in which it is root and each sandbox
// has a uid of its own, exactly as with a server that is root of the host.
// Inside, uid and gid 0 are the user's own ids; ids from base::k_first_host_uid on are the subordinate ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace atl::isolation {

/// The programs of the package uidmap.
struct UidmapPrograms {
    std::filesystem::path getsubids = "/usr/bin/getsubids";
    std::filesystem::path newuidmap = "/usr/bin/newuidmap";
    std::filesystem::path newgidmap = "/usr/bin/newgidmap";
};

/// Subordinate ids as a server uses them: `count` uids and gids for sandboxes and one more for trials.
struct SubordinateIds {
    std::uint32_t first_uid = 0;
    std::uint32_t first_gid = 0;
    std::uint32_t count = 0;
    bool operator==(const SubordinateIds&) const = default;
};

/// The ids that enter_user_namespace() would take (subuid(5), getsubids(1)); enters nothing. Blocks for some
/// milliseconds. Errors: host_unsupported with what is missing.
base::Result<SubordinateIds> find_subordinate_ids(const std::optional<SubordinateIds>& wanted = {},
                                                  const UidmapPrograms& programs = {});

/// Makes a user namespace with subordinate ids of this user, and a mount namespace in it, and enters both
/// (user_namespaces(7), newuidmap(1)). `wanted`: the ids that workspaces already have; without it, the user's
/// largest range is taken. Returns the ids that were taken. Blocks for some milliseconds.
/// Preconditions: the process has one thread and is not root.
/// Errors: host_unsupported with the missing feature, and the process is unchanged; internal if the process
/// has changed and must end.
base::Result<SubordinateIds> enter_user_namespace(const std::optional<SubordinateIds>& wanted = {},
                                                  const UidmapPrograms& programs = {});

/// How many uids from base::k_first_host_uid on this process's user namespace maps, up to the first that it
/// does not: 0 where it maps none of them, as in many containers.
std::uint32_t mapped_host_uids(const std::filesystem::path& uid_map = "/proc/self/uid_map");

/// True if this process's user namespace is not the initial one of the host.
bool is_in_user_namespace(const std::filesystem::path& uid_map = "/proc/self/uid_map");

/// base::fix_line() of a command that only root may run.
std::string root_fix_line(const std::string& command);

/// The uid right after the sandbox uids: no sandbox ever has it, but a trial may.
std::uint32_t probe_uid() noexcept;

}  // namespace atl::isolation
