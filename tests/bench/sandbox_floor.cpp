#include "tests/bench/sandbox_floor.hpp"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "core/isolation/etc_template.hpp"
#include "core/isolation/profile.hpp"
#include "core/isolation/seccomp.hpp"
#include "tests/bench/sample.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr uid_t k_nobody = 65534;
constexpr char k_bwrap[] = "/usr/bin/bwrap";

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

/// Runs in the process that gave up its privileges.
class Spawner {
  public:
    explicit Spawner(const Profile& profile) : profile_(profile), args_(profile.args) {
        args_.insert(args_.begin(), "bwrap");
        for (std::string& arg : args_)
            argv_.push_back(arg.data());
        argv_.push_back(nullptr);
    }

    double start_ms() {
        for (const auto& [file, number] : profile_.files)
            ::lseek(file.get(), 0, SEEK_SET);
        const auto began = Clock::now();
        std::array<int, 2> pipe;
        if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
            fail("pipe2");
        const base::UniqueFd reader(pipe[0]);
        base::UniqueFd writer(pipe[1]);
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
        for (const auto& [file, number] : profile_.files)
            ::posix_spawn_file_actions_adddup2(&actions, file.get(), number);
        char* const no_environment[] = {nullptr};
        pid_t pid = -1;
        const int error = ::posix_spawn(&pid, k_bwrap, &actions, nullptr, argv_.data(), no_environment);
        ::posix_spawn_file_actions_destroy(&actions);
        if (error != 0)
            throw std::system_error(error, std::generic_category(), k_bwrap);
        pids_.push_back(pid);
        writer.reset();
        char byte = 0;
        if (::read(reader.get(), &byte, 1) != 1)
            throw std::runtime_error("the sandbox of the floor did not start");
        return ms_since(began);
    }

    void end_all() {
        for (const pid_t pid : pids_)
            ::kill(pid, SIGKILL);
        for (const pid_t pid : pids_)
            ::waitpid(pid, nullptr, 0);
        pids_.clear();
    }

  private:
    const Profile& profile_;
    std::vector<std::string> args_;
    std::vector<char*> argv_;
    std::vector<pid_t> pids_;
};

void give_up_privileges() {
    if (::geteuid() != 0)
        return;
    if (::setgroups(0, nullptr) != 0 || ::setresgid(k_nobody, k_nobody, k_nobody) != 0 ||
        ::setresuid(k_nobody, k_nobody, k_nobody) != 0)
        fail("becoming nobody");
}

void serve(const Profile& profile, int socket) {
    give_up_privileges();
    Spawner spawner(profile);
    for (char command = 0; ::read(socket, &command, 1) == 1;) {
        double answer = 0;
        if (command == 's')
            answer = spawner.start_ms();
        else
            spawner.end_all();
        if (::write(socket, &answer, sizeof answer) != sizeof answer)
            break;
    }
    spawner.end_all();
}

void own_by_nobody(const fs::path& path) {
    if (::geteuid() == 0 && ::chown(path.c_str(), k_nobody, k_nobody) != 0)
        fail("chown");
}

/// Everything below `dir`, where an unprivileged user can reach it: the build folder may be below /root.
isolation::ProfileSources make_sources(const fs::path& dir, const isolation::HostLayout& layout) {
    isolation::ProfileSources sources;
    sources.workspace = dir / "workspace";
    sources.guest = dir / "guest";
    sources.bridge_dir = dir / "bridge";
    sources.etc = dir / "etc";
    fs::create_directory(sources.workspace);
    fs::create_directory(sources.bridge_dir);
    fs::copy_file(bin_dir() / "atoll-bench-payload", sources.guest);
    isolation::write_etc(sources.etc, layout).value();
    sources.masks = dir / "masks";
    isolation::make_masks(sources.masks).value();
    own_by_nobody(sources.workspace);
    own_by_nobody(dir);
    return sources;
}

sandbox::LaunchSpec make_spec(const fs::path& workspace) {
    sandbox::LaunchSpec spec;
    spec.workspace = workspace;
    spec.env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                {"LANG", "C.UTF-8"},
                {"HOME", isolation::k_inner_workspace},
                {"ASH_BRIDGE_SOCKET", isolation::k_inner_bridge_socket},
                {"ASH_AGENT_DIR", isolation::k_inner_agent_dir},
                {"ASH_WORKSPACE_DIR", isolation::k_inner_workspace},
                {"ASH_SANDBOX_ID", "floor"},
                {"ASH_SESSION_ID", "floor"}};
    return spec;
}

Profile make_profile(const fs::path& dir) {
    const isolation::HostLayout layout = isolation::probe_layout({}).value();
    const isolation::ProfileSources sources = make_sources(dir, layout);
    const isolation::SeccompFilters filters = isolation::SeccompFilters::compile().value();
    Profile profile;
    profile.args = isolation::profile_arguments(layout, make_spec(sources.workspace), sources);
    profile.args.insert(profile.args.end(), {"--", isolation::k_inner_guest});
    profile.files.emplace_back(filters.open_calls(), isolation::k_seccomp_calls_fd);
    profile.files.emplace_back(filters.open_arguments(), isolation::k_seccomp_arguments_fd);
    profile.files.emplace_back(base::UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)),
                               isolation::k_status_fd);
    return profile;
}

}  // namespace

SandboxFloor::SandboxFloor() {
    profile_ = make_profile(dir_.path());
    SocketPair pair;
    socket_ = std::move(pair.ours);
    spawner_ = std::make_unique<Child>([&] {
        socket_.reset();
        serve(profile_, pair.theirs.get());
    });
}

double SandboxFloor::ask(char command) {
    double answer = 0;
    if (::send(socket_.get(), &command, 1, MSG_NOSIGNAL) != 1 ||
        ::recv(socket_.get(), &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
        throw std::runtime_error("the floor's spawner ended: see above");
    return answer;
}

double SandboxFloor::start_ms() {
    return ask('s');
}

void SandboxFloor::end_all() {
    ask('e');
}

}  // namespace atl::bench
