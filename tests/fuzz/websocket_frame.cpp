// A client's WebSocket bytes, with and without permessage-deflate: the same messages for every split of the
// bytes, only messages that a plain decoder also finds, and none beyond the bounds; the server's compressed
// messages are read back.
#include <zlib.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/plain/utf8.hpp"
#include "http/websocket/codec.hpp"
#include "http/websocket/extensions.hpp"
#include "http/wire/text.hpp"
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

Transcript parse(std::string_view bytes, std::size_t piece, std::size_t limit, http::Inflater* inflater) {
    WebSocketParser parser({limit}, inflater);
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

// Inflates a whole payload, with one call of zlib for each stream in it; cuts the message at `limit`.
std::string plainly_inflated(const std::string& payload, std::size_t limit) {
    std::string input = payload + std::string("\0\0\xff\xff", 4);
    std::string out(limit + 1, '\0');
    z_stream stream{};
    require(::inflateInit2(&stream, -15) == Z_OK, "zlib starts");
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    while (::inflate(&stream, Z_SYNC_FLUSH) == Z_STREAM_END && stream.avail_in > 0)
        ::inflateReset(&stream);
    out.resize(out.size() - stream.avail_out);
    ::inflateEnd(&stream);
    return out;
}

// Decodes whole frames by RFC 6455 section 5.2 and joins fragments; checks nothing.
std::vector<Message> decode(std::string_view bytes, std::size_t limit) {
    std::vector<Message> messages;
    Message joined{Opcode::continuation, ""};
    bool deflated = false;
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
        if (opcode != Opcode::continuation) {
            joined = {opcode, ""};
            deflated = (first & 0x40U) != 0;
        }
        joined.payload += payload;
        if ((first & 0x80U) != 0)
            messages.push_back(
                {joined.opcode, deflated ? plainly_inflated(joined.payload, limit) : joined.payload});
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

// Reads back the server's compression of any bytes, also with a client's bound on the window.
void check_deflate(std::string_view text) {
    static http::Deflater s_deflater;
    static http::Inflater s_inflater;
    std::string payload;
    std::string inflated;
    require(s_deflater.deflate(text, 2 * text.size() + 64, payload), "anything can be compressed with room");
    require(s_inflater.inflate(payload, text.size(), inflated) == http::Inflater::Outcome::done &&
                inflated == text,
            "what is compressed is read back");
    require(text.empty() ||
                s_inflater.inflate(payload, text.size() - 1, inflated) == http::Inflater::Outcome::too_long,
            "a bound of one less does not hold it");
    std::string again;
    require(s_deflater.deflate(text, payload.size(), again) && again == payload, "no state is left");
    require(payload.size() < 2 || !s_deflater.deflate(text, payload.size() - 1, again), "a limit holds");
    if (s_inflater.inflate(text, 4096, inflated) == http::Inflater::Outcome::done)
        require(inflated == plainly_inflated(std::string(text), 4096), "zlib alone reads the same");
}

// Checks any text as the offer of a client.
void check_offer(std::string_view text) {
    http::Request request;
    request.fields.push_back({http::k_extensions_field, text});
    const auto wanted = http::agree_on_extensions(request, http::Compression::deflate);
    const auto unwanted = http::agree_on_extensions(request, http::Compression::none);
    require(wanted.has_error() == unwanted.has_error(), "what is no list does not depend on what is wanted");
    if (wanted.has_error())
        return;
    require(unwanted->response.empty(), "who does not want to compress declines");
    require(wanted->response.empty() || text.find("permessage-deflate") != std::string_view::npos,
            "nothing is answered that was not offered");
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
    static http::Inflater s_inflater;
    http::Inflater* const inflater = (choice & 0x80U) != 0 ? &s_inflater : nullptr;
    const std::size_t limit = input.byte() * 4UL;
    const std::string_view bytes = input.rest();
    const Transcript whole = parse(bytes, SIZE_MAX, limit, inflater);
    require(whole == parse(bytes, piece, limit, inflater),
            "messages do not depend on how their bytes arrive");
    check_bounds(whole, limit);
    const auto decoded = decode(bytes, limit);
    require(whole.messages.size() <= decoded.size() &&
                std::equal(whole.messages.begin(), whole.messages.end(), decoded.begin()),
            "messages are what their frames say");
    require(whole.failure || whole.messages.size() == decoded.size(), "no message is lost");
    check_writers(bytes);
    check_deflate(bytes);
    check_offer(bytes);
    return 0;
}
