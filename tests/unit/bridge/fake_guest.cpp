#include "fake_guest.hpp"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>

namespace atl::test {

base::TimerId HandTimers::arm(base::Millis delay, std::function<void()> fire) {
    armed_.emplace(++last_id_, std::pair(now_ + delay, std::move(fire)));
    return last_id_;
}

void HandTimers::defer(std::function<void()> run) {
    boost::asio::post(loop_, std::move(run));
}

void HandTimers::advance(base::Millis time) {
    const base::Millis until = now_ + time;
    for (;;) {
        auto next = armed_.end();
        for (auto it = armed_.begin(); it != armed_.end(); ++it)
            if (it->second.first <= until && (next == armed_.end() || it->second.first < next->second.first))
                next = it;
        if (next == armed_.end())
            break;
        now_ = next->second.first;
        const auto fire = std::move(next->second.second);
        armed_.erase(next);
        fire();
    }
    now_ = until;
}

std::string FakePeer::received() {
    std::string text;
    char chunk[4096];
    for (;;) {
        const ssize_t size = recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
        if (size <= 0)
            return text;
        text.append(chunk, static_cast<std::size_t>(size));
    }
}

bool FakePeer::send(std::string_view text) {
    const ssize_t size = ::send(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return size == static_cast<ssize_t>(text.size());
}

bool FakePeer::at_end() {
    received();
    char byte;
    const ssize_t size = recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return size == 0 || (size < 0 && errno != EAGAIN);
}

FakeGuest::FakeGuest(int backlog) {
    char name[] = "/tmp/atoll-bridge-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    directory_ = name;
    path_ = directory_ + "/bridge.sock";
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    REQUIRE(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), backlog) == 0);
}

FakeGuest::~FakeGuest() {
    std::filesystem::remove_all(directory_);
}

FakePeer FakeGuest::accept() {
    FakePeer peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    REQUIRE(peer.fd() >= 0);
    return peer;
}

bool FakeGuest::has_connection() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
}

}  // namespace atl::test
