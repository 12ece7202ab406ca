// Room on a disk that no walk over a folder finds: in deleted files that are open, mapped or in flight, and
// in a folder that is moved out of a walk's way.
#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/isolation/redteam/attacks/attack.hpp"

namespace atl::attack {
namespace {

constexpr std::uint64_t k_mb = 1024UL * 1024;
constexpr std::uint64_t k_file_mb = 4;

std::string folder_of(const Options& options) {
    return options.words.empty() ? "." : options.words.front();
}

/// True if all bytes were written.
bool write_file(int fd) {
    static const std::array<char, k_mb> full = [] {
        std::array<char, k_mb> made{};
        made.fill('x');
        return made;
    }();
    for (std::uint64_t at = 0; at < k_file_mb; ++at) {
        if (::write(fd, full.data(), full.size()) != static_cast<ssize_t>(full.size()))
            return false;
    }
    return true;
}

/// A deleted file that is full, or -1 with errno set.
int deleted_file(const std::string& folder, std::uint64_t number) {
    const std::string name = folder + "/" + std::to_string(::getpid()) + "-" + std::to_string(number);
    const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ::unlink(name.c_str()) != 0)
        return -1;
    return write_file(fd) ? fd : -1;
}

/// Calls `keep` with one deleted file after another until --max-mb are written, or it or the disk refuses.
template <typename Keep>
void fill_disk(const Options& options, const Keep& keep) {
    std::uint64_t mb = 0;
    while (mb + k_file_mb <= options.max_mb && !is_late()) {
        const int fd = deleted_file(folder_of(options), mb);
        if (fd < 0 || !keep(fd)) {
            refused("mb");
            break;
        }
        mb += k_file_mb;
    }
    taken("mb", mb);
    hold();
}

void deleted_files(const Options& options) {
    fill_disk(options, [](int) { return true; });
}

void deleted_mappings(const Options& options) {
    fill_disk(options, [](int fd) {
        const bool mapped = ::mmap(nullptr, k_file_mb * k_mb, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
        ::close(fd);
        return mapped;
    });
}

bool send_descriptor(int socket, int fd) {
    char byte = 'x';
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    const bool sent = ::sendmsg(socket, &message, MSG_DONTWAIT) == 1;
    ::close(fd);
    return sent;
}

void files_in_flight(const Options& options) {
    std::array<int, 2> ends{};
    int sent = 0;
    fill_disk(options, [&](int fd) {
        // A queue holds a few hundred messages.
        if (sent++ % 100 == 0 && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
            return false;
        return send_descriptor(ends[0], fd);
    });
}

/// A rule of Landlock keeps the inode of its file, without a descriptor and without a mapping.
void landlock_rules(const Options& options) {
    landlock_ruleset_attr asked{};
    asked.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE;
    const long rules = ::syscall(SYS_landlock_create_ruleset, &asked, sizeof asked.handled_access_fs, 0);
    if (rules < 0) {
        refused("rules");
        taken("mb", 0);
        hold();
        return;
    }
    fill_disk(options, [&](int fd) {
        landlock_path_beneath_attr rule{};
        rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
        rule.parent_fd = fd;
        const bool kept = ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
        ::close(fd);
        return kept;
    });
}

/// A shell game against a walk: two folders with many entries each, so that a walk takes a while in each. A
/// third folder always lies in the side that the walk has not reached yet.
class Shell {
  public:
    explicit Shell(const std::string& root) : root_(root), notify_(::inotify_init1(IN_CLOEXEC)) {
        for (std::size_t side = 0; side < k_sides.size(); ++side) {
            make(at(side));
            for (int i = 0; i < k_padding; ++i)
                make(at(side) + "/pad" + std::to_string(i));
            watches_[side] = ::inotify_add_watch(notify_, at(side).c_str(), IN_OPEN | IN_ISDIR);
            if (watches_[side] < 0)
                give_up("no inotify");
        }
        make(pea());
    }

    std::string pea() const { return at(holder_) + "/pea"; }

    /// Moves the pea for as long as it is let.
    void play() {
        alignas(inotify_event) static std::array<char, 64 * 1024> buffer;
        while (!is_late()) {
            pollfd ready{notify_, POLLIN, 0};
            if (::poll(&ready, 1, 50) != 1) {
                first_ = k_none;  // the walk is over
                continue;
            }
            const ssize_t count = ::read(notify_, buffer.data(), buffer.size());
            for (ssize_t read = 0; read < count;) {
                const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + read);
                see(event->wd == watches_[0] ? 0 : 1, event->len > 0 && event->name[0] == 'p');
                read += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
            }
        }
    }

  private:
    static constexpr std::array k_sides{"a", "b"};
    static constexpr std::size_t k_none = 2;
    static constexpr int k_padding = 300;

    std::string at(std::size_t side) const { return root_ + "/" + k_sides[side]; }
    static void make(const std::string& path) {
        if (::mkdir(path.c_str(), 0700) != 0)
            give_up("mkdir " + path + ": " + std::strerror(errno));
    }
    /// Something below a side was opened: that side has been read.
    void see(std::size_t side, bool is_below) {
        if (!is_below)
            return;
        if (first_ == k_none)
            first_ = side;
        // Moves it into the side that was read first and out of the side that is read next; and back for the
        // next walk.
        const std::size_t wanted = side == first_ ? side : 1 - first_;
        if (wanted == holder_)
            return;
        const std::string from = pea();
        holder_ = wanted;
        if (::rename(from.c_str(), pea().c_str()) == 0)
            ++moves_;
    }

    std::string root_;
    int notify_;
    std::array<int, 2> watches_{};
    std::size_t holder_ = 0;
    std::size_t first_ = k_none;
    std::uint64_t moves_ = 0;
};

void moved_around(const Options& options) {
    const std::string root = folder_of(options) + "/shell";
    if (::mkdir(root.c_str(), 0700) != 0)
        give_up("mkdir " + root);
    Shell shell(root);
    const int pea = ::open(shell.pea().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (child([&] { shell.play(); }) < 0)
        give_up("no child");
    std::uint64_t mb = 0;
    while (mb + k_file_mb <= options.max_mb && !is_late()) {
        const int fd = ::openat(pea, std::to_string(mb).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || !write_file(fd)) {
            refused("mb");
            break;
        }
        ::close(fd);
        mb += k_file_mb;
    }
    taken("mb", mb);
    hold();
}

/// Names of files without a byte: links, of which a file has at most 65,000 (ext4).
void many_names(const Options& options) {
    constexpr std::uint64_t k_names_a_file = 60'000;
    const int folder = ::open(folder_of(options).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::string file;
    std::uint64_t names = 0;
    while (names < options.max_count && !is_late()) {
        const std::string name = "n" + std::to_string(names);
        const bool is_file = names % k_names_a_file == 0;
        const int made = is_file ? ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
                                 : ::linkat(folder, file.c_str(), folder, name.c_str(), 0);
        if (made < 0) {
            refused("names");
            break;
        }
        if (is_file) {
            ::close(made);
            file = name;
        }
        ++names;
    }
    taken("names", names);
    hold();
}

/// A chain of folders, each in the one before: as many blocks as folders, and no file.
void deep_folders(const Options& options) {
    int at = ::open(folder_of(options).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::uint64_t folders = 0;
    while (folders < options.max_count && !is_late()) {
        const bool made = ::mkdirat(at, "d", 0700) == 0;
        const int next = made ? ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (next < 0) {
            refused("folders");
            break;
        }
        ::close(at);
        at = next;
        ++folders;
    }
    taken("folders", folders);
    hold();
}

const Registration k_disk{
    {"deleted-files", "[FOLDER]; --max-mb in files that are open and deleted", deleted_files},
    {"deleted-mappings", "[FOLDER]; --max-mb in files that are mapped and deleted", deleted_mappings},
    {"landlock-rules", "[FOLDER]; --max-mb in deleted files that rules of Landlock keep", landlock_rules},
    {"files-in-flight", "[FOLDER]; --max-mb in deleted files whose descriptors wait in a socket",
     files_in_flight},
    {"many-names", "[FOLDER]; --max-count names of empty files", many_names},
    {"deep-folders", "[FOLDER]; --max-count folders, each in the one before", deep_folders},
    {"moved-around", "[FOLDER]; --max-mb in a folder that is moved around a walk", moved_around}};

}  // namespace
}  // namespace atl::attack
