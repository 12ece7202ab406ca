#include "bridge/guest/spawn.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace atl::guest {
namespace {

/// True if two entries NAME=VALUE have the same name.
bool same_name(std::string_view entry, std::string_view other) {
    const std::size_t size = entry.find('=');
    return size != std::string_view::npos && other.substr(0, size + 1) == entry.substr(0, size + 1);
}

std::vector<char*> child_environment(const SpawnRequest& request) {
    std::vector<char*> result;
    if (request.whole_environment != nullptr) {
        for (const std::string& entry : *request.whole_environment)
            result.push_back(const_cast<char*>(entry.c_str()));
        result.push_back(nullptr);
        return result;
    }
    const std::vector<std::string>& added = request.environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const bool replaced =
            std::any_of(added.begin(), added.end(), [text](const auto& by) { return same_name(text, by); });
        if (!replaced && !text.starts_with("PWD=") && !text.starts_with("OLDPWD=") && !text.starts_with("_="))
            result.push_back(*entry);
    }
    for (const std::string& entry : added)
        result.push_back(const_cast<char*>(entry.c_str()));
    result.push_back(nullptr);
    return result;
}

/// The child's descriptors and directory, as posix_spawn(3) file actions.
class FileActions {
  public:
    explicit FileActions(const SpawnRequest& request) {
        posix_spawn_file_actions_init(&actions_);
        request.terminal.empty() ? add_streams(request) : add_terminal(request.terminal);
        if (request.script_fd >= 0)
            posix_spawn_file_actions_adddup2(&actions_, request.script_fd, STDERR_FILENO + 1);
        // While the descriptor is still open: closefrom ends that.
        if (request.directory_fd >= 0)
            posix_spawn_file_actions_addfchdir_np(&actions_, request.directory_fd);
        const int first_closed = STDERR_FILENO + (request.script_fd >= 0 ? 2 : 1);
        posix_spawn_file_actions_addclosefrom_np(&actions_, first_closed);
        if (request.directory_fd < 0)
            posix_spawn_file_actions_addchdir_np(&actions_, request.directory.c_str());
    }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    const posix_spawn_file_actions_t* get() const { return &actions_; }

  private:
    void add_streams(const SpawnRequest& request) {
        if (request.input_fd >= 0)
            posix_spawn_file_actions_adddup2(&actions_, request.input_fd, STDIN_FILENO);
        else
            posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions_, request.output_fd, STDOUT_FILENO);
        if (request.error_fd >= 0)
            posix_spawn_file_actions_adddup2(&actions_, request.error_fd, STDERR_FILENO);
    }
    // The leader of a new session gets the first terminal that it opens as its controlling one (open(2),
    // O_NOCTTY); glibc makes the session before it performs file actions.
    void add_terminal(const std::string& path) {
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, path.c_str(), O_RDWR, 0);
        posix_spawn_file_actions_adddup2(&actions_, STDIN_FILENO, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions_, STDIN_FILENO, STDERR_FILENO);
    }

    posix_spawn_file_actions_t actions_;
};

/// New session, no signal blocked, every signal at its default.
class Attributes {
  public:
    Attributes() {
        posix_spawnattr_init(&attributes_);
        sigset_t set;
        sigemptyset(&set);
        posix_spawnattr_setsigmask(&attributes_, &set);
        // Not sigfillset(3): it leaves out the two that libc keeps for itself, which would then be ignored.
        memset(&set, 0xff, sizeof set);
        posix_spawnattr_setsigdefault(&attributes_, &set);
        posix_spawnattr_setflags(&attributes_,
                                 POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    ~Attributes() { posix_spawnattr_destroy(&attributes_); }
    const posix_spawnattr_t* get() const { return &attributes_; }

  private:
    posix_spawnattr_t attributes_;
};

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = write(fd, text.data(), text.size());
        if (size < 0)
            return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

}  // namespace

base::UniqueFd memory_file(std::string_view text) {
    base::UniqueFd file(memfd_create("message", MFD_CLOEXEC));
    // The descriptor of the child shares the offset.
    if (!file || !write_all(file.get(), text) || lseek(file.get(), 0, SEEK_SET) != 0)
        return {};
    return file;
}

pid_t spawn(const SpawnRequest& request) {
    std::vector<char*> argv;
    for (const std::string& argument : request.argv)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const std::vector<char*> environment = child_environment(request);
    const FileActions actions(request);
    const Attributes attributes;
    pid_t pid = -1;
    const int error =
        posix_spawnp(&pid, argv[0], actions.get(), attributes.get(), argv.data(), environment.data());
    return error == 0 ? pid : -error;
}

pid_t spawn_shell(SpawnRequest& request, std::string_view script) {
    base::UniqueFd file;
    if (script.size() <= k_max_inline_script_bytes) {
        request.argv = {"/bin/bash", "-c", "--", std::string(script)};
    } else {
        // bash reads it as its file 3. The first command closes that for everything it starts, while bash
        // itself reads on through a descriptor of its own.
        file = memory_file("exec 3<&-\n" + std::string(script));
        if (!file)
            return -ENOMEM;
        request.argv = {"/bin/bash", "/proc/self/fd/3"};
        request.script_fd = file.get();
    }
    pid_t pid = spawn(request);
    // The directory may be what is missing: then it is so for sh, too.
    if (pid == -ENOENT) {
        request.argv[0] = "/bin/sh";
        pid = spawn(request);
    }
    return pid;
}

std::string workspace_directory() {
    const char* configured = getenv("ASH_WORKSPACE_DIR");
    return configured != nullptr && *configured == '/' ? configured : "/workspace";
}

std::string spawn_error(const SpawnRequest& request, int error_number) {
    return "cannot run " + request.argv[0] + " in " + request.directory + ": " +
           strerrordesc_np(error_number);
}

}  // namespace atl::guest
