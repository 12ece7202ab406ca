// Shared parts of the tests of processes that outlive a connection: requests to a real guest, and a gate that
// a script waits at.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "exec_client.hpp"

namespace atl::test {

constexpr std::string_view k_stdin = ",\"stdin\":true";
constexpr std::string_view k_terminal = ",\"terminal\":{\"columns\":100,\"rows\":40}";

inline std::string named(std::string_view id) {
    return "\"id\":" + nlohmann::json(id).dump();
}

inline nlohmann::json start(const GuestProcess& guest, std::string_view id, std::string_view script,
                            std::string_view more = {}) {
    return guest.ask("{\"cmd\":\"process\"," + named(id) + ",\"command\":" + nlohmann::json(script).dump() +
                     std::string(more) + "}");
}

inline ExecClient attach(const GuestProcess& guest, std::string_view id, std::uint64_t after = 0) {
    return ExecClient(guest, named(id) + ",\"after\":" + std::to_string(after), "attach");
}

inline nlohmann::json control(const GuestProcess& guest, std::string_view id, std::string_view what) {
    return guest.ask("{\"cmd\":\"control\"," + named(id) + "," + std::string(what) + "}");
}

/// Its line in a list, or null.
inline nlohmann::json find(const GuestProcess& guest, std::string_view id) {
    const auto lines = guest.send("{\"cmd\":\"processes\"," + named(id) + "}").rest();
    if (lines.empty() || nlohmann::json::parse(lines.back()).at("ok") != true)
        throw std::runtime_error("no list");
    return lines.size() == 2 ? nlohmann::json::parse(lines[0]) : nlohmann::json();
}

inline bool has_ended(const GuestProcess& guest, std::string_view id) {
    return eventually([&] { return find(guest, id).contains("exitCode"); });
}

/// A script with its `script` in front waits until the gate is opened.
class Gate {
  public:
    explicit Gate(const GuestProcess& guest)
        : file_(std::filesystem::path(guest.path()).parent_path() / "gate") {}
    ~Gate() { std::filesystem::remove(file_); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    std::string script() const { return "until [ -e " + file_.string() + " ]; do sleep 0.01; done; "; }
    void open() const { std::ofstream(file_) << "open"; }

  private:
    std::filesystem::path file_;
};

}  // namespace atl::test
