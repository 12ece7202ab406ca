// The parts of this host's file system that a sandbox sees, looked up once at the start of the server. Not
// here: bwrap's arguments made from them (profile.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/isolation/shown_etc.hpp"

namespace atl::isolation {

struct HostLayout {
    /// Top-level names that are symlinks on this host (/bin -> usr/bin), with their targets.
    std::vector<std::pair<std::string, std::string>> links;
    /// Top-level folders of programs and libraries that are not symlinks (a host without merged /usr).
    std::vector<std::string> folders;
    /// Host files and folders shown in /etc: certificates, alternatives, the linker's cache.
    std::vector<std::string> etc_files;
    std::vector<std::string> etc_folders;
    /// The other parts of the host's /etc that are shown, as copies.
    std::vector<EtcCopy> etc_copies;
    /// Masked parts of /usr: resolved, existing.
    std::vector<std::string> hidden_files;
    std::vector<std::string> hidden_folders;
    /// The masked paths of /proc: they exist, have no namespace, and tell about the host or change it.
    std::vector<std::string> proc_files;
    std::vector<std::string> proc_folders;
    /// The host's file with the issuers of certificates that it trusts; empty if it has none.
    std::string bundle;
    /// True if sandboxes see that file by this very name, without a symlink on the way.
    bool shows_bundle = false;
    /// The host's resolver configuration with symlinks resolved; empty if it has none.
    std::string resolv_conf;
};

/// Looks at the host. `hidden` are the operator's paths: each must exist and lie below /usr, otherwise
/// invalid_field. `root` stands for "/" (tests). `shown_etc` as find_shown_etc() takes it.
base::Result<HostLayout> probe_layout(const std::vector<std::filesystem::path>& hidden,
                                      const std::filesystem::path& root = "/",
                                      const std::vector<std::filesystem::path>& shown_etc = {});

/// The folders of `path` (as in $PATH) that a sandbox has, too: below /usr or the other folders of programs,
/// not masked, there now, each once. Where none is left, the usual ones of them. `root` as above.
std::string inner_path(const HostLayout& layout, std::string_view path,
                       const std::filesystem::path& root = "/");

}  // namespace atl::isolation
