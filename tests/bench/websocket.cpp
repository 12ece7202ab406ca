#include "tests/bench/websocket.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "tests/bench/http_client.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_read_bytes = 256UL * 1024;
constexpr int k_wait_seconds = 30;
constexpr std::string_view k_pong("\x8a\x80\0\0\0\0", 6);
constexpr std::string_view k_done = R"("type":"done")";
// The type of an event's object comes within these bytes.
constexpr std::size_t k_type_within = 64;

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

bool is_done(std::string_view payload) {
    return payload.substr(0, k_type_within).find(k_done) != std::string_view::npos;
}

std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (const char byte : bytes)
        value = value << 8 | static_cast<unsigned char>(byte);
    return value;
}

char* read_buffer() {
    static std::array<char, k_read_bytes> buffer;
    return buffer.data();
}

}  // namespace

std::size_t FrameReader::head_size(std::string_view bytes) {
    const auto length = static_cast<unsigned char>(bytes[1]);
    return length < 126 ? 2 : length == 126 ? 4 : 10;
}

std::size_t FrameReader::whole_frame(std::string_view bytes) {
    if (bytes.size() < 2 || bytes.size() < head_size(bytes))
        return 0;
    const std::size_t head = head_size(bytes);
    const std::size_t payload =
        head == 2 ? static_cast<unsigned char>(bytes[1]) : number(bytes.substr(2, head - 2));
    return bytes.size() < head + payload ? 0 : head + payload;
}

WebSocket::WebSocket(std::uint16_t port, const std::string& target, const std::string& key,
                     const std::string& host)
    : fd_(connect_to(port, k_wait_seconds)) {
    if (target.empty())
        return;
    const std::string request =
        "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + key +
        "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    if (::send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
        fail("send");
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos)
        head += receive_some();
    if (head.substr(0, 12) != "HTTP/1.1 101")
        throw std::runtime_error("the WebSocket was refused: " + head);
    reader_.feed(head.substr(head.find("\r\n\r\n") + 4), [&](std::string_view payload) {
        early_done_ = is_done(payload) || early_done_;
        early_.emplace_back(payload);
    });
}

void WebSocket::send_text(std::string_view text) {
    send_message('\x81', text);
}

void WebSocket::send_binary(std::string_view bytes) {
    send_message('\x82', bytes);
}

void WebSocket::send_message(char type, std::string_view payload) {
    if (payload.size() > 125)
        throw std::logic_error("only short messages");
    // A mask of zeros: the client need not be slower than it is.
    std::string frame{type, static_cast<char>(0x80 | payload.size()), 0, 0, 0, 0};
    frame += payload;
    send(frame);
}

void WebSocket::send(std::string_view frame) {
    if (::send(fd_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size()))
        fail("send");
}

std::string WebSocket::receive_some() {
    const ssize_t count = ::recv(fd_.get(), read_buffer(), k_read_bytes, 0);
    if (count < 0)
        fail("recv");
    if (count == 0)
        throw std::runtime_error("the server closed a WebSocket");
    return {read_buffer(), static_cast<std::size_t>(count)};
}

void WebSocket::await(const std::function<bool(std::string_view payload)>& wanted) {
    bool found = false;
    for (const std::string& payload : std::exchange(early_, {}))
        found = wanted(payload) || found;
    // Pings would let a deadline of each read never pass.
    for (const auto began = Clock::now(); !found;) {
        if (ms_since(began) > k_wait_seconds * 1000.0)
            throw std::runtime_error("a WebSocket did not get the frame that it waited for");
        if (reader_.feed(receive_some(), [&](std::string_view payload) { found = wanted(payload) || found; }))
            send(k_pong);
    }
}

std::size_t WebSocket::receive_done() {
    const ssize_t count = ::recv(fd_.get(), read_buffer(), k_read_bytes, MSG_DONTWAIT);
    if (count == 0)
        throw std::runtime_error("the server closed a WebSocket");
    if (count < 0 && errno != EAGAIN && errno != EINTR)
        fail("recv");
    std::size_t done = 0;
    const auto look = [&](std::string_view payload) { done += is_done(payload) ? 1 : 0; };
    if (count > 0 && reader_.feed({read_buffer(), static_cast<std::size_t>(count)}, look))
        send(k_pong);
    return done;
}

void await_all_done(std::vector<WebSocket>& sockets) {
    const base::UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < sockets.size(); ++i) {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
        if (::epoll_ctl(poller.get(), EPOLL_CTL_ADD, sockets[i].fd(), &event) != 0)
            fail("epoll_ctl");
    }
    const auto began = Clock::now();
    std::array<epoll_event, 256> events;
    std::size_t waiting = sockets.size();
    for (WebSocket& socket : sockets)
        waiting -= socket.take_early_done() ? 1 : 0;
    while (waiting > 0) {
        if (ms_since(began) > k_wait_seconds * 1000.0)
            throw std::runtime_error(std::to_string(waiting) + " WebSockets did not get the end of a turn");
        const int count = ::epoll_wait(poller.get(), events.data(), events.size(), 1000);
        for (int i = 0; i < count; ++i) {
            if (sockets[events[static_cast<std::size_t>(i)].data.u64].receive_done() > 0)
                --waiting;
        }
    }
}

void allow_open_files(std::size_t wanted) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        throw std::runtime_error("the limit of open files is " + std::to_string(limit.rlim_cur) + "; " +
                                 std::to_string(wanted) + " are needed");
}

}  // namespace atl::bench
