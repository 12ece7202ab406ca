#include "core/isolation/shown_etc.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

// Opened by their names alone: by libc, fontconfig, Perl, ImageMagick, file(1), matplotlib, TeX, libxml2 and
// the like.
constexpr std::array k_well_known = {
    "services",  "protocols",     "rpc",           "ethertypes",     "networks",       "mime.types",
    "mailcap",   "magic",         "magic.mime",    "os-release",     "lsb-release",    "debian_version",
    "timezone",  "localtime",     "locale.alias",  "inputrc",        "terminfo",       "fonts",
    "perl",      "ImageMagick-6", "ImageMagick-7", "OpenCL",         "vulkan",         "gai.conf",
    "host.conf", "login.defs",    "papersize",     "redhat-release", "alpine-release", "matplotlibrc",
    "texmf",     "xml",           "sgml",          "ghostscript",    "nanorc",         "dictionaries-common"};
// Generated for every sandbox, or a matter of the host's users, services and secrets.
constexpr std::array k_never_shown = {
    "passwd",    "group",     "hosts",          "hostname",    "nsswitch.conf", "resolv.conf", "shadow",
    "gshadow",   "passwd-",   "group-",         "shadow-",     "gshadow-",      "ssh",         "sudoers",
    "sudoers.d", "sudo.conf", "pam.d",          "security",    "environment",   "machine-id",  "krb5.keytab",
    "wireguard", "ppp",       "NetworkManager", "letsencrypt", "apt",           "cron.d",      "crontab",
    "init.d",    "systemd",   "fstab",          "crypttab",    "subuid",        "subgid",      "docker"};
// Files and folders with these endings are never shown, wherever they are.
constexpr std::array k_secret_endings = {".key", ".keytab", ".p12", ".pfx", ".kdbx", ".gpg", ".netrc"};
// Folders of /usr that hold many entries and no links into /etc.
constexpr std::array k_not_searched = {"share/doc",   "share/man",  "share/info", "share/icons",
                                       "share/fonts", "share/help", "include",    "src"};
constexpr int k_search_depth = 4;  // /usr/lib/PACKAGE/PART/LINK
// Java keeps its configuration in links that lie deep.
constexpr std::string_view k_searched_whole = "lib/jvm";
constexpr int k_whole_depth = 12;
constexpr int k_most_links = 40;  // path_resolution(7)
constexpr std::size_t k_key_search_bytes = 64UL * 1024;

bool is_at_or_under(const fs::path& path, const fs::path& folder) {
    const auto [path_end, folder_end] = std::ranges::mismatch(path, folder);
    return folder_end == folder.end();
}

bool may_all(const fs::file_status& status, fs::perms wanted) {
    return (status.permissions() & wanted) == wanted;
}

class EtcFinder {
  public:
    EtcFinder(const std::vector<std::string>& shown_whole, const fs::path& root)
        : shown_whole_(shown_whole), root_(root) {}

    /// Adds `path` with all that is in it and all that its links lead to. False: it may not be shown, or a
    /// part of its way is missing.
    bool add(const fs::path& path, int links = 0);
    void search(const fs::path& folder, int depth);
    void search_usr();
    std::vector<EtcCopy> found() const;
    /// The first path that a bound kept out, and which one; empty: none.
    const std::string& exceeded() const noexcept { return exceeded_; }

  private:
    fs::path real(const fs::path& path) const { return root_ / path.relative_path(); }
    bool is_shown_whole(const fs::path& path) const {
        return std::ranges::any_of(shown_whole_,
                                   [&](const auto& shown) { return is_at_or_under(path, shown); });
    }
    static bool is_secret(const fs::path& path);
    bool holds_private_key(const fs::path& path) const;
    bool add_link(const fs::path& link, const fs::path& rest, int links);
    bool add_folder(const fs::path& path, int links);
    bool add_file(const fs::path& path);
    void follow(const fs::path& link);
    bool put(const fs::path& path, EtcCopy::Kind kind, std::string target = {});
    bool exceed(const fs::path& path, const std::string& bound);

    const std::vector<std::string>& shown_whole_;
    fs::path root_;
    std::map<std::string, EtcCopy> copies_;
    std::uint64_t bytes_ = 0;
    std::string exceeded_;
};

bool EtcFinder::is_secret(const fs::path& path) {
    const fs::path below = path.lexically_relative("/etc");
    const std::string first = below.begin()->string();
    if (std::ranges::find(k_never_shown, first) != k_never_shown.end())
        return true;
    return std::ranges::any_of(below, [](const fs::path& part) {
        const std::string name = part.string();
        return name == "private" || name.starts_with("ssh_host_") ||
               std::ranges::any_of(k_secret_endings,
                                   [&](const char* ending) { return name.ends_with(ending); });
    });
}

bool EtcFinder::holds_private_key(const fs::path& path) const {
    std::ifstream file(real(path), std::ios::binary);
    std::string text(k_key_search_bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text.find("PRIVATE KEY-----") != std::string::npos;
}

bool EtcFinder::put(const fs::path& path, EtcCopy::Kind kind, std::string target) {
    if (copies_.size() >= base::k_max_etc_copies)
        return exceed(path, std::to_string(base::k_max_etc_copies) + " files, folders and links");
    copies_.emplace(path.string(), EtcCopy{kind, path.string(), std::move(target)});
    return true;
}

bool EtcFinder::exceed(const fs::path& path, const std::string& bound) {
    if (exceeded_.empty())
        exceeded_ = "with " + path.string() + " the copies of /etc would come to more than " + bound +
                    ", which is the most that sandboxes are shown";
    return false;
}

bool EtcFinder::add(const fs::path& path, int links) {
    if (links > k_most_links || !is_at_or_under(path, "/etc") || path == "/etc" || is_secret(path))
        return false;
    if (is_shown_whole(path) || copies_.contains(path.string()))
        return true;
    fs::path way = "/etc";
    std::error_code error;
    const fs::path below = path.lexically_relative("/etc");
    for (auto part = below.begin(); part != below.end(); ++part) {
        way /= *part;
        const auto status = fs::symlink_status(real(way), error);
        if (error || !fs::exists(status))
            return false;
        if (fs::is_symlink(status)) {
            fs::path rest;
            while (++part != below.end())
                rest /= *part;
            return add_link(way, rest, links);
        }
        if (way != path && !may_all(status, fs::perms::others_exec))
            return false;
    }
    return fs::is_directory(real(path), error) ? add_folder(path, links) : add_file(path);
}

// The target of a link is there if it is below /usr; any other target outside of /etc is not.
bool EtcFinder::add_link(const fs::path& link, const fs::path& rest, int links) {
    std::error_code error;
    const fs::path target = fs::read_symlink(real(link), error);
    if (error)
        return false;
    const fs::path end = (link.parent_path() / target).lexically_normal();
    const bool is_there =
        is_at_or_under(end, "/usr") || add(rest.empty() ? end : (end / rest).lexically_normal(), links + 1);
    return is_there && put(link, EtcCopy::Kind::link, target.string());
}

bool EtcFinder::add_folder(const fs::path& path, int links) {
    std::error_code error;
    if (!may_all(fs::status(real(path), error), fs::perms::others_read | fs::perms::others_exec) ||
        !put(path, EtcCopy::Kind::folder))
        return false;
    for (const auto& entry : fs::directory_iterator(real(path), error))
        add(path / entry.path().filename(), links);
    return true;
}

bool EtcFinder::add_file(const fs::path& path) {
    std::error_code error;
    const auto status = fs::status(real(path), error);
    if (error || !fs::is_regular_file(status) || !may_all(status, fs::perms::others_read))
        return false;
    const std::uint64_t size = fs::file_size(real(path), error);
    if (error || holds_private_key(path))
        return false;
    if (bytes_ + size > base::k_max_etc_bytes)
        return exceed(path, std::to_string(base::k_max_etc_bytes >> 20) + " MiB");
    bytes_ += size;
    return put(path, EtcCopy::Kind::file);
}

void EtcFinder::follow(const fs::path& link) {
    std::error_code error;
    const fs::path target = fs::read_symlink(real(link), error);
    if (!error)
        add((link.parent_path() / target).lexically_normal());
}

void EtcFinder::search(const fs::path& folder, int depth) {
    std::error_code error;
    std::vector<fs::path> folders;
    // The kinds come with the names: no entry is looked at by itself (readdir(3)).
    for (fs::directory_iterator at(real(folder), error), end; !error && at != end; at.increment(error)) {
        std::error_code gone;
        const fs::path path = folder / at->path().filename();
        if (at->is_symlink(gone))
            follow(path);
        else if (depth > 1 && at->is_directory(gone))
            folders.push_back(path);
    }
    for (const fs::path& below : folders) {
        const std::string name = below.lexically_relative("/usr").string();
        if (name != k_searched_whole && std::ranges::find(k_not_searched, name) == k_not_searched.end())
            search(below, depth - 1);
    }
}

void EtcFinder::search_usr() {
    search("/usr", k_search_depth);
    search(fs::path("/usr") / k_searched_whole, k_whole_depth);
    for (const char* name : k_well_known)
        add(fs::path("/etc") / name);
}

std::vector<EtcCopy> EtcFinder::found() const {
    std::vector<EtcCopy> all;
    for (const auto& [path, copy] : copies_)
        all.push_back(copy);
    return all;
}

}  // namespace

base::Result<std::vector<EtcCopy>> find_shown_etc(const std::vector<fs::path>& added,
                                                  const std::vector<std::string>& shown_whole,
                                                  const fs::path& root) {
    EtcFinder finder(shown_whole, root);
    // Theirs first: the bounds are for the others.
    for (const fs::path& wanted : added) {
        const fs::path path = wanted.lexically_normal();
        const bool is_below = is_at_or_under(path, "/etc") && path != "/etc" && path != "/etc/";
        const bool is_added = is_below && finder.add(path);
        if (!finder.exceeded().empty())
            return base::Error(base::Errc::invalid_field,
                               "--show-etc " + wanted.string() + ": " + finder.exceeded());
        if (!is_added)
            return base::Error(
                base::Errc::invalid_field,
                "--show-etc " + wanted.string() +
                    (is_below ? ": it is not there, not readable for everyone, or can hold secrets, "
                                "and cannot be shown"
                              : ": only what lies below /etc can be shown so"));
    }
    finder.search_usr();
    if (!finder.exceeded().empty())
        base::LogLine(base::evt::etc_cut).quoted("err", finder.exceeded()).warn();
    return finder.found();
}

}  // namespace atl::isolation
