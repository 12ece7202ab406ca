#include "tests/support/server_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "core/base/pidfd.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/paths.hpp"

namespace atl::test {
namespace fs = std::filesystem;
using base::UniqueFd;
using Clock = std::chrono::steady_clock;

namespace {

std::string read_file(const fs::path& path) {
    std::ifstream stream(path);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

struct Child {
    pid_t pid;
    UniqueFd pidfd;
    UniqueFd output;
};

/// Where ATOLL_TEST_DELEGATED names a part of the cgroup v2 hierarchy that this user may write to: opens
/// `cgroup.procs` of a new group in it, for a server to have to itself as systemd-run(1) gives it a scope.
UniqueFd open_group_of_its_own(fs::path& group) {
    const char* const part = std::getenv("ATOLL_TEST_DELEGATED");
    if (part == nullptr)
        return {};
    static int last = 0;
    group = fs::path(part) / ("server-" + std::to_string(::getpid()) + "-" + std::to_string(++last));
    fs::create_directory(group);
    return UniqueFd(::open((group / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

/// An /etc that names the user of rootless servers and gives it subordinate ids (subuid(5)), laid over the
/// host's in the mount namespace of one server: newuidmap(1) reads nothing else.
class SubordinateIds {
  public:
    SubordinateIds() {
        const std::string id = std::to_string(k_rootless_uid);
        const std::string range = "atoll-test:" + std::to_string(k_first_subordinate_id) + ":65536\n";
        std::ofstream(folder_.path() / "passwd")
            << read_file("/etc/passwd") + "atoll-test:x:" + id + ":" + id + "::/:/bin/false\n";
        for (const char* name : {"subuid", "subgid"})
            std::ofstream(folder_.path() / name) << range;
        options_ = "lowerdir=" + folder_.path().string() + ":/etc";
    }
    /// In a child, as root.
    bool lay() const {
        return ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
               ::mount("etc", "/etc", "overlay", MS_RDONLY, options_.c_str()) == 0;
    }

  private:
    TempDir folder_;
    std::string options_;
};

/// Forks and execs; stdout goes to the returned pipe, stderr to `log` (or the pipe as well, if empty).
/// The variable ATOLL_TEST_DESCRIPTORS of a server holds it to so many descriptors. In the child, since a
/// hard limit that this process lowers could not be raised again without CAP_SYS_RESOURCE (getrlimit(2)).
void limit_descriptors(const std::vector<std::string>& environment) {
    constexpr std::string_view name = "ATOLL_TEST_DESCRIPTORS=";
    for (const auto& entry : environment) {
        if (!entry.starts_with(name))
            continue;
        const rlim_t count = std::strtoul(entry.c_str() + name.size(), nullptr, 10);
        const rlimit few{count, count};
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0)
            ::_exit(125);
    }
}

/// A file system in memory that one server has for itself, in a mount namespace of its own.
struct OwnDisk {
    std::string folder;
    std::string options;

    /// In a child, as root.
    bool mount() const {
        return ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
               ::mount("disk", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
};

Child spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            const fs::path& log, Privilege privilege, int log_pipe = -1,
            const std::optional<OwnDisk>& disk = std::nullopt) {
    std::vector<char*> argv;
    for (const auto& argument : command)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (const auto& entry : environment)
        envp.push_back(const_cast<char*>(entry.c_str()));
    envp.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("pipe2");
    const int log_fd = log_pipe >= 0 ? ::dup(log_pipe)
                       : log.empty() ? ::dup(ends[1])
                                     : ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    static std::optional<SubordinateIds> ids;
    if (privilege == Privilege::subordinate && !ids)
        ids.emplace();
    fs::path group;
    const UniqueFd join = open_group_of_its_own(group);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        limit_descriptors(environment);
        if (join && ::write(join.get(), "0", 1) != 1)
            ::_exit(125);
        ::dup2(ends[1], 1);
        ::dup2(log_fd, 2);
        ::close(0);
        ::open("/dev/null", O_RDONLY);
        ::syscall(SYS_close_range, 3U, ~0U, 0U);
        if (privilege == Privilege::subordinate && !ids->lay())
            ::_exit(126);
        if (disk && !disk->mount())
            ::_exit(126);
        if (privilege != Privilege::as_started && ::geteuid() == 0 &&
            (::setgroups(0, nullptr) != 0 ||
             ::setresgid(k_rootless_uid, k_rootless_uid, k_rootless_uid) != 0 ||
             ::setresuid(k_rootless_uid, k_rootless_uid, k_rootless_uid) != 0))
            ::_exit(126);
        ::execve(argv[0], argv.data(), envp.data());
        ::_exit(127);
    }
    ::close(log_fd);
    ::close(ends[1]);
    auto pidfd = base::open_pidfd(pid);
    if (!pidfd)
        throw std::runtime_error("pidfd_open");
    return {pid, std::move(*pidfd), UniqueFd(ends[0])};
}

std::vector<std::string> full_environment(const std::vector<std::pair<std::string, std::string>>& added) {
    std::vector<std::string> out;
    if (std::none_of(added.begin(), added.end(),
                     [](const auto& variable) { return variable.first == "PATH"; }))
        out.emplace_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
        if (const char* value = std::getenv(name))
            out.push_back(std::string(name) + "=" + value);
    }
    for (const auto& [name, value] : added)
        out.push_back(name + "=" + value);
    return out;
}

/// Reaps `child`; exit status or 128 + signal. -1 if it does not end in time.
int wait_exit(const UniqueFd& pidfd, std::chrono::milliseconds deadline) {
    pollfd waiting{pidfd.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(deadline.count())) != 1)
        return -1;
    const auto ended = base::reap(pidfd);
    if (!ended)
        return -1;
    return ended->how == base::ChildExit::How::exited ? ended->code : 128 + ended->code;
}

}  // namespace

TempDir::TempDir() {
    std::string pattern = (fs::temp_directory_path() / "atoll-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        throw std::runtime_error("mkdtemp");
    path_ = pattern;
    fs::permissions(path_, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                               fs::perms::others_read | fs::perms::others_exec);
}

TempDir::~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

bool is_root() {
    return ::geteuid() == 0;
}

fs::path binaries(Privilege privilege) {
    const fs::path built = build_path("bin");
    if (privilege == Privilege::as_started || !is_root())
        return built;
    // The checkout may lie where only root can go.
    static const TempDir copies;
    static const bool copied = [&] {
        for (const char* name :
             {"atolld", "atoll-guest", "atoll-agent", "atoll-helper", "atoll-zygote", "atoll-checker"})
            fs::copy_file(built / name, copies.path() / name);
        fs::copy(built / "engines", copies.path() / "engines", fs::copy_options::recursive);
        return true;
    }();
    static_cast<void>(copied);
    return copies.path();
}

ServerProcess::ServerProcess(ServerOptions options) {
    const bool own_dir = options.data_dir.empty();
    data_dir_ = own_dir ? temp_.path() / "data" : options.data_dir;
    // The server makes this directory itself, unless a disk is to be mounted there.
    if (own_dir && options.disk_mb > 0)
        fs::create_directory(data_dir_);
    if (options.privilege != Privilege::as_started && is_root()) {
        for (const auto& path : {temp_.path(), data_dir_}) {
            if (::chown(path.c_str(), k_rootless_uid, k_rootless_uid) != 0 && errno != ENOENT)
                throw std::runtime_error("chown");
        }
    }
    if (fs::exists(data_dir_))
        fs::permissions(data_dir_, fs::perms::owner_all);
    start(options);
    await_ready();
}

void ServerProcess::start(const ServerOptions& options) {
    std::vector<std::string> command{(binaries(options.privilege) / "atolld").string(), "--listen",
                                     "127.0.0.1:0", "--data-dir", data_dir_.string()};
    if (options.privilege == Privilege::subordinate)
        command.insert(command.end(), {"--uid-lease-dir", (data_dir_ / "uids").string()});
    command.insert(command.end(), options.arguments.begin(), options.arguments.end());
    auto environment = options.environment;
    environment.emplace_back("ATOLL_API_KEY", key_);
    // The engines of this checkout, as scripts/setup --tests installs them: the host may have older ones.
    const fs::path engines = fs::path(build_path("../executors"));
    if (options.privilege == Privilege::as_started && fs::exists(engines))
        environment.emplace(environment.begin(), "ATOLL_EXECUTORS", engines.lexically_normal());
    UniqueFd log_pipe;
    if (options.log == LogTo::unread_pipe) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0 || ::fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0 ||
            ::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
            throw std::runtime_error("pipe2");
        unread_ = UniqueFd(ends[0]);
        log_pipe = UniqueFd(ends[1]);
    }
    std::optional<OwnDisk> disk;
    if (options.disk_mb > 0)
        disk = {data_dir_.string(), "mode=0700,size=" + std::to_string(options.disk_mb) + "m"};
    Child child = spawn(command, full_environment(environment), temp_.path() / "log", options.privilege,
                        log_pipe.get(), disk);
    pid_ = child.pid;
    pidfd_ = std::move(child.pidfd);
    output_ = std::move(child.output);
}

void ServerProcess::await_ready() {
    constexpr std::string_view mark = "://127.0.0.1:";
    std::string text;
    const auto deadline = Clock::now() + k_client_deadline;
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd waiting{output_.get(), POLLIN, 0};
        std::array<char, 4096> buffer{};
        if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) != 1)
            break;
        const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
        if (got <= 0)
            break;
        text.append(buffer.data(), static_cast<std::size_t>(got));
        const auto at = text.find(mark);
        if (at == std::string::npos || text.find('\n', at) == std::string::npos)
            continue;
        const char* digits = text.data() + at + mark.size();
        std::from_chars(digits, text.data() + text.size(), port_);
        printed_ = std::move(text);
        return;
    }
    throw std::runtime_error("the server did not start:\n" + text + log());
}

std::string ServerProcess::address() const {
    const bool secure = printed_.find("https://127.0.0.1:") != std::string::npos;
    return (secure ? "https://127.0.0.1:" : "127.0.0.1:") + std::to_string(port_);
}

std::string ServerProcess::log() const {
    if (unread_) {
        std::string text;
        std::array<char, 4096> buffer{};
        for (ssize_t got = 0; (got = ::read(unread_.get(), buffer.data(), buffer.size())) > 0;)
            text.append(buffer.data(), static_cast<std::size_t>(got));
        return text;
    }
    return read_file(temp_.path() / "log");
}

fs::path ServerProcess::data_dir_inside() const {
    return "/proc/" + std::to_string(pid_) + "/root" + data_dir_.string();
}

void ServerProcess::signal(int number) const {
    base::send_signal(pidfd_, number);
}

int ServerProcess::stop() {
    base::send_signal(pidfd_, SIGTERM);
    const int status = wait_exit(pidfd_, k_client_deadline);
    if (status >= 0)
        pidfd_.reset();
    return status;
}

void ServerProcess::kill_hard() {
    base::send_signal(pidfd_, SIGKILL);
    wait_exit(pidfd_, k_client_deadline);
    pidfd_.reset();
}

ServerProcess::~ServerProcess() {
    if (pidfd_ && stop() < 0)
        kill_hard();
}

RunResult run_server(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment,
                     Privilege privilege) {
    std::vector<std::string> command{(binaries(privilege) / "atolld").string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Child child = spawn(command, full_environment(environment), {}, privilege);
    RunResult result;
    std::array<char, 4096> buffer{};
    const auto deadline = Clock::now() + k_client_deadline;
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd waiting{child.output.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) != 1)
            break;
        const ssize_t got = ::read(child.output.get(), buffer.data(), buffer.size());
        if (got <= 0)
            break;
        result.output.append(buffer.data(), static_cast<std::size_t>(got));
    }
    result.status = wait_exit(child.pidfd, k_client_deadline);
    if (result.status < 0) {
        base::send_signal(child.pidfd, SIGKILL);
        wait_exit(child.pidfd, k_client_deadline);
    }
    return result;
}

std::vector<pid_t> descendants(pid_t ancestor) {
    std::vector<std::pair<pid_t, pid_t>> parents;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        pid_t pid = 0;
        const std::string name = entry.path().filename();
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc())
            continue;
        const std::string stat = read_file(entry.path() / "stat");
        const auto after_name = stat.rfind(')');
        if (after_name == std::string::npos)
            continue;
        std::istringstream fields(stat.substr(after_name + 1));
        char state = 0;
        pid_t parent = 0;
        fields >> state >> parent;
        parents.emplace_back(pid, parent);
    }
    std::vector<pid_t> found{ancestor};
    for (std::size_t at = 0; at < found.size(); ++at) {
        for (const auto& [pid, parent] : parents) {
            if (parent == found[at])
                found.push_back(pid);
        }
    }
    found.erase(found.begin());
    return found;
}

std::vector<UniqueFd> open_pidfds(const std::vector<pid_t>& pids) {
    std::vector<UniqueFd> opened;
    for (const pid_t pid : pids) {
        if (auto pidfd = base::open_pidfd(pid))
            opened.push_back(std::move(*pidfd));
    }
    return opened;
}

bool await_gone(const std::vector<UniqueFd>& processes, std::chrono::milliseconds deadline) {
    const auto until = Clock::now() + deadline;
    for (const auto& process : processes) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
        pollfd waiting{process.get(), POLLIN, 0};
        if (::poll(&waiting, 1, std::max(0, static_cast<int>(left.count()))) != 1)
            return false;
    }
    return true;
}

}  // namespace atl::test
