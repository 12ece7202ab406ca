#include "tests/bench/http_client.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace atl::bench {
namespace {

constexpr time_t k_exchange_seconds = 30;
constexpr std::size_t k_read_bytes = 64 * 1024;

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
    if (a.size() != b.size())
        return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if ((a[i] | 0x20) != (b[i] | 0x20))
            return false;
    }
    return true;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ')
        text.remove_prefix(1);
    return text;
}

}  // namespace

void ResponseReader::reset() {
    state_ = State::head;
    pending_.clear();
    at_ = 0;
    left_ = 0;
    status_ = 0;
    body_.clear();
}

void ResponseReader::feed(std::string_view data) {
    pending_.append(data);
    while (state_ != State::done && step()) {
    }
}

bool ResponseReader::step() {
    switch (state_) {
        case State::head:
            return read_head();
        case State::chunk_size:
            return read_chunk_size();
        case State::sized:
        case State::chunk_data: {
            const std::size_t bytes = std::min(left_, pending_.size() - at_);
            body_.append(pending_, at_, bytes);
            at_ += bytes;
            left_ -= bytes;
            if (left_ > 0)
                return false;
            state_ = state_ == State::sized ? State::done : State::chunk_end;
            return true;
        }
        case State::chunk_end:
            if (!take(2))
                return false;
            state_ = State::chunk_size;
            return true;
        case State::trailer:
            if (!take(2))
                return false;
            state_ = State::done;
            return true;
        case State::done:
            break;
    }
    return false;
}

bool ResponseReader::take(std::size_t end_bytes) {
    if (pending_.size() - at_ < end_bytes)
        return false;
    at_ += end_bytes;
    return true;
}

bool ResponseReader::read_head() {
    const std::size_t end = pending_.find("\r\n\r\n", at_);
    if (end == std::string::npos)
        return false;
    const std::string_view head = std::string_view(pending_).substr(at_, end - at_);
    if (head.size() < 12 || head.substr(0, 9) != "HTTP/1.1 ")
        throw std::runtime_error("not an HTTP/1.1 response");
    std::from_chars(head.data() + 9, head.data() + 12, status_);
    bool chunked = false;
    left_ = 0;
    for (std::size_t line = head.find("\r\n"); line != std::string_view::npos;) {
        const std::size_t next = head.find("\r\n", line + 2);
        const std::string_view field =
            head.substr(line + 2, next == std::string_view::npos ? next : next - line - 2);
        const std::size_t colon = field.find(':');
        const std::string_view value =
            colon == std::string_view::npos ? "" : trimmed(field.substr(colon + 1));
        if (equals_ignoring_case(field.substr(0, colon), "content-length"))
            std::from_chars(value.data(), value.data() + value.size(), left_);
        else if (equals_ignoring_case(field.substr(0, colon), "transfer-encoding"))
            chunked = equals_ignoring_case(value, "chunked");
        line = next;
    }
    at_ = end + 4;
    state_ = chunked ? State::chunk_size : left_ > 0 ? State::sized : State::done;
    return true;
}

bool ResponseReader::read_chunk_size() {
    const std::size_t end = pending_.find("\r\n", at_);
    if (end == std::string::npos)
        return false;
    std::size_t size = 0;
    const auto [stopped, error] = std::from_chars(pending_.data() + at_, pending_.data() + end, size, 16);
    if (error != std::errc() || stopped == pending_.data() + at_)
        throw std::runtime_error("not a chunk size");
    at_ = end + 2;
    left_ = size;
    state_ = size == 0 ? State::trailer : State::chunk_data;
    return true;
}

std::string request_text(std::string_view method, std::string_view target, std::string_view key,
                         std::string_view body, Accept accept) {
    std::string text(method);
    text.append(" ").append(target).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: ");
    text.append(accept == Accept::json ? "application/json" : "text/event-stream").append("\r\n");
    if (!key.empty())
        text.append("Authorization: Bearer ").append(key).append("\r\n");
    if (!body.empty()) {
        text.append("Content-Type: application/json\r\nContent-Length: ").append(std::to_string(body.size()));
        text.append("\r\n");
    }
    return text.append("\r\n").append(body);
}

base::UniqueFd connect_to(std::uint16_t port, int wait_seconds) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail("connect");
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval limit{.tv_sec = wait_seconds, .tv_usec = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

Connection::Connection(std::uint16_t port) : fd_(connect_to(port, k_exchange_seconds)) {}

void Connection::send(std::string_view request) {
    reader_.reset();
    sent_ = Clock::now();
    while (!request.empty()) {
        const ssize_t count = ::send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL);
        if (count < 0)
            fail("send");
        request.remove_prefix(static_cast<std::size_t>(count));
    }
}

bool Connection::receive() {
    std::array<char, k_read_bytes> buffer;
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count == 0)
        throw std::runtime_error("the server closed a connection in the middle of a response");
    if (count < 0 && errno != EAGAIN && errno != EINTR)
        fail("recv");
    if (count > 0)
        reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
    return reader_.done();
}

Response Connection::exchange(std::string_view request) {
    send(request);
    std::array<char, k_read_bytes> buffer;
    while (!reader_.done()) {
        const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
        if (count == 0)
            throw std::runtime_error("the server closed a connection in the middle of a response");
        if (count < 0)
            fail("recv");
        reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
    }
    return {reader_.status(), reader_.body()};
}

std::size_t drive(std::vector<Connection>& connections, std::span<const std::string> first,
                  const OnResponse& on_response, Clock::time_point deadline) {
    const base::UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < connections.size(); ++i) {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
        if (::epoll_ctl(poller.get(), EPOLL_CTL_ADD, connections[i].fd(), &event) != 0)
            fail("epoll_ctl");
    }
    for (std::size_t i = 0; i < connections.size(); ++i)
        connections[i].send(first[i]);
    std::size_t waiting = connections.size();
    std::array<epoll_event, 64> events;
    while (waiting > 0 && Clock::now() < deadline) {
        const int count = ::epoll_wait(poller.get(), events.data(), events.size(), 100);
        for (int i = 0; i < count; ++i) {
            const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
            Connection& connection = connections[index];
            if (!connection.receive())
                continue;
            const std::string_view next = on_response(index, connection);
            if (next.empty())
                --waiting;
            else
                connection.send(next);
        }
    }
    return waiting;
}

}  // namespace atl::bench
