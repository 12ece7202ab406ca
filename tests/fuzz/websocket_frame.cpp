// A client's WebSocket bytes: the same messages for every split of the bytes, only messages that a plain
// decoder also finds, and none beyond the bounds; the server's frames are read back.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/plain/utf8.hpp"
#include "http/websocket/codec.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;
using http::Opcode;
using http::WebSocketParser;

namespace {

struct Message {
    Opcode opcode;
    std::string payload;
    bool operator==(const Message&) const = default;
};

struct Transcript {
    std::vector<Message> messages;
    std::optional<http::CloseCode> failure;
    bool operator==(const Transcript&) const = default;
};

Transcript parse(std::string_view bytes, std::size_t piece, std::size_t limit) {
    WebSocketParser parser({limit});
    Transcript seen;
    while (!bytes.empty()) {
        auto part = bytes.substr(0, piece);
        bytes.remove_prefix(part.size());
        while (!part.empty()) {
            const auto step = parser.feed(part);
            require(step.used <= part.size(), "no more is used than there is");
            part.remove_prefix(step.used);
            if (step.outcome == WebSocketParser::Outcome::failed) {
                seen.failure = parser.close_code();
                require(!parser.reason().empty(), "a failure has a reason");
                return seen;
            }
            if (step.outcome == WebSocketParser::Outcome::incomplete) {
                require(part.empty(), "without an outcome all of the input is used");
                break;
            }
            seen.messages.push_back({parser.opcode(), std::string(parser.payload())});
        }
    }
    return seen;
}

std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (const char byte : bytes)
        value = value << 8U | static_cast<unsigned char>(byte);
    return value;
}

// Decodes whole frames by RFC 6455 section 5.2 and joins fragments; checks nothing.
std::vector<Message> decode(std::string_view bytes) {
    std::vector<Message> messages;
    Message joined{Opcode::continuation, ""};
    while (bytes.size() >= 2) {
        const auto first = static_cast<unsigned char>(bytes[0]);
        std::uint64_t size = static_cast<unsigned char>(bytes[1]) & 0x7fU;
        const std::size_t extended = size == 126 ? 2 : size == 127 ? 8 : 0;
        const std::size_t head = 2 + extended + 4;
        if (bytes.size() < head)
            break;
        if (extended > 0)
            size = number(bytes.substr(2, extended));
        if (size > bytes.size() - head)
            break;
        const auto mask = bytes.substr(head - 4, 4);
        std::string payload(bytes.substr(head, size));
        for (std::size_t i = 0; i < payload.size(); ++i)
            payload[i] = static_cast<char>(payload[i] ^ mask[i % 4]);
        bytes.remove_prefix(head + size);
        const auto opcode = static_cast<Opcode>(first & 0xfU);
        if (WebSocketParser::is_control(opcode)) {
            messages.push_back({opcode, std::move(payload)});
            continue;
        }
        if (opcode != Opcode::continuation)
            joined = {opcode, ""};
        joined.payload += payload;
        if ((first & 0x80U) != 0)
            messages.push_back(joined);
    }
    return messages;
}

void check_bounds(const Transcript& seen, std::size_t limit) {
    for (const auto& [opcode, payload] : seen.messages) {
        if (WebSocketParser::is_control(opcode))
            require(payload.size() <= http::k_max_control_bytes, "control frames are short");
        else
            require(payload.size() <= limit, "messages are within the limit");
        require(opcode != Opcode::text || base::is_utf8(payload), "text is UTF-8");
        require(opcode != Opcode::continuation, "fragments are joined");
    }
}

// Reads back the server's frames.
void check_writers(std::string_view payload) {
    std::string frame;
    http::write_frame(frame, Opcode::text, payload);
    const std::size_t head = payload.size() < 126 ? 2 : payload.size() < 65'536 ? 4 : 10;
    require(frame.size() == head + payload.size() && frame.ends_with(payload), "a frame holds its payload");
    const auto length = static_cast<unsigned char>(frame[1]);
    const auto told = head == 2 ? length : number(std::string_view(frame).substr(2, head - 2));
    require(frame[0] == '\x81' && told == payload.size(), "a frame tells its payload's length");
    if (!base::is_utf8(payload))
        return;
    std::string closing;
    http::write_close_frame(closing, http::CloseCode::going_away, payload);
    const auto reason = std::string_view(closing).substr(4);
    require(closing.size() <= 2 + http::k_max_control_bytes && base::is_utf8(reason) &&
                payload.starts_with(reason),
            "the reason of a close frame is cut at a character");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint8_t choice = input.byte();
    const std::size_t piece = 1 + choice % 16U;
    const std::size_t limit = input.byte() * 4UL;
    const std::string_view bytes = input.rest();
    const Transcript whole = parse(bytes, SIZE_MAX, limit);
    require(whole == parse(bytes, piece, limit), "messages do not depend on how their bytes arrive");
    check_bounds(whole, limit);
    const auto decoded = decode(bytes);
    require(whole.messages.size() <= decoded.size() &&
                std::equal(whole.messages.begin(), whole.messages.end(), decoded.begin()),
            "messages are what their frames say");
    require(whole.failure || whole.messages.size() == decoded.size(), "no message is lost");
    check_writers(bytes);
    return 0;
}
