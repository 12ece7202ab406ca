#include "bridge/guest/dial_relay.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_dial_read_bytes = 32UL * 1024;

}  // namespace

DialRelay::~DialRelay() {
    loop_.cancel(deadline_);
    leave_loop();
}

void DialRelay::start(std::function<void()> on_gone) {
    on_gone_ = std::move(on_gone);
    deadline_ = loop_.arm(k_dial_deadline, [this] { give_up(" does not answer"); });
    try_next();
}

void DialRelay::try_next() {
    while (attempt_ != Attempt::none) {
        bool in_progress = false;
        const bool done = connect(in_progress);
        attempt_ = attempt_ == Attempt::ipv4 ? Attempt::ipv6 : Attempt::none;
        if (done)
            return connected();
        if (in_progress && loop_.add(socket_.get(), EPOLLOUT, *this)) {
            waiting_for_ = EPOLLOUT;
            return;
        }
    }
    give_up(" is not listened on");
}

/// True: connected. `in_progress`: the socket becomes writable when it is known.
bool DialRelay::connect(bool& in_progress) {
    sockaddr_in6 ipv6{};
    sockaddr_in ipv4{};
    const bool is_ipv4 = attempt_ == Attempt::ipv4;
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port_);
    ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(port_);
    ipv6.sin6_addr = in6addr_loopback;
    socket_.reset(socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_)
        return false;
    const auto* address =
        is_ipv4 ? reinterpret_cast<const sockaddr*>(&ipv4) : reinterpret_cast<const sockaddr*>(&ipv6);
    const socklen_t size = is_ipv4 ? sizeof ipv4 : sizeof ipv6;
    if (::connect(socket_.get(), address, size) == 0)
        return true;
    in_progress = errno == EINPROGRESS;
    return false;
}

void DialRelay::connected() {
    connecting_ = false;
    loop_.cancel(std::exchange(deadline_, 0));
    const int on = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection_->write(bridge::k_reply_ok);
    connection_->read_input(Connection::HalfClose::told);
    if (connection_ != nullptr)
        watch();
}

void DialRelay::give_up(const char* why) {
    leave_loop();
    socket_.reset();
    connection_->write(
        bridge::encode_refusal("port " + std::to_string(port_) + why, bridge::refusal::no_listener));
    end();
}

void DialRelay::on_ready(std::uint32_t events) {
    if (connecting_) {
        leave_loop();
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        return error == 0 ? connected() : try_next();
    }
    if ((events & EPOLLOUT) != 0) {
        input_waits_ = false;
        connection_->resume_input();
    }
    // A hang-up shows when it is read.
    const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    if (connection_ != nullptr && readable && !output_ended_ && connection_->wants_more())
        read_some();
    if (connection_ != nullptr)
        watch();
}

void DialRelay::read_some() {
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_dial_read_bytes);
    const ssize_t size = recv(socket_.get(), buffer.get(), k_dial_read_bytes, MSG_DONTWAIT);
    if (size > 0)
        return connection_->write({buffer.get(), static_cast<std::size_t>(size)});
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size < 0)
        return end();  // reset: nothing more goes either way
    output_ended_ = true;
    connection_->end_output();
    if (input_ended_)
        end();
}

std::size_t DialRelay::on_input(Connection&, std::string_view bytes) {
    const ssize_t size = send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return bytes.size();  // nobody takes it any more; the end shows when it is read
    const auto taken = static_cast<std::size_t>(size < 0 ? 0 : size);
    input_waits_ = taken < bytes.size();
    watch();
    return taken;
}

void DialRelay::on_input_end(Connection&) {
    input_ended_ = true;
    shutdown(socket_.get(), SHUT_WR);
    if (output_ended_)
        return end();
    watch();
}

void DialRelay::on_drained(Connection&) {
    if (!connecting_)
        watch();
}

void DialRelay::on_closed(Connection&) {
    connection_ = nullptr;
    end();
}

// Out of the loop altogether where nothing is wanted: epoll reports a hang-up also to those who wait for
// nothing.
void DialRelay::watch() {
    const std::uint32_t events = (!output_ended_ && connection_->wants_more() ? std::uint32_t{EPOLLIN} : 0) |
                                 (input_waits_ ? std::uint32_t{EPOLLOUT} : 0);
    if (events == waiting_for_)
        return;
    leave_loop();
    if (events != 0 && !loop_.add(socket_.get(), events, *this))
        return end();
    waiting_for_ = events;
}

void DialRelay::leave_loop() {
    if (waiting_for_ != 0)
        loop_.remove(socket_.get());
    waiting_for_ = 0;
}

/// Bytes that are queued for the host are still sent.
void DialRelay::end() {
    loop_.cancel(std::exchange(deadline_, 0));
    leave_loop();
    socket_.reset();
    if (Connection* const connection = std::exchange(connection_, nullptr)) {
        connection->follow(nullptr);
        connection->break_off();
    }
    if (on_gone_)
        loop_.defer(std::exchange(on_gone_, nullptr));
}

}  // namespace atl::guest
