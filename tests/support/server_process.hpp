// A real atolld for a test: its own data directory, a free port, root or rootless. Dies with the test. log()
// has its log; a failing test should show it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::test {

/// A folder that is removed with the object. Everyone may traverse it.
class TempDir {
  public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    const std::filesystem::path& path() const noexcept { return path_; }

  private:
    std::filesystem::path path_;
};

/// Subordinate: rootless, of a user with uids in /etc/subuid (needs root and the package uidmap).
enum class Privilege { as_started, rootless, subordinate };

/// True if the tests run as root, so that both privileges can be had.
bool is_root();

/// The unprivileged user that rootless servers of the tests run as; no account has this uid.
inline constexpr uid_t k_rootless_uid = 1'234'567;
/// The first of the 65,536 ids that this user has for Privilege::subordinate, of both kinds.
inline constexpr uid_t k_first_subordinate_id = 700'000'000;

/// Where its log goes. A pipe is small, and nobody reads it but ServerProcess::log().
enum class LogTo { file, unread_pipe };

struct ServerOptions {
    Privilege privilege = Privilege::as_started;
    std::vector<std::string> arguments;                            // besides --listen and --data-dir
    std::vector<std::pair<std::string, std::string>> environment;  // added to a minimal one
    std::filesystem::path data_dir;                                // empty: one of its own
    unsigned disk_mb = 0;  // the data directory is a disk of this size, which root can mount; 0: the host's
    LogTo log = LogTo::file;
};

class ServerProcess {
  public:
    /// Starts it and waits until it serves. Throws std::runtime_error with its log if it does not within
    /// k_client_deadline.
    explicit ServerProcess(ServerOptions options = {});
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    pid_t pid() const noexcept { return pid_; }
    unsigned short port() const noexcept { return port_; }
    /// The address in the form that HttpClient takes: with https:// if the server speaks TLS.
    std::string address() const;
    const std::string& key() const noexcept { return key_; }
    const std::filesystem::path& data_dir() const noexcept { return data_dir_; }
    /// The same where the server has a disk of its own, which nobody else sees by its name.
    std::filesystem::path data_dir_inside() const;
    std::string log() const;
    /// Its standard output at the start.
    const std::string& printed() const noexcept { return printed_; }

    void signal(int number) const;
    /// SIGTERM, then waits; returns the exit status, or 128 + signal.
    int stop();
    /// SIGKILL, and waits for it.
    void kill_hard();

  private:
    void start(const ServerOptions& options);
    void await_ready();

    TempDir temp_;
    std::filesystem::path data_dir_;
    pid_t pid_ = -1;
    base::UniqueFd pidfd_;
    base::UniqueFd output_;
    base::UniqueFd unread_;
    unsigned short port_ = 0;
    std::string printed_;
    std::string key_ = "test-key-0123456789abcdef";
};

/// Runs the server to its end, for start-up failures: exit status and everything it printed.
struct RunResult {
    int status = 0;
    std::string output;
};
RunResult run_server(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment = {},
                     Privilege privilege = Privilege::as_started);

/// Folder with atolld, atoll-guest and atoll-helper that every user can execute.
std::filesystem::path binaries(Privilege privilege);

/// Every process below `ancestor` now, without it.
std::vector<pid_t> descendants(pid_t ancestor);

/// Waits until all of `processes` (pidfds) are gone; false if one is not by then.
bool await_gone(const std::vector<base::UniqueFd>& processes, std::chrono::milliseconds deadline);
std::vector<base::UniqueFd> open_pidfds(const std::vector<pid_t>& pids);

}  // namespace atl::test
