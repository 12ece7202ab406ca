// A guest under test: the Guest class in a forked child, in a pid namespace of its own where the host allows
// that (then it is process 1, checks its peers for real, and takes everything it started along when it
// dies), else next to the test. And a plain blocking client for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/guest/guest.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/ports.hpp"
#include "tests/support/deadline.hpp"

namespace atl::test {

/// A guest under test as the core sees it: no more than where its bridge is.
struct BridgeOnly final : sandbox::Process {
    std::string path;
    const std::string& bridge_path() const override { return path; }
    pid_t pid() const override { return 0; }
    void terminate() override {}
    void kill() override {}
    std::string log_tail() const override { return {}; }
};

/// A connection of the host. Every read has a deadline; running into it throws.
class Client {
  public:
    explicit Client(const std::string& path);
    void send(std::string_view text) const;
    /// The next line without its newline; nothing at the end of the stream.
    std::optional<std::string> line();
    /// The next bytes, as they come; nothing at the end of the stream.
    std::optional<std::string> bytes();
    /// All lines until the end of the stream.
    std::vector<std::string> rest();
    void close() { socket_.reset(); }
    int fd() const { return socket_.get(); }

  private:
    base::UniqueFd socket_;
    std::string buffer_;
};

/// The output of a shell or process agent in one turn.
struct Transcript {
    std::vector<nlohmann::json> events;
    std::string text;  // all deltas

    static Transcript of(const std::vector<std::string>& lines);
    /// "text_delta done", runs of one name told once.
    std::string names() const;
    const nlohmann::json& data(std::string_view event) const;
};

/// The settings in which a guest under test differs from one in a sandbox.
struct GuestSetting {
    std::string programs = "/usr/local/bin:/usr/bin:/bin";  // its PATH
    std::string local_programs;  // a folder in place of /usr/local/bin; needs a pid namespace
    std::chrono::milliseconds search_timeout = base::k_tool_search_timeout;
};

class GuestProcess {
  public:
    enum class Space { own, shared };  // pid namespace

    GuestProcess() : GuestProcess(Space::own, guest::Peers::outside) {}
    /// With `disk_bytes` the workspace is a file system of that size, seen by the guest only; needs a pid
    /// namespace.
    GuestProcess(Space space, guest::Peers peers, std::string workspace = "/tmp",
                 std::uint64_t disk_bytes = 0, GuestSetting setting = {});
    /// The program instead of the class; needs a pid namespace.
    static GuestProcess program(const std::string& file);
    GuestProcess(GuestProcess&&) = default;
    ~GuestProcess();

    /// False where the host allows no pid namespace: the guest then trusts every peer.
    static bool can_isolate();

    Client connect() const { return Client(path_); }
    Client send(std::string_view command_line) const;
    /// Starts the agent and returns the control connection; `agent` is JSON.
    Client start(std::string_view agent) const;
    Client start_command(const std::string& bash_script) const;
    Client query(std::string_view prompt, std::string_view turn = "t1") const;
    Transcript run(std::string_view prompt, std::string_view turn = "t1") const;
    /// The one reply to a command.
    nlohmann::json ask(std::string_view command_line) const;

    const std::string& path() const { return path_; }
    pid_t pid() const { return pid_; }
    void signal(int number) const;
    /// Waits for the guest's end, with a deadline; returns its exit status, or -1 for a signal.
    int wait();

  private:
    struct Unstarted {};
    explicit GuestProcess(Unstarted) {}
    void listen();
    template <class Run>
    void fork_guest(Space space, Run run);

    std::string directory_;
    std::string path_;
    base::UniqueFd listener_;
    base::UniqueFd pidfd_;
    pid_t pid_ = -1;
};

}  // namespace atl::test
