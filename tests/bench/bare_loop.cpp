#include "tests/bench/bare_loop.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/own_priority.hpp"
#include "core/plain/unique_fd.hpp"
#include "tests/bench/bare_log.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

using base::UniqueFd;

constexpr std::size_t k_read_bytes = 16 * 1024;
constexpr int k_max_events = 64;
constexpr std::string_view k_event_lines = R"({"ev":"message","data":{"role":"assistant","content":"hello"}})"
                                           "\n"
                                           R"({"ev":"done","data":{}})"
                                           "\n";

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void add(int poller, int fd, std::uint64_t tag) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
    if (::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

void send_all(int fd, std::string_view text) {
    if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
        fail("send");
}

/// The process at the other end of the Unix sockets: answers each line with two.
void run_peer(const std::vector<UniqueFd>& sockets) {
    const UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < sockets.size(); ++i)
        add(poller.get(), sockets[i].get(), i);
    std::array<epoll_event, k_max_events> events;
    std::array<char, k_read_bytes> buffer;
    for (;;) {
        const int count = ::epoll_wait(poller.get(), events.data(), k_max_events, -1);
        for (int i = 0; i < count; ++i) {
            const int fd = sockets[events[static_cast<std::size_t>(i)].data.u64].get();
            if (::recv(fd, buffer.data(), buffer.size(), 0) <= 0)
                return;
            send_all(fd, k_event_lines);
        }
    }
}

/// True when `request` holds a whole request: the head and as much body as it announces.
bool complete(std::string_view request) {
    const std::size_t end = request.find("\r\n\r\n");
    if (end == std::string_view::npos)
        return false;
    constexpr std::string_view name = "Content-Length: ";
    const std::size_t field = request.find(name);
    std::size_t length = 0;
    if (field < end)
        std::from_chars(request.data() + field + name.size(), request.data() + end, length);
    return request.size() - end - 4 >= length;
}

class Loop {
  public:
    Loop(UniqueFd listener, const std::vector<UniqueFd>& peers, const std::filesystem::path& database)
        : poller_(::epoll_create1(EPOLL_CLOEXEC)),
          listener_(std::move(listener)),
          peers_(peers),
          clients_(peers.size()),
          turns_(peers.size()) {
        if (!database.empty())
            log_ = std::make_unique<BareLog>(database);
        add(poller_.get(), listener_.get(), k_listener);
        for (std::size_t i = 0; i < peers.size(); ++i)
            add(poller_.get(), peers[i].get(), k_peer | i);
    }

    [[noreturn]] void run() {
        std::array<epoll_event, k_max_events> events;
        for (;;) {
            const int count = ::epoll_wait(poller_.get(), events.data(), k_max_events, -1);
            for (int i = 0; i < count; ++i)
                handle(events[static_cast<std::size_t>(i)].data.u64);
            finish();
        }
    }

  private:
    static constexpr std::uint64_t k_listener = 1ULL << 32;
    static constexpr std::uint64_t k_peer = 1ULL << 33;

    struct Client {
        UniqueFd fd;
        std::string request;
        std::string lines;
    };

    void handle(std::uint64_t tag) {
        if (tag == k_listener)
            accept();
        else if (tag & k_peer)
            read_peer(tag & ~k_peer);
        else
            read_client(tag);
    }

    void accept() {
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            if (clients_[i].fd)
                continue;
            clients_[i].fd.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const int on = 1;
            ::setsockopt(clients_[i].fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            add(poller_.get(), clients_[i].fd.get(), i);
            return;
        }
        throw std::runtime_error("more clients than places");
    }

    void read_client(std::size_t index) {
        Client& client = clients_[index];
        const ssize_t count = ::recv(client.fd.get(), buffer_.data(), buffer_.size(), 0);
        if (count <= 0) {
            client.fd.reset();
            return;
        }
        client.request.append(buffer_.data(), static_cast<std::size_t>(count));
        if (!complete(client.request))
            return;
        const std::size_t body = client.request.find("\r\n\r\n") + 4;
        std::string line = R"({"cmd":"query","prompt":)";
        line.append(client.request, body).append("}\n");
        client.request.clear();
        send_all(peers_[index].get(), line);
    }

    void read_peer(std::size_t index) {
        Client& client = clients_[index];
        const ssize_t count = ::recv(peers_[index].get(), buffer_.data(), buffer_.size(), 0);
        if (count <= 0)
            throw std::runtime_error("the peer is gone");
        client.lines.append(buffer_.data(), static_cast<std::size_t>(count));
        if (client.lines.size() < k_event_lines.size())
            return;
        if (log_ && finished_.empty())
            log_->begin();
        if (log_)
            log_->turn(static_cast<std::int64_t>(index), turns_[index]++, client.lines);
        finished_.push_back(index);
    }

    /// Commits what this turn of the loop has brought, then delivers it.
    void finish() {
        if (log_ && !finished_.empty())
            log_->commit();
        for (const std::size_t index : finished_) {
            Client& client = clients_[index];
            std::array<char, 16> size;
            const auto [end, error] =
                std::to_chars(size.data(), size.data() + size.size(), client.lines.size(), 16);
            std::string response =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                "Transfer-Encoding: chunked\r\n\r\n";
            response.append(size.data(), end).append("\r\n").append(client.lines).append("\r\n0\r\n\r\n");
            client.lines.clear();
            send_all(client.fd.get(), response);
        }
        finished_.clear();
    }

    UniqueFd poller_;
    UniqueFd listener_;
    const std::vector<UniqueFd>& peers_;
    std::vector<Client> clients_;
    std::vector<std::int64_t> turns_;
    std::vector<std::size_t> finished_;
    std::unique_ptr<BareLog> log_;
    std::array<char, k_read_bytes> buffer_;
};

}  // namespace

BareLoop::BareLoop(std::size_t connections, Persist persist, int nice) {
    std::vector<UniqueFd> ours;
    std::vector<UniqueFd> theirs;
    for (std::size_t i = 0; i < connections; ++i) {
        SocketPair pair;
        ours.push_back(std::move(pair.ours));
        theirs.push_back(std::move(pair.theirs));
    }
    LoopbackListener listener;
    port_ = listener.port;
    peer_ = std::make_unique<Child>([&] {
        ours.clear();
        run_peer(theirs);
    });
    loop_ = std::make_unique<Child>([&] {
        theirs.clear();
        if (nice < 0)
            base::set_own_priority(nice);
        Loop loop(std::move(listener.fd), ours, persist == Persist::sqlite ? dir_.path() / "floor.db" : "");
        loop.run();
    });
}

}  // namespace atl::bench
