// Where the attempts are made: one server for each privilege, shared by all tests, and a sandbox of its own
// for each test. Sandboxes come from the product only; the tests put the probe into their workspaces.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/isolation/outside.hpp"
#include "tests/isolation/results.hpp"
#include "tests/support/api_client.hpp"

namespace atl::test {

/// Variables of every lab's server that no sandbox may have. Each value holds k_secret_mark.
inline constexpr const char* k_secret_mark = "host-secret";
std::map<std::string, std::string> secret_variables(const HostServices& services);
/// Variables of every lab's server that its sandboxes have as well.
const std::map<std::string, std::string>& passed_variables();

class Lab {
  public:
    /// `data_dir`: empty for one of its own.
    explicit Lab(Privilege privilege, Words arguments = {}, std::filesystem::path data_dir = {});

    const std::string name;  // "root", "rootless" or "subordinate"
    const bool has_private_uids;
    const HostServices services;
    const ServerProcess server;
    ApiClient api;
};

/// The privileges that can be had: root, rootless, and rootless with subordinate ids (needs newuidmap(1)).
std::vector<Privilege> privileges();
/// Runs the test once for each privilege, each with its lab.
Lab& each_lab();

using Findings = std::map<std::string, std::set<std::string>>;
/// True if one of `places` ends so.
bool has_place(const std::set<std::string>& places, std::string_view end);

/// A conversation with the shell agent, deleted with the object.
class Sandbox {
  public:
    explicit Sandbox(Lab& lab, const Json& request = Json::object());
    ~Sandbox();
    Sandbox(const Sandbox&) = delete;
    Sandbox& operator=(const Sandbox&) = delete;

    const Json& conversation() const noexcept { return conversation_; }
    std::string id() const { return conversation_["id"]; }
    std::string sandbox_id() const { return conversation_["sandboxId"]; }
    /// On the host.
    std::filesystem::path workspace() const;
    std::filesystem::path bridge_socket() const;
    /// The same as the host's root reaches it: a root server keeps it in a mount namespace of its own.
    std::filesystem::path reachable_bridge_socket() const;
    /// The uid of its processes on the host.
    uid_t host_uid() const;
    /// The host's pids of all its processes: the launcher, the guest, and the guest's children.
    std::vector<pid_t> processes() const;

    Turn run(const std::string& command);
    /// The output of a command that must succeed, without the last line break.
    std::string output(const std::string& command);
    /// The probe's results inside. Fails the test if the probe does.
    Results probe(const Words& arguments);
    /// Starts the probe in the background; returns when it has told a line that starts with `start`.
    std::string probe_in_background(const Words& arguments, const std::string& start);
    /// The command line that runs the probe.
    std::string probe_command(const Words& arguments);
    /// Copies a program of the host into the workspace, under its own name.
    void bring(const std::filesystem::path& program);
    /// The places inside that hold each of `texts`, both by the names of the texts: files, and as /proc/PID/…
    /// environments, command lines and memory of processes. For root of the host also those that no program
    /// inside can read, by the host's pids: the launcher and process 1.
    Findings find(const std::map<std::string, std::string>& texts);
    /// A file in the workspace that belongs to the sandbox.
    void put(const std::string& name, const std::string& text);
    /// True if it still is the generation that it began with, and answers.
    bool is_well();

  private:
    void own(const std::filesystem::path& path);

    Lab& lab_;
    std::vector<pid_t> others_;  // launchers of sandboxes that were there before
    Json conversation_;
};

/// Bytes of a file of the host; empty if it cannot be read.
std::string read_host_file(const std::filesystem::path& path);
/// Quotes a text as one word of a shell's command line.
std::string quoted(const std::string& word);

}  // namespace atl::test
