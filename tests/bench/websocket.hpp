// The load client's WebSocket: opens one on a conversation, sends small masked frames, counts what comes. It
// trusts the server, as http_client.hpp does.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/sample.hpp"

namespace atl::bench {

/// Finds the frames in what a server sends.
class FrameReader {
  public:
    /// Adds what has arrived and calls `on_frame` with the payload of each message that is now complete.
    /// Throws for a close frame. True if there was a ping, which wants its pong.
    template <class OnFrame>
    bool feed(std::string_view bytes, OnFrame on_frame) {
        // The usual case: whole frames, looked at where they were received.
        const bool pieced = !pending_.empty();
        if (pieced)
            pending_ += bytes;
        std::string_view rest = pieced ? std::string_view(pending_) : bytes;
        bool pinged = false;
        for (std::size_t size = 0; (size = whole_frame(rest)) != 0; rest.remove_prefix(size)) {
            const auto payload = rest.substr(head_size(rest), size - head_size(rest));
            if (rest.front() == k_close)
                throw std::runtime_error("the server closed a WebSocket: " + std::string(payload.substr(2)));
            pinged = pinged || rest.front() == k_ping;
            if (rest.front() == k_text || rest.front() == k_binary)
                on_frame(payload);
        }
        if (pieced)
            pending_.erase(0, pending_.size() - rest.size());
        else
            pending_ = rest;
        return pinged;
    }

  private:
    static constexpr char k_text = '\x81';
    static constexpr char k_binary = '\x82';
    static constexpr char k_close = '\x88';
    static constexpr char k_ping = '\x89';
    static std::size_t head_size(std::string_view bytes);
    /// Bytes of the first frame; 0 if it is not all there.
    static std::size_t whole_frame(std::string_view bytes);

    std::string pending_;
};

class WebSocket {
  public:
    /// Connects to the loopback port. With a `target` it opens a WebSocket; throws unless the server takes
    /// it.
    WebSocket(std::uint16_t port, const std::string& target, const std::string& key,
              const std::string& host = "127.0.0.1");

    int fd() const { return fd_.get(); }
    /// At most 125 bytes.
    void send_text(std::string_view text);
    void send_binary(std::string_view bytes);
    /// Calls `wanted` with each payload that arrives, first with those that came with the handshake, until it
    /// returns true. Throws after 30 s.
    void await(const std::function<bool(std::string_view payload)>& wanted);
    /// Takes what has arrived without waiting. Returns of how many turns the `done` was in it.
    std::size_t receive_done();
    /// The same of what came with the handshake.
    bool take_early_done() { return std::exchange(early_done_, false); }
    /// Waits for as many bytes as the next read brings; for raw counting.
    std::string receive_some();

    /// Sends bytes as they are.
    void send(std::string_view frame);

  private:
    void send_message(char type, std::string_view payload);

    base::UniqueFd fd_;
    FrameReader reader_;
    bool early_done_ = false;
    std::vector<std::string> early_;  // payloads that came with the handshake, for await()
};

/// Waits until each of `sockets` has got the `done` of a turn; throws after 30 s.
void await_all_done(std::vector<WebSocket>& sockets);

/// Raises the limit of open files to the hard limit; throws if that is below `wanted`.
void allow_open_files(std::size_t wanted);

}  // namespace atl::bench
