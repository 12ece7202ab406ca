// WebSockets over connections in memory, in time that stands still.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/socket_server.hpp"

namespace atl::test {

class FakeWebSocket {
  public:
    explicit FakeWebSocket(FakeServer& server, const std::string& request = handshake("", ""))
        : server_(server), peer_(server.connect()) {
        peer_->send(request);
        received_ = server_.take(*peer_);
        REQUIRE(received_.starts_with("HTTP/1.1 101 "));
        received_.erase(0, received_.find("\r\n\r\n") + 4);
    }

    FakePeer& peer() noexcept { return *peer_; }
    void send_raw(std::string_view bytes) {
        peer_->send(bytes);
        server_.run();
    }
    void send(const ClientFrame& frame) { send_raw(frame_bytes(frame)); }
    /// The next frame that is there, if any.
    std::optional<ServerFrame> next() {
        received_ += server_.take(*peer_);
        if (received_.empty())
            return std::nullopt;
        const auto read = [this](std::size_t size) {
            REQUIRE(received_.size() >= size);
            const std::string bytes = received_.substr(0, size);
            received_.erase(0, size);
            return bytes;
        };
        return read_frame(read);
    }
    /// The opcode of the next frame that is there; -1: none is.
    int next_opcode() {
        const auto frame = next();
        return frame ? frame->opcode : -1;
    }

  private:
    FakeServer& server_;
    std::shared_ptr<FakePeer> peer_;
    std::string received_;
};

class FakeSocketServer final : public SocketRoutes, public FakeServer {
  public:
    explicit FakeSocketServer(const TestSettings& settings = {}) : FakeServer(settings, routes()) {}

    FakeWebSocket open() { return FakeWebSocket(*this); }
    /// With another request that opens it.
    FakeWebSocket open_with(const std::string& request) { return FakeWebSocket(*this, request); }
    void publish(std::size_t count = 1, std::size_t bytes = 0) {
        add_events(count, bytes);
        wake_all();
        run();
    }
};

}  // namespace atl::test
