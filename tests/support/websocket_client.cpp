#include "tests/support/websocket_client.hpp"

#include <stdexcept>

namespace atl::test {
namespace {

constexpr unsigned char k_text = 0x1;
constexpr unsigned char k_close = 0x8;
constexpr unsigned char k_ping = 0x9;
constexpr std::string_view k_mask = "\x37\xfa\x21\x3d";

std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (const char byte : bytes)
        value = value << 8 | static_cast<unsigned char>(byte);
    return value;
}

std::string bytes_of(std::uint64_t value, std::size_t count) {
    std::string out;
    for (std::size_t i = count; i > 0; --i)
        out += static_cast<char>(value >> (8 * (i - 1)) & 0xff);
    return out;
}

}  // namespace

std::string frame_bytes(const ClientFrame& frame) {
    const std::size_t size = frame.payload.size();
    const unsigned mask_bit = frame.masked ? 0x80U : 0U;
    std::string out(1, static_cast<char>(frame.first));
    const std::size_t extended = size < 126 ? 0 : size < 65'536 ? 2 : 8;
    const std::size_t short_length = extended == 0 ? size : extended == 2 ? 126 : 127;
    out += static_cast<char>(mask_bit | short_length);
    out += bytes_of(size, extended);
    if (!frame.masked)
        return out + frame.payload;
    out += k_mask;
    for (std::size_t i = 0; i < size; ++i)
        out += static_cast<char>(frame.payload[i] ^ k_mask[i % k_mask.size()]);
    return out;
}

std::string close_frame_bytes(std::uint16_t code, std::string_view reason) {
    return frame_bytes({.first = 0x88, .payload = bytes_of(code, 2).append(reason)});
}

std::uint16_t ServerFrame::close_code() const {
    return payload.size() < 2 ? 1005 : static_cast<std::uint16_t>(number(payload.substr(0, 2)));
}

std::string ServerFrame::close_reason() const {
    return payload.size() < 2 ? "" : payload.substr(2);
}

WebSocketClient::WebSocketClient(HttpClient http, std::string_view target, Offer offer)
    : http_(std::move(http)) {
    HeaderList headers = k_websocket_headers;
    if (offer == Offer::deflate)
        headers.emplace_back("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits");
    const auto response = http_.request("GET", target, "", headers);
    // The example of RFC 6455 section 1.3.
    if (response.status != 101 || response.header("sec-websocket-accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        throw std::runtime_error("no WebSocket: " + std::to_string(response.status) + ' ' + response.body);
    extensions_ = response.header("sec-websocket-extensions");
}

void WebSocketClient::send_text(std::string_view text) {
    send({.payload = std::string(text)});
}

ServerFrame read_frame(const std::function<std::string(std::size_t)>& read) {
    const std::string head = read(2);
    const auto first = static_cast<unsigned char>(head[0]);
    const auto second = static_cast<unsigned char>(head[1]);
    if ((first & 0xf0) != 0x80 || second > 127)
        throw std::runtime_error("the server's frame is masked, fragmented or has reserved bits");
    std::uint64_t size = second;
    if (second >= 126) {
        size = number(read(second == 126 ? 2 : 8));
        if (size < (second == 126 ? 126U : 65'536U))
            throw std::runtime_error("the length is not in its shortest form");
    }
    return {static_cast<unsigned char>(first & 0x0f), read(size)};
}

ServerFrame WebSocketClient::next(std::chrono::milliseconds deadline) {
    return read_frame([&](std::size_t size) { return http_.read_raw(size, deadline); });
}

std::string WebSocketClient::next_text(std::chrono::milliseconds deadline) {
    for (;;) {
        ServerFrame frame = next(deadline);
        if (frame.opcode == k_text)
            return std::move(frame.payload);
        if (frame.opcode != k_ping)
            throw std::runtime_error("a frame of opcode " + std::to_string(frame.opcode) + ": " +
                                     std::to_string(frame.close_code()) + ' ' + frame.close_reason());
        send({.first = 0x8a, .payload = frame.payload});
    }
}

ServerFrame WebSocketClient::await_close(std::chrono::milliseconds deadline) {
    for (;;) {
        ServerFrame frame = next(deadline);
        if (frame.opcode != k_close)
            continue;
        send({.first = 0x88, .payload = frame.payload.substr(0, 2)});
        if (!http_.closes(deadline))
            throw std::runtime_error("bytes after a close frame");
        return frame;
    }
}

}  // namespace atl::test
