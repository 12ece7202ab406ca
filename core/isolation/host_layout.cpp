#include "core/isolation/host_layout.hpp"

#include <algorithm>
#include <cstdlib>

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_program_folders[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
constexpr const char* k_etc[] = {"etc/ssl/certs", "etc/ssl/openssl.cnf", "etc/alternatives",
                                 "etc/ld.so.cache"};
// Debian's and Alpine's, Fedora's, openSUSE's.
constexpr const char* k_bundles[] = {"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt",
                                     "etc/ssl/ca-bundle.pem"};
// pressure: any process may register triggers there, and their removal can delay the end of that process by
// minutes. The other paths describe the host's hardware, file systems and interrupts, or container engines
// mask them.
constexpr const char* k_masked_proc[] = {
    "pressure", "acpi",          "asound",      "bus",        "fs",         "irq",
    "scsi",     "cmdline",       "config.gz",   "diskstats",  "interrupts", "iomem",
    "kcore",    "latency_stats", "sched_debug", "timer_list", "timer_stats"};

void find_program_folders(const fs::path& root, HostLayout& layout) {
    for (const char* name : k_program_folders) {
        std::error_code error;
        const fs::path path = root / name;
        const auto status = fs::symlink_status(path, error);
        if (fs::is_symlink(status)) {
            const fs::path target = fs::read_symlink(path, error);
            if (!error)
                layout.links.emplace_back("/" + std::string(name), target.string());
        } else if (fs::is_directory(status)) {
            layout.folders.push_back("/" + std::string(name));
        }
    }
}

void find_etc(const fs::path& root, HostLayout& layout) {
    for (const char* name : k_etc) {
        std::error_code error;
        const auto status = fs::status(root / name, error);
        if (fs::is_directory(status))
            layout.etc_folders.push_back("/" + std::string(name));
        else if (fs::is_regular_file(status))
            layout.etc_files.push_back("/" + std::string(name));
    }
    std::error_code error;
    const fs::path resolv = fs::canonical(root / "etc/resolv.conf", error);
    if (!error && fs::is_regular_file(resolv, error))
        layout.resolv_conf = resolv.string();
}

void find_bundle(const fs::path& root, HostLayout& layout) {
    std::error_code error;
    for (const char* name : k_bundles) {
        if (!fs::is_regular_file(root / name, error))
            continue;
        layout.bundle = "/" + std::string(name);
        layout.shows_bundle = fs::canonical(root / name, error) == fs::canonical(root, error) / name &&
                              std::find(layout.etc_folders.begin(), layout.etc_folders.end(),
                                        fs::path(layout.bundle).parent_path()) != layout.etc_folders.end();
        return;
    }
    // The server itself trusts this one (SSL_CERT_FILE of openssl(1ssl)); sandboxes get a copy.
    const char* const named = std::getenv("SSL_CERT_FILE");
    if (named != nullptr && fs::is_regular_file(named, error))
        layout.bundle = named;
}

// Each mask costs a launch a mount. A path that only the host's root can open needs no mask, nor does an
// empty folder.
void find_proc(const fs::path& root, HostLayout& layout) {
    for (const char* name : k_masked_proc) {
        std::error_code error;
        const fs::path path = root / "proc" / name;
        const auto status = fs::status(path, error);
        if (error || (status.permissions() & fs::perms::others_all) == fs::perms::none)
            continue;
        if (!fs::is_directory(status))
            layout.proc_files.push_back("/proc/" + std::string(name));
        else if (!fs::is_empty(path, error))
            layout.proc_folders.push_back("/proc/" + std::string(name));
    }
}

base::Result<void> add_hidden(const fs::path& root, const fs::path& wanted, HostLayout& layout) {
    std::error_code error;
    const fs::path real = fs::canonical(root / wanted.relative_path(), error);
    if (error)
        return base::Error(base::Errc::invalid_field,
                           "--hide " + wanted.string() + ": there is no such path");
    const fs::path usr = fs::weakly_canonical(root / "usr", error);
    const fs::path below = real.lexically_relative(usr);
    if (below.empty() || below == "." || *below.begin() == "..")
        return base::Error(
            base::Errc::invalid_field,
            "--hide " + wanted.string() + ": only what lies below /usr is shown, and can be hidden");
    const std::string inside = "/usr/" + below.string();
    (fs::is_directory(real, error) ? layout.hidden_folders : layout.hidden_files).push_back(inside);
    return {};
}

/// True if `path` is `folder` or lies below it.
bool is_within(const fs::path& path, const fs::path& folder) {
    const fs::path below = path.lexically_relative(folder);
    return !below.empty() && *below.begin() != "..";
}

/// True if a sandbox has the folder, under this very name.
bool is_folder_inside(const HostLayout& layout, const fs::path& folder, const fs::path& root) {
    const fs::path name = folder.lexically_normal();
    const auto shows = [&](const std::string& shown) { return is_within(name, shown); };
    const bool is_named = shows("/usr") || std::any_of(layout.folders.begin(), layout.folders.end(), shows) ||
                          std::any_of(layout.links.begin(), layout.links.end(),
                                      [&](const auto& link) { return shows(link.first); });
    std::error_code error;
    const fs::path real = fs::canonical(root / folder.relative_path(), error);
    if (!is_named || error || !fs::is_directory(real, error))
        return false;
    // A symlink may lead out of what is shown.
    const auto holds = [&](const std::string& shown) {
        return is_within(real, fs::weakly_canonical(root / fs::path(shown).relative_path(), error));
    };
    const bool is_shown = holds("/usr") || std::any_of(layout.folders.begin(), layout.folders.end(), holds);
    return is_shown && std::none_of(layout.hidden_folders.begin(), layout.hidden_folders.end(), holds);
}

}  // namespace

std::string inner_path(const HostLayout& layout, std::string_view path, const fs::path& root) {
    constexpr std::string_view k_usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    std::vector<std::string_view> kept;
    for (const std::string_view list : {path, k_usual}) {
        if (!kept.empty())
            break;
        for (std::string_view left = list; !left.empty();) {
            const std::string_view folder = left.substr(0, left.find(':'));
            left.remove_prefix(std::min(left.size(), folder.size() + 1));
            if (folder.starts_with('/') && std::find(kept.begin(), kept.end(), folder) == kept.end() &&
                is_folder_inside(layout, folder, root))
                kept.push_back(folder);
        }
    }
    std::string joined;
    for (const std::string_view folder : kept)
        (joined += joined.empty() ? "" : ":") += folder;
    return joined;
}

base::Result<HostLayout> probe_layout(const std::vector<fs::path>& hidden, const fs::path& root,
                                      const std::vector<fs::path>& shown_etc) {
    HostLayout layout;
    find_program_folders(root, layout);
    find_etc(root, layout);
    find_bundle(root, layout);
    std::vector<std::string> shown_whole = layout.etc_folders;
    shown_whole.insert(shown_whole.end(), layout.etc_files.begin(), layout.etc_files.end());
    auto copies = find_shown_etc(shown_etc, shown_whole, root);
    if (!copies)
        return copies.error();
    layout.etc_copies = std::move(*copies);
    find_proc(root, layout);
    for (const auto& path : hidden) {
        if (auto added = add_hidden(root, path, layout); !added)
            return added.error();
    }
    return layout;
}

}  // namespace atl::isolation
