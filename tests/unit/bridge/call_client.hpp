// A plain client for calls: sends a command and its input, collects words, the reply and the bytes behind it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/frame.hpp"
#include "guest_process.hpp"

namespace atl::test {

class CallClient {
  public:
    CallClient(const GuestProcess& guest, const nlohmann::json& command)
        : client_(guest.send(command.dump(-1, ' ', false, nlohmann::json::error_handler_t::strict))) {}

    /// Reads words until the guest wants input; false if it replied first.
    bool await_ready() {
        while (reply.is_null())
            if (next_word().contains("ready"))
                return true;
        return false;
    }
    void write(std::string_view bytes) {
        for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), base::k_max_frame_bytes)))
            send(bridge::FrameType::input, bytes.substr(0, base::k_max_frame_bytes));
    }
    void end_input() { send(bridge::FrameType::input_end); }
    void send(bridge::FrameType type, std::string_view payload = {}) {
        std::string frame;
        bridge::append_frame(frame, type, payload);
        client_.send(frame);
    }
    void send_raw(std::string_view bytes) { client_.send(bytes); }

    /// Reads the reply, and what is behind it.
    CallClient& finish() {
        await_reply();
        while (step()) {
        }
        return *this;
    }
    void await_reply() {
        while (reply.is_null())
            next_word();
    }
    /// Takes in what comes next behind the reply; false at the end of the stream, and behind the exit.
    bool step() {
        if (has_ended)
            return false;
        const std::optional<std::string> chunk = client_.bytes();
        if (!chunk)
            return false;
        std::string_view bytes = *chunk;
        bridge::Frame frame;
        bridge::FrameDecoder::Found found{};
        while ((found = decoder_.next(bytes, frame)) == bridge::FrameDecoder::Found::frame) {
            if (frame.type == bridge::FrameType::output)
                output += frame.bytes;
            has_ended = frame.type == bridge::FrameType::exit;
        }
        if (found == bridge::FrameDecoder::Found::refused)
            throw std::runtime_error(decoder_.refusal());
        return true;
    }
    void await_word() { next_word(); }
    void close() { client_.close(); }
    int fd() const { return client_.fd(); }

    bool is_good() const { return !reply.is_null() && reply.at("ok") == true; }
    /// The code of a refusal, "none" if it has no code; "" if there was no refusal.
    std::string code() const { return is_good() ? "" : reply.value("code", "none"); }

    nlohmann::json reply;  // null before it came
    std::vector<nlohmann::json> words;
    std::string output;
    bool has_ended = false;  // with the exit behind the bytes

  private:
    nlohmann::json next_word() {
        const std::optional<std::string> line = client_.line();
        if (!line)
            throw std::runtime_error("the call has no reply");
        nlohmann::json word = nlohmann::json::parse(*line);
        if (word.contains("ok"))
            reply = word;
        else
            words.push_back(word);
        return word;
    }

    Client client_;
    bridge::FrameDecoder decoder_{bridge::FrameDecoder::Sender::guest};
};

}  // namespace atl::test
