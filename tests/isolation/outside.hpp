// The host's side of a test: the same probe outside a sandbox as the positive control, services that answer
// on the host, and processes that an attacker might want to signal.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/isolation/results.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test {

using Words = std::vector<std::string>;

/// The probe in a folder that every user can go to. Fails the test if it was not built.
const std::filesystem::path& probe_program();

/// The unprivileged user of controls: k_rootless_uid for root, else the user who runs the tests.
uid_t ordinary_uid();

/// Runs a program to its end as `uid` (root can take any uid, others only their own) with stdin from
/// /dev/null and only PATH in its environment. Output is stdout only. Fails the test if it takes longer than
/// k_client_deadline.
RunResult run_outside(const Words& command, uid_t uid);

/// The probe's results outside. Fails the test if the probe does.
Results outside(const Words& arguments, uid_t uid = ::geteuid());

/// A program that runs on the host until the object dies.
class HostProcess {
  public:
    HostProcess(const Words& command, uid_t uid);
    ~HostProcess();
    HostProcess(const HostProcess&) = delete;
    HostProcess& operator=(const HostProcess&) = delete;

    pid_t pid() const noexcept { return pid_; }
    bool is_alive() const;
    /// Its output up to the line that starts with `start`.
    std::string read_until(const std::string& start);

  private:
    pid_t pid_ = -1;
    base::UniqueFd pidfd_;
    base::UniqueFd output_;
};

/// Services of the host, open to every process on it: TCP on each address that it has, an abstract Unix
/// socket, and a Unix socket with a path. Each answers every client.
class HostServices {
  public:
    HostServices();

    /// The endpoints in the form that the probe's `connect` takes.
    const Words& endpoints() const noexcept { return endpoints_; }
    const std::filesystem::path& socket_path() const noexcept { return socket_path_; }
    /// The port of the service on 127.0.0.1.
    std::string port() const;

  private:
    TempDir folder_;
    std::filesystem::path socket_path_;
    HostProcess process_;
    Words endpoints_;
};

}  // namespace atl::test
