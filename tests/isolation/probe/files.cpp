// Reading, writing and replacing by path, and device nodes.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr mode_t k_mode = 0600;

/// Reads the first byte of a file or the first entry of a folder.
long read_something(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat about {};
    if (fd < 0 || ::fstat(fd, &about) != 0)
        return -1;
    if (S_ISDIR(about.st_mode)) {
        DIR* folder = ::fdopendir(fd);
        errno = 0;
        return folder != nullptr && (::readdir(folder) != nullptr || errno == 0) ? 0 : -1;
    }
    char byte = 0;
    const ssize_t count = ::read(fd, &byte, 1);
    ::close(fd);
    return count;
}

void read_paths(const Arguments& paths) {
    for (const auto& path : paths)
        tell(path, read_something(path));
}

/// Makes a file in a folder and removes it; opens a file for writing and leaves it as it is.
long write_something(const std::string& path) {
    struct stat about {};
    if (::stat(path.c_str(), &about) != 0)
        return -1;
    const std::string fresh = path + "/atoll-probe-written";
    const bool is_folder = S_ISDIR(about.st_mode);
    const int fd = is_folder ? ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL, k_mode)
                             : ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    ::close(fd);
    return is_folder ? ::unlink(fresh.c_str()) : 0;
}

void write_paths(const Arguments& paths) {
    for (const auto& path : paths)
        tell(path, write_something(path));
}

/// Writes TEXT to PATH in one write, as /proc wants it: put TEXT PATH...
void put_text(const Arguments& words) {
    for (std::size_t at = 1; at < words.size(); ++at) {
        const int fd = ::open(words[at].c_str(), O_WRONLY);
        tell(words[at], fd < 0 ? -1 : ::write(fd, words[0].data(), words[0].size()));
        ::close(fd);
    }
}

/// Every way to put another file at PATH. Each attempt runs, also after others have succeeded or failed.
void replace(const Arguments& words) {
    const std::string& path = words.at(0);
    const std::string folder = std::filesystem::path(path).parent_path();
    const std::string link = path + ".link";
    const std::string elsewhere = "/tmp/atoll-probe-link";
    tell("link-beside", ::symlink("/tmp/other", link.c_str()));
    tell("rename-beside-over", ::rename(link.c_str(), path.c_str()));
    ::unlink(elsewhere.c_str());
    if (::symlink("/tmp/other", elsewhere.c_str()) != 0)
        give_up("cannot make a link in /tmp");
    tell("rename-over", ::rename(elsewhere.c_str(), path.c_str()));
    tell("hard-link-over", ::link(elsewhere.c_str(), path.c_str()));
    tell("move-away", ::rename(path.c_str(), "/tmp/atoll-probe-moved"));
    tell("unlink", ::unlink(path.c_str()));
    tell("chmod", ::chmod(path.c_str(), 0777));
    tell("move-folder", ::rename(folder.c_str(), (folder + ".moved").c_str()));
    tell("remove-folder", ::rmdir(folder.c_str()));
}

/// devices FOLDER
void devices(const Arguments& words) {
    const std::string path = words.at(0) + "/atoll-probe-node";
    const auto attempt = [&](const char* name, mode_t type, dev_t device) {
        ::unlink(path.c_str());
        tell(name, ::mknod(path.c_str(), type | k_mode, device));
        ::unlink(path.c_str());
    };
    attempt("fifo", S_IFIFO, 0);
    attempt("null", S_IFCHR, ::makedev(1, 3));
    attempt("mem", S_IFCHR, ::makedev(1, 1));
    attempt("disk", S_IFBLK, ::makedev(8, 0));
    attempt("loop", S_IFBLK, ::makedev(7, 0));
}

}  // namespace

std::span<const Command> file_commands() {
    static constexpr Command k_commands[] = {{"read", read_paths},
                                             {"write", write_paths},
                                             {"put", put_text},
                                             {"replace", replace},
                                             {"devices", devices}};
    return k_commands;
}

}  // namespace atl::probe
