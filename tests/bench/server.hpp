// An atolld, of this build unless use_server_of() says otherwise, started for one measurement on a free port
// with an empty data directory, or with one that the measurement has filled.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/http_client.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {

/// The programs of this build: the folder of the running program.
std::filesystem::path bin_dir();
/// From now on servers are started from this folder, which has another build's programs.
void use_server_of(std::filesystem::path programs);

class Server {
  public:
    /// Starts it and waits until /readyz answers 200; throws with the end of its log if it does not.
    /// `more` goes to its command line. `data_dir` outlives it; empty: a fresh one.
    explicit Server(const std::vector<std::string>& more = {}, std::filesystem::path data_dir = {});
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    /// Stops it if stop() has not.
    ~Server();

    pid_t pid() const { return pid_; }
    std::uint16_t port() const { return port_; }
    /// CPU time of its one thread so far.
    double cpu_ms() const;
    const std::string& key() const { return key_; }
    const std::filesystem::path& data_dir() const { return data_dir_; }
    std::string request(std::string_view method, std::string_view target, std::string_view body = {},
                        Accept accept = Accept::json) const;

    /// POST of a conversation with `agent`; returns its id, throws unless 201.
    std::string create_conversation(Connection& connection, std::string_view agent) const;
    /// The id in the response to a create request; throws unless it is 201.
    static std::string created_id(int status, const std::string& body);
    void remove_conversation(Connection& connection, const std::string& id) const;
    /// Back when the pool holds so many sandboxes. Throws after 20 s.
    void await_pool(Connection& connection, std::size_t ready) const;
    /// The request that sends a message and takes the turn's events.
    std::string message_request(const std::string& id) const;
    /// Throws unless the response is a turn that ended with `done` and without `error`.
    static void check_turn(int status, const std::string& body);

    /// SIGTERM, and SIGKILL if it has not ended after 20 s, which throws.
    void stop();

  private:
    void spawn(const std::vector<std::string>& more);
    void wait_ready();
    bool wait_end(int timeout_ms);
    std::string log_tail() const;

    TempDir dir_;
    std::filesystem::path data_dir_;
    std::string key_;
    std::uint16_t port_ = 0;
    pid_t pid_ = -1;
    base::UniqueFd pidfd_;
};

}  // namespace atl::bench
