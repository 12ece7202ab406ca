#include "tests/bench/event_server.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_program = "atoll-bench-agent";
constexpr std::string_view k_type_delta = R"("type":"text_delta")";
constexpr std::string_view k_type_done = R"("type":"done")";
// The type of an event's object comes within these bytes.
constexpr std::size_t k_type_within = 64;

fs::path write_agents_file(const fs::path& dir) {
    const fs::path programs = dir / "agent";
    fs::create_directory(programs);
    fs::copy_file(bin_dir() / k_program, programs / k_program);
    const std::string program = "/agent/" + std::string(k_program);
    const nlohmann::json events{{"name", "events"}, {"argv", {program}}, {"dir", programs}};
    const nlohmann::json acp{
        {"name", "acp"}, {"adapter", "acp"}, {"argv", {program, "acp"}}, {"dir", programs}};
    const fs::path file = dir / "agents.json";
    std::ofstream out(file);
    out << nlohmann::json{{"agents", {events, acp}}};
    if (!out.flush())
        throw std::runtime_error("cannot write " + file.string());
    return file;
}

}  // namespace

EventServer::EventServer(const std::vector<std::string>& more) {
    std::vector<std::string> args{"--agents-file",
                                  write_agents_file(dir_.path()),
                                  "--turn-log-bytes",
                                  std::to_string(1UL << 30),
                                  "--conversation-log-bytes",
                                  std::to_string(1UL << 32),
                                  "--log-mb",
                                  std::to_string(1UL << 14)};
    args.insert(args.end(), more.begin(), more.end());
    server_.emplace(args);
}

std::string EventServer::create_conversation(std::string_view agent) const {
    Connection connection(server_->port());
    return server_->create_conversation(connection, agent);
}

WebSocket EventServer::open_socket(const std::string& id, std::uint64_t after) const {
    return {server_->port(), "/v1/conversations/" + id + "/ws?after=" + std::to_string(after),
            server_->key()};
}

double EventServer::run_turn(WebSocket& socket, std::size_t events) {
    std::size_t seen = 0;
    const auto began = Clock::now();
    socket.send_text(R"({"type":"message","content":")" + std::to_string(events) + "\"}");
    socket.await([&](std::string_view payload) {
        const auto head = payload.substr(0, k_type_within);
        seen += head.find(k_type_delta) != std::string_view::npos ? 1 : 0;
        return head.find(k_type_done) != std::string_view::npos;
    });
    const double ms = ms_since(began);
    if (seen != events)
        throw std::runtime_error("of " + std::to_string(events) + " events " + std::to_string(seen) +
                                 " arrived");
    return ms;
}

std::uint64_t EventServer::last_seq(const std::string& id) const {
    Connection connection(server_->port());
    const Response response = connection.exchange(server_->request("GET", "/v1/conversations/" + id));
    return nlohmann::json::parse(response.body).at("lastSeq");
}

}  // namespace atl::bench
