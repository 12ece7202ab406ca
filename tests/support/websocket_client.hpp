// A small blocking WebSocket client for tests: sends any frame, well-formed or not, and checks the server's
// frames against RFC 6455. Its frames are made here, not by the code under test. Every wait has a deadline
// and throws std::runtime_error when it passes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tests/support/http_client.hpp"

namespace atl::test {

/// The first byte of a frame, and how its payload goes.
struct ClientFrame {
    unsigned char first = 0x81;  // FIN, RSV and opcode: a text by default
    std::string payload;
    bool masked = true;
};

/// The bytes of a client's frame, masked with a key that is not zero.
std::string frame_bytes(const ClientFrame& frame);
/// A client's close frame.
std::string close_frame_bytes(std::uint16_t code, std::string_view reason = "");

struct ServerFrame {
    unsigned char opcode = 0;
    std::string payload;

    /// The code of a close frame; 1005 without one.
    std::uint16_t close_code() const;
    std::string close_reason() const;
};

/// The server's next frame, its bytes taken from `read`. Throws for a frame that a server must not send:
/// masked, fragmented, reserved bits, a length not in its shortest form.
ServerFrame read_frame(const std::function<std::string(std::size_t)>& read);

inline const HeaderList k_websocket_headers{{"Connection", "keep-alive, Upgrade"},
                                            {"Upgrade", "websocket"},
                                            {"Sec-WebSocket-Version", "13"},
                                            {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};

/// The extensions that a client offers: none, or permessage-deflate as browsers do (RFC 7692).
enum class Offer : std::uint8_t { none, deflate };

class WebSocketClient {
  public:
    /// Takes a client whose key is set, and opens a WebSocket; throws if the server refuses.
    WebSocketClient(HttpClient http, std::string_view target, Offer offer = Offer::none);

    /// The server's answer to the offer.
    const std::string& extensions() const noexcept { return extensions_; }

    HttpClient& http() noexcept { return http_; }
    void send_text(std::string_view text);
    void send(const ClientFrame& frame) { http_.send_raw(frame_bytes(frame)); }
    void send_raw(std::string_view bytes) { http_.send_raw(bytes); }
    /// The next frame, pings and pongs included. Throws at the end of the connection, and where read_frame()
    /// does.
    ServerFrame next(std::chrono::milliseconds deadline = k_client_deadline);
    /// The next text frame; pings before it are answered.
    std::string next_text(std::chrono::milliseconds deadline = k_client_deadline);
    /// Waits for the server's close frame, drops the frames before it, answers it, and waits for the end of
    /// the connection.
    ServerFrame await_close(std::chrono::milliseconds deadline = k_client_deadline);

  private:
    HttpClient http_;
    std::string extensions_;
};

}  // namespace atl::test
