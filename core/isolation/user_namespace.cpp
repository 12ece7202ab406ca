#include "core/isolation/user_namespace.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/fix.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/isolation/program_output.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t k_all_ids = 4'294'967'295;  // user_namespaces(7): all but the last
constexpr std::uint32_t k_host_uids = base::k_host_uids_per_block * base::k_host_uid_blocks;

base::Error namespace_unsupported(std::string why) {
    return base::Error(base::Errc::host_unsupported, std::move(why));
}

/// For a program of the package that cannot be run.
std::string uidmap_hint() {
    return " (package uidmap)" + root_fix_line("apt-get install uidmap");
}

/// A range of subuid(5) or subgid(5).
struct IdRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

std::string user_name() {
    const passwd* const user = ::getpwuid(::getuid());
    return user != nullptr ? user->pw_name : std::to_string(::getuid());
}

enum class IdKind : std::uint8_t { user, group };

/// The ranges of this user. A line of getsubids(1) is `0: USER FIRST COUNT`.
base::Result<std::vector<IdRange>> find_ranges(const fs::path& getsubids, IdKind kind) {
    const std::string name = user_name();
    auto listed = run_program(getsubids,
                              kind == IdKind::user ? std::vector{name} : std::vector<std::string>{"-g", name},
                              uidmap_hint());
    if (!listed)
        return listed.error();
    std::vector<IdRange> ranges;
    std::istringstream lines(listed->text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string number;
        std::string user;
        IdRange range;
        if (fields >> number >> user >> range.first >> range.count)
            ranges.push_back(range);
    }
    return ranges;
}

const char* file_of(IdKind kind) {
    return kind == IdKind::user ? "/etc/subuid" : "/etc/subgid";
}

/// The largest range, if it is large enough.
base::Result<IdRange> choose(const std::vector<IdRange>& ranges, IdKind kind) {
    const auto largest = std::ranges::max_element(ranges, {}, &IdRange::count);
    // A block of leases and one more id, for the trial sandbox.
    if (largest != ranges.end() && largest->count > base::k_host_uids_per_block)
        return *largest;
    const std::string name = user_name();
    return namespace_unsupported(
        "user " + name + " has no range of more than " + std::to_string(base::k_host_uids_per_block) +
        " ids in " + file_of(kind) +
        root_fix_line("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + name));
}

base::Result<void> check_has(const std::vector<IdRange>& ranges, std::uint32_t first, std::uint32_t count,
                             IdKind kind) {
    const auto holds = [&](const IdRange& range) {
        return range.first <= first &&
               std::uint64_t{first} + count <= std::uint64_t{range.first} + range.count;
    };
    if (std::ranges::any_of(ranges, holds))
        return {};
    return namespace_unsupported("the workspaces have ids " + std::to_string(first) + " to " +
                                 std::to_string(std::uint64_t{first} + count - 1) + ", which " +
                                 file_of(kind) + " does not give to user " + user_name() +
                                 " any more: give them back");
}

base::Result<SubordinateIds> find_ids(const fs::path& getsubids,
                                      const std::optional<SubordinateIds>& wanted) {
    const auto uids = find_ranges(getsubids, IdKind::user);
    if (!uids)
        return uids.error();
    const auto gids = find_ranges(getsubids, IdKind::group);
    if (!gids)
        return gids.error();
    if (wanted) {
        if (auto has = check_has(*uids, wanted->first_uid, wanted->count + 1, IdKind::user); !has)
            return has.error();
        if (auto has = check_has(*gids, wanted->first_gid, wanted->count + 1, IdKind::group); !has)
            return has.error();
        return *wanted;
    }
    const auto uid_range = choose(*uids, IdKind::user);
    if (!uid_range)
        return uid_range.error();
    const auto gid_range = choose(*gids, IdKind::group);
    if (!gid_range)
        return gid_range.error();
    return SubordinateIds{uid_range->first, gid_range->first,
                          std::min({uid_range->count - 1, gid_range->count - 1, k_host_uids})};
}

/// The arguments of newuidmap(1) and newgidmap(1): the own id, the ids of sandboxes, the id of the probe.
std::vector<std::string> map_of(std::uint32_t own, std::uint32_t first, std::uint32_t count) {
    std::vector<std::string> words;
    const auto add = [&](std::uint32_t inside, std::uint32_t outside, std::uint32_t length) {
        for (const std::uint32_t number : {inside, outside, length})
            words.push_back(std::to_string(number));
    };
    add(0, own, 1);
    add(base::k_first_host_uid, first, count);
    add(probe_uid(), first + count, 1);
    return words;
}

/// A child in a new user namespace, which it keeps alive until it is ended.
class NamespaceChild {
  public:
    static base::Result<NamespaceChild> start() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
            return namespace_unsupported(base::errno_text("socketpair", errno));
        base::UniqueFd ours(ends[0]);
        const base::UniqueFd theirs(ends[1]);
        const pid_t pid = ::fork();
        if (pid < 0)
            return namespace_unsupported(base::errno_text("fork", errno));
        if (pid == 0) {
            ours.reset();
            live(theirs.get());
        }
        return NamespaceChild(pid, std::move(ours));
    }
    NamespaceChild(NamespaceChild&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}
    NamespaceChild(const NamespaceChild&) = delete;
    NamespaceChild& operator=(const NamespaceChild&) = delete;
    NamespaceChild& operator=(NamespaceChild&&) = delete;
    ~NamespaceChild() {
        if (pid_ < 0)
            return;
        ::kill(pid_, SIGKILL);
        while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    pid_t pid() const noexcept { return pid_; }
    /// The error number of its next step; it waits for a word before each but the first.
    int result() const {
        int error_number = ECHILD;
        return ::recv(socket_.get(), &error_number, sizeof error_number, 0) == sizeof error_number
                   ? error_number
                   : ECHILD;
    }
    void go_on() const { ::send(socket_.get(), "", 1, MSG_NOSIGNAL); }

  private:
    NamespaceChild(pid_t pid, base::UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

    // Ends when the other end of the socket is closed, however the parent ended.
    [[noreturn]] static void live(int socket) {
        say(socket, ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
        if (was_told(socket))
            say(socket, try_rights());
        was_told(socket);
        ::_exit(0);
    }
    static void say(int socket, int error_number) {
        ::send(socket, &error_number, sizeof error_number, MSG_NOSIGNAL);
    }
    static bool was_told(int socket) {
        char word = 0;
        return ::recv(socket, &word, 1, 0) == 1;
    }
    // Tries the operations of a launch. On some systems AppArmor lets a program make a namespace but denies
    // all rights in it.
    static int try_rights() {
        const auto id = static_cast<unsigned>(probe_uid());
        if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
            ::mount("atoll", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0 ||
            ::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, id, id, id) != 0 ||
            ::syscall(SYS_setresuid, id, id, id) != 0)
            return errno;
        return 0;
    }

    pid_t pid_;
    base::UniqueFd socket_;
};

base::Result<void> write_map(const fs::path& program, pid_t pid, std::vector<std::string> map) {
    map.insert(map.begin(), std::to_string(pid));
    auto done = run_program(program, map, uidmap_hint());
    if (!done)
        return done.error();
    if (done->exit_code != 0)
        return namespace_unsupported(program.string() + " failed: " + base::escaped(done->text));
    return {};
}

struct MapLine {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 0;
};

std::vector<MapLine> read_map(const fs::path& path) {
    std::ifstream in(path);
    std::vector<MapLine> lines;
    for (MapLine line; in >> line.inside >> line.outside >> line.count;)
        lines.push_back(line);
    return lines;
}

}  // namespace

std::string root_fix_line(const std::string& command) {
    return base::fix_line((::geteuid() == 0 && !is_in_user_namespace() ? "" : "sudo ") + command);
}

std::uint32_t probe_uid() noexcept {
    return base::k_first_host_uid + k_host_uids;
}

base::Result<SubordinateIds> find_subordinate_ids(const std::optional<SubordinateIds>& wanted,
                                                  const UidmapPrograms& programs) {
    return find_ids(programs.getsubids, wanted);
}

base::Result<SubordinateIds> enter_user_namespace(const std::optional<SubordinateIds>& wanted,
                                                  const UidmapPrograms& programs) {
    const auto ids = find_ids(programs.getsubids, wanted);
    if (!ids)
        return ids.error();
    auto child = NamespaceChild::start();
    if (!child)
        return child.error();
    if (const int refused = child->result(); refused != 0)
        return namespace_unsupported(base::errno_text("a user namespace", refused));
    if (auto mapped =
            write_map(programs.newuidmap, child->pid(), map_of(::getuid(), ids->first_uid, ids->count));
        !mapped)
        return mapped.error();
    if (auto mapped =
            write_map(programs.newgidmap, child->pid(), map_of(::getgid(), ids->first_gid, ids->count));
        !mapped)
        return mapped.error();
    // Before the child changes its uid: then it would be out of reach (ptrace(2), "dumpable").
    const std::string path = "/proc/" + std::to_string(child->pid()) + "/ns/user";
    const base::UniqueFd made(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!made)
        return namespace_unsupported(base::errno_text("open " + path, errno));
    child->go_on();
    if (const int refused = child->result(); refused != 0)
        return namespace_unsupported(
            base::errno_text("mounting and changing uids in a user namespace", refused));
    if (::setns(made.get(), CLONE_NEWUSER) != 0)
        return namespace_unsupported(base::errno_text("entering a user namespace", errno));
    // The new mount namespace belongs to the user namespace: a process may not return to a mount namespace of
    // the host (setns(2)).
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0)
        return base::Error(base::Errc::internal,
                           base::errno_text("a mount namespace in the new user namespace", errno));
    return *ids;
}

bool is_in_user_namespace(const fs::path& uid_map) {
    const auto lines = read_map(uid_map);
    return lines.size() != 1 || lines.front().count != k_all_ids;
}

std::uint32_t mapped_host_uids(const fs::path& uid_map) {
    std::uint64_t end = base::k_first_host_uid;
    for (const MapLine& line : read_map(uid_map)) {
        if (line.inside <= end)
            end = std::max(end, std::uint64_t{line.inside} + line.count);
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(end - base::k_first_host_uid, k_host_uids));
}

}  // namespace atl::isolation
