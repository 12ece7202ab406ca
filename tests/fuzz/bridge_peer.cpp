#include "tests/fuzz/bridge_peer.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cstring>

#include "tests/fuzz/support.hpp"

namespace atl::fuzz {

base::TimerId HandTimers::arm(base::Millis, std::function<void()> fire) {
    armed_.emplace(++last_id_, std::move(fire));
    return last_id_;
}

void HandTimers::defer(std::function<void()> run) {
    boost::asio::post(loop_, std::move(run));
}

bool HandTimers::fire_one() {
    if (armed_.empty())
        return false;
    const auto fire = std::move(armed_.begin()->second);
    armed_.erase(armed_.begin());
    fire();
    return true;
}

BridgePeer::BridgePeer()
    : context_(std::make_shared<bridge::StreamContext>(loop_.get_executor(), timers_)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    char folder[] = "/tmp/atoll-fuzz-XXXXXX";
    require(::mkdtemp(folder) != nullptr, "a folder for the socket can be made");
    const std::string file = std::string(folder) + "/s";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, file.c_str(), file.size() + 1);
    require(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                ::listen(listener_.get(), 8) == 0,
            "the socket can be listened on");
    name_.reset(::open(file.c_str(), O_PATH | O_CLOEXEC));
    require(static_cast<bool>(name_), "the socket can be opened");
    ::unlink(file.c_str());
    ::rmdir(folder);
    path_ = "/proc/self/fd/" + std::to_string(name_.get());
}

void BridgePeer::settle() {
    do {
        loop_.restart();
        while (loop_.poll() != 0) {
        }
    } while (timers_.fire_one());
}

base::UniqueFd BridgePeer::accept() {
    return base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool BridgePeer::send(const base::UniqueFd& connection, std::string_view text) {
    const ssize_t size = ::send(connection.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    settle();
    return size == static_cast<ssize_t>(text.size());
}

std::string BridgePeer::received(const base::UniqueFd& connection) {
    std::string text;
    char chunk[4096];
    for (;;) {
        const ssize_t size = ::recv(connection.get(), chunk, sizeof chunk, MSG_DONTWAIT);
        if (size <= 0)
            return text;
        text.append(chunk, static_cast<std::size_t>(size));
    }
}

}  // namespace atl::fuzz
