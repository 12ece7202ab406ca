#include "core/isolation/etc_template.hpp"

#include <fstream>
#include <string>

#include "core/base/limits.hpp"
#include "core/isolation/profile.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

struct EtcFile {
    const char* name;
    std::string text;
};

std::vector<EtcFile> generated_files() {
    const std::string user = k_inner_user;
    const std::string uid = std::to_string(base::k_inner_uid);
    return {
        {"passwd", "root:x:0:0:root:/:/usr/sbin/nologin\n" + user + ":x:" + uid + ":" + uid + ":" + user +
                       ":" + k_inner_workspace +
                       ":/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
        {"group", "root:x:0:\n" + user + ":x:" + uid + ":\nnogroup:x:65534:\n"},
        {"hosts", std::string("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 ") +
                      k_inner_hostname + "\n"},
        {"hostname", std::string(k_inner_hostname) + "\n"},
        {"nsswitch.conf",
         "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
         "protocols: files\nservices: files\n"},
        // An empty resolv.conf means the resolver on the loopback (resolv.conf(5)), which refuses at once.
        {"resolv.conf", ""},
    };
}

// A change becomes visible whole or not at all: a running sandbox keeps the file it was started with.
void write_file(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    const fs::path fresh = path.string() + ".new";
    std::ofstream out;
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out.open(fresh, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    fs::permissions(fresh, fs::perms(0644));
    fs::rename(fresh, path);
}

void open_folders_to_all(const fs::path& folder) {
    fs::permissions(folder, fs::perms(0755));
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_directory() && !entry.is_symlink())
            fs::permissions(entry.path(), fs::perms(0755));
    }
}

fs::path below(const fs::path& folder, const std::string& etc_path) {
    return folder / fs::path(etc_path).lexically_relative("/etc");
}

void write_copy(const fs::path& folder, const EtcCopy& copy) {
    const fs::path path = below(folder, copy.path);
    if (copy.kind == EtcCopy::Kind::folder) {
        fs::create_directories(path);
        return;
    }
    fs::create_directories(path.parent_path());
    if (copy.kind == EtcCopy::Kind::link) {
        fs::create_symlink(copy.target, path);
        return;
    }
    // A file that has gone since it was found is left out.
    std::error_code gone;
    if (fs::copy_file(copy.path, path, gone))
        fs::permissions(path,
                        fs::perms(0644) | (fs::status(copy.path, gone).permissions() & fs::perms(0111)));
}

}  // namespace

base::Result<void> write_etc(const fs::path& folder, const HostLayout& layout) {
    try {
        fs::create_directories(folder);
        // Copies that are no longer shown must not stay.
        for (const auto& old : fs::directory_iterator(folder))
            fs::remove_all(old.path());
        for (const auto& copy : layout.etc_copies)
            write_copy(folder, copy);
        for (const auto& file : generated_files())
            write_file(folder / file.name, file.text);
        for (const auto& path : layout.etc_folders)
            fs::create_directories(below(folder, path));
        for (const auto& path : layout.etc_files) {
            if (!fs::exists(below(folder, path)))
                write_file(below(folder, path), "");
        }
        open_folders_to_all(folder);
    } catch (const std::exception& error) {
        return base::Error(base::Errc::storage_failed,
                           "cannot write the sandboxes' /etc to " + folder.string() + ": " + error.what());
    }
    return {};
}

base::Result<void> make_masks(const fs::path& folder) {
    try {
        fs::create_directories(folder / k_empty_folder);
        write_file(folder / k_empty_file, "");
        open_folders_to_all(folder);
    } catch (const std::exception& error) {
        return base::Error(base::Errc::storage_failed,
                           "cannot make what masks /proc in " + folder.string() + ": " + error.what());
    }
    return {};
}

}  // namespace atl::isolation
