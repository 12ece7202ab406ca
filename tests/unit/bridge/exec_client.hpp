// A plain client for `exec` and `attach`: sends frames within what the guest grants, and collects what comes
// back.
#pragma once

#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bridge/frame.hpp"
#include "guest_process.hpp"

namespace atl::test {

class ExecClient {
  public:
    /// `members` of the command, as JSON without the braces.
    ExecClient(const GuestProcess& guest, std::string_view members, const std::string& command = "exec")
        : client_(guest.send("{\"cmd\":\"" + command + "\"," + std::string(members) + "}")) {
        reply = nlohmann::json::parse(client_.line().value_or("null"));
    }

    /// Waits for grants as needed; what arrives meanwhile is kept.
    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            while (granted == 0)
                if (!step())
                    return;
            const std::string_view piece = bytes.substr(0, granted);
            granted -= piece.size();
            send(bridge::FrameType::input, piece);
            bytes.remove_prefix(piece.size());
        }
    }
    void send(bridge::FrameType type, std::string_view payload = {}) {
        std::string frame;
        bridge::append_frame(frame, type, payload);
        client_.send(frame);
    }
    void signal(int number) { client_.send(bridge::encode_signal(static_cast<std::uint8_t>(number))); }
    void send_raw(std::string_view bytes) { client_.send(bytes); }
    void close() { client_.close(); }
    int fd() const { return client_.fd(); }

    /// Takes in what comes next; false at the end of the stream.
    bool step() {
        const std::optional<std::string> chunk = client_.bytes();
        if (!chunk)
            return false;
        std::string_view bytes = *chunk;
        bridge::Frame frame;
        bridge::FrameDecoder::Found found{};
        while ((found = decoder_.next(bytes, frame)) == bridge::FrameDecoder::Found::frame) {
            if (frame.type == bridge::FrameType::output)
                output += frame.bytes;
            else if (frame.type == bridge::FrameType::error)
                error += frame.bytes;
            else if (frame.type == bridge::FrameType::grant)
                granted += frame.number;
            else if (frame.type == bridge::FrameType::dropped)
                dropped += frame.number;
            else
                exit = frame.exit;
        }
        if (found == bridge::FrameDecoder::Found::refused)
            throw std::runtime_error(decoder_.refusal());
        return true;
    }
    /// To the end of the stream.
    ExecClient& finish() {
        while (step()) {
        }
        return *this;
    }
    /// Until so many bytes of stdout are here.
    void read_output(std::size_t bytes) {
        while (output.size() < bytes && step()) {
        }
    }

    /// Until stdout holds `text`; false: it never did.
    bool read_until(std::string_view text) {
        while (output.find(text) == std::string::npos)
            if (!step())
                return false;
        return true;
    }

    nlohmann::json reply;
    std::string output;
    std::string error;
    std::optional<bridge::ExitStatus> exit;
    std::uint64_t dropped = 0;
    std::size_t granted = base::k_input_window_bytes;

  private:
    Client client_;
    bridge::FrameDecoder decoder_{bridge::FrameDecoder::Sender::guest};
};

}  // namespace atl::test
