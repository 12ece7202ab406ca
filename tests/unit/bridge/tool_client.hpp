// A plain client for `tool`, and a workspace of its own for the guest under test.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/frame.hpp"
#include "guest_process.hpp"

namespace atl::test {

/// A directory that is removed with it.
class Workspace {
  public:
    Workspace() {
        char name[] = "/tmp/atoll-tools-test-XXXXXX";
        if (mkdtemp(name) == nullptr)
            throw std::runtime_error("no directory to be had");
        path_ = name;
    }
    ~Workspace() { std::filesystem::remove_all(path_); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    const std::string& path() const { return path_; }
    std::string path(std::string_view inner) const { return path_ + "/" + std::string(inner); }
    void write(std::string_view inner, std::string_view bytes) const {
        std::filesystem::create_directories(std::filesystem::path(path(inner)).parent_path());
        std::ofstream(path(inner), std::ios::binary) << bytes;
    }
    std::string read(std::string_view inner) const {
        std::ifstream file(path(inner), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    }
    bool has(std::string_view inner) const { return std::filesystem::exists(path(inner)); }
    /// Names in a directory, hidden ones too.
    std::size_t count(std::string_view inner = ".") const {
        const std::filesystem::directory_iterator entries(path(inner));
        return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
    }

  private:
    std::string path_;
};

/// The outcome of one call of a tool.
struct ToolAnswer {
    nlohmann::json reply;   // {"ok":…,"success":…}
    nlohmann::json result;  // the result object
    std::vector<nlohmann::json> progress;

    bool success() const { return result.at("success").get<bool>(); }
    const nlohmann::json& data() const { return result.at("data"); }
    std::string code() const {
        return success() ? std::string() : result.at("technicalDetails").at("errorCode").get<std::string>();
    }
    std::string error() const { return result.at("technicalDetails").at("error").get<std::string>(); }
    std::string warnings() const { return result.value("warnings", nlohmann::json::array()).dump(); }
    std::string suggestions() const { return result.value("suggestions", nlohmann::json::array()).dump(); }
};

class ToolGuest {
  public:
    explicit ToolGuest(std::uint64_t disk_bytes = 0, GuestSetting setting = {})
        : guest_(GuestProcess::Space::own, guest::Peers::outside, workspace.path(), disk_bytes,
                 std::move(setting)) {}

    /// Begins a call; the answer is read with finish().
    Client begin(std::string_view name, const nlohmann::json& arguments,
                 const nlohmann::json& more = nlohmann::json::object()) const {
        nlohmann::json command = {{"cmd", "tool"}, {"name", name}, {"args", arguments}};
        command.update(more);
        return guest_.send(command.dump());
    }
    static ToolAnswer finish(Client& client) {
        ToolAnswer answer;
        while (const auto line = client.line()) {
            answer.reply = nlohmann::json::parse(*line);
            if (answer.reply.contains("ok"))
                break;
            if (answer.reply.contains("progress"))
                answer.progress.push_back(answer.reply);
        }
        std::string text;
        bridge::FrameDecoder decoder{bridge::FrameDecoder::Sender::guest};
        bool ended = false;
        while (!ended) {
            const auto chunk = client.bytes();
            if (!chunk)
                break;
            std::string_view bytes = *chunk;
            bridge::Frame frame;
            while (decoder.next(bytes, frame) == bridge::FrameDecoder::Found::frame) {
                text += frame.bytes;
                ended = ended || frame.type == bridge::FrameType::exit;
            }
        }
        if (answer.reply.value("ok", false) && !ended)
            throw std::runtime_error("the answer broke off");
        if (!text.empty())
            answer.result = nlohmann::json::parse(text);
        return answer;
    }
    ToolAnswer run(std::string_view name, const nlohmann::json& arguments,
                   const nlohmann::json& more = nlohmann::json::object()) const {
        Client client = begin(name, arguments, more);
        return finish(client);
    }
    const GuestProcess& guest() const { return guest_; }

    Workspace workspace;

  private:
    GuestProcess guest_;
};

}  // namespace atl::test
