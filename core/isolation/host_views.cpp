#include "core/isolation/host_views.hpp"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>

#include "core/isolation/etc_template.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

// Names that do not occur in the other layer, the guest's folder.
constexpr const char* k_own_etc = ".atoll-etc";
constexpr const char* k_own_dev = ".atoll-dev";
constexpr const char* k_own_masks = ".atoll-masks";

struct Device {
    const char* name;
    unsigned major;
    unsigned minor;
};
// The numbers are those of the kernel's admin-guide/devices.txt.
constexpr Device k_devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                                {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
constexpr const char* k_dev_links[][2] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
                                          {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
                                          {"core", "/proc/kcore"},       {"ptmx", "pts/ptmx"}};

bool is_below(const fs::path& path, const fs::path& folder) {
    const auto [path_end, folder_end] = std::ranges::mismatch(path, folder);
    return folder_end == folder.end() && path_end != path.end();
}

/// Escapes `path` for the options of overlayfs.
std::string escaped(const fs::path& path) {
    std::string out;
    for (const char c : path.string()) {
        if (c == ':' || c == ',' || c == '\\')
            out += '\\';
        out += c;
    }
    return out;
}

/// Empty, or why the kernel does not mount it.
std::string attempt(const StagedMount& mount) {
    if (::mount("atoll", mount.target.c_str(), "overlay", MS_RDONLY | MS_NOSUID, mount.options.c_str()) != 0)
        return std::strerror(errno);
    ::umount2(mount.target.c_str(), MNT_DETACH);
    return {};
}

void make_view_folder(const fs::path& path) {
    fs::create_directory(path);
    fs::permissions(path, fs::perms(0755));
}

// Sets the mode of all folders: it must not depend on the umask or on the copied files.
void open_folders(const fs::path& path) {
    fs::permissions(path, fs::perms(0755));
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
        if (entry.is_directory() && !entry.is_symlink())
            fs::permissions(entry.path(), fs::perms(0755));
    }
}

// False in a user namespace, where mknod(2) cannot make devices.
bool make_devices(const fs::path& dev) {
    make_view_folder(dev);
    make_view_folder(dev / "pts");
    make_view_folder(dev / "shm");
    for (const auto& [name, target] : k_dev_links)
        fs::create_symlink(target, dev / name);
    return std::ranges::all_of(k_devices, [&](const Device& device) {
        const fs::path node = dev / device.name;
        return ::mknod(node.c_str(), S_IFCHR | 0666, makedev(device.major, device.minor)) == 0 &&
               ::chmod(node.c_str(), 0666) == 0;
    });
}

class Maker {
  public:
    Maker(const fs::path& dir, const HostViewSources& sources)
        : sources_(sources), root_(dir / "host"), own_(dir / "own"), empty_(dir / "empty") {}

    HostViews make() {
        for (const fs::path& folder : {root_, own_, empty_, own_ / "layer", own_ / "view"})
            make_view_folder(folder);
        if (!add_own())
            return std::move(made_);
        for (const fs::path& folder : sources_.folders)
            add_folder(folder);
        add_etc();
        made_.root = root_;
        made_.empty = empty_;
        for (const fs::path& agent : sources_.agents)
            try_agent(agent);
        return std::move(made_);
    }

  private:
    /// The guest, the generated /etc, the masks and the devices, in one view of two layers.
    bool add_own() {
        const fs::path layer = own_ / "layer";
        const fs::path view = own_ / "view";
        fs::copy(sources_.etc, layer / k_own_etc,
                 fs::copy_options::recursive | fs::copy_options::copy_symlinks);
        open_folders(layer / k_own_etc);
        make_masks(layer / k_own_masks).value();
        const bool has_devices = make_devices(layer / k_own_dev);
        StagedMount own{StagedKind::view, sources_.guest.parent_path(), view,
                        "lowerdir=" + escaped(layer) + ":" + escaped(sources_.guest.parent_path())};
        if (const std::string why = attempt(own); !why.empty()) {
            made_.refused["/usr"] = why;
            return false;
        }
        made_.mounts.push_back(std::move(own));
        made_.guest = view / sources_.guest.filename();
        made_.etc = view / k_own_etc;
        made_.masks = view / k_own_masks;
        if (has_devices)
            made_.dev = view / k_own_dev;
        else
            made_.refused["/dev"] = "nobody may make device nodes in a user namespace";
        if (std::ranges::find(sources_.mount_points, sources_.guest) != sources_.mount_points.end())
            made_.mounts.push_back({StagedKind::bind, sources_.guest, made_.guest, {}});
        return true;
    }

    void add_folder(const fs::path& folder) {
        const fs::path target = root_ / folder.relative_path();
        fs::create_directories(target);
        add_view(folder, target);
        add_mounts_below(folder, [](const fs::path&) { return true; });
    }

    void add_etc() {
        make_view_folder(root_ / "etc");
        add_view("/etc", root_ / "etc");
        add_mounts_below("/etc", [this](const fs::path& point) {
            return std::ranges::any_of(sources_.etc_parts, [&](const fs::path& part) {
                return point == part || is_below(point, part);
            });
        });
    }

    template <class Wanted>
    void add_mounts_below(const fs::path& folder, const Wanted& is_wanted) {
        // Sorted, so that a mount comes before the mounts inside it. Each mount point comes once, since only
        // the last mount on it is visible.
        const std::set<fs::path> points(sources_.mount_points.begin(), sources_.mount_points.end());
        for (const fs::path& point : points) {
            std::error_code gone;
            if (!is_below(point, folder) || !is_wanted(point))
                continue;
            const fs::path target = root_ / point.relative_path();
            if (fs::is_directory(point, gone))
                add_view(point, target);
            else
                made_.mounts.push_back({StagedKind::bind, point, target, {}});
        }
    }

    void add_view(const fs::path& source, const fs::path& target) {
        StagedMount view = view_of(source, target, empty_);
        // The mount point of a nested view only appears with the view around it, so the trial uses another
        // place.
        StagedMount trial = view;
        trial.target = own_ / "view";
        if (const std::string why = attempt(trial); !why.empty()) {
            made_.refused[source] = why;
            view = {bind_kind(source), source, target, {}};
        }
        made_.mounts.push_back(std::move(view));
    }

    StagedKind bind_kind(const fs::path& source) const {
        const fs::path trial = own_ / "view";
        const bool parts = ::mount(source.c_str(), trial.c_str(), nullptr, MS_BIND, nullptr) == 0;
        if (parts)
            ::umount2(trial.c_str(), MNT_DETACH);
        return parts ? StagedKind::bind : StagedKind::tree;
    }

    void try_agent(const fs::path& agent) {
        std::error_code error;
        if (!fs::is_directory(agent, error))
            return;
        if (const std::string why = attempt(view_of(agent, own_ / "view", empty_)); !why.empty())
            made_.refused[agent] = why;
    }

    const HostViewSources& sources_;
    fs::path root_;
    fs::path own_;
    fs::path empty_;
    HostViews made_;
};

}  // namespace

StagedMount view_of(const fs::path& source, const fs::path& target, const fs::path& below) {
    return {StagedKind::view, source, target, "lowerdir=" + escaped(source) + ":" + escaped(below)};
}

base::Result<HostViews> make_host_views(const fs::path& dir, const HostViewSources& sources) {
    try {
        return Maker(dir, sources).make();
    } catch (const std::exception& error) {
        return base::Error(base::Errc::host_unsupported,
                           "the places for views of the host's files: " + std::string(error.what()));
    }
}

}  // namespace atl::isolation
