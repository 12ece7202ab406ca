// Reading a directory of any size, without following a link; telling inodes apart.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <memory>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

struct CloseFolder {
    void operator()(DIR* stream) const { closedir(stream); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// Takes over `fd`, which is open for reading. Null, and errno.
inline Folder read_folder(base::UniqueFd fd) {
    Folder folder(fd ? fdopendir(fd.get()) : nullptr);
    if (folder)
        static_cast<void>(fd.release());
    return folder;
}

/// The directory `name` in `parent`, never through a link. Null, and errno.
inline Folder open_folder(int parent, const char* name) {
    return read_folder(base::UniqueFd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
}

/// The next name but "." and ".."; null at the end.
inline const char* next_name(DIR* folder) {
    for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return entry->d_name;
    return nullptr;
}

/// True if both tell of the same inode, by whatever names.
inline bool is_same_file(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace atl::guest
