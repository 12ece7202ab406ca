// The server that the measured previews show: on port 5173 of a sandbox's loopback, it does as little as it
// can. It answers GET / with 512 bytes and GET /big with 100 MB, reads the body of a PUT, and echoes short
// frames after an upgrade. A connection has one request at a time. It trusts its clients: they are the
// bench's own, behind a proxy.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint16_t k_port = 5173;
constexpr std::size_t k_small_bytes = 512;
constexpr std::size_t k_big_bytes = 100'000'000;
constexpr std::size_t k_buffer_bytes = 256UL * 1024;
// The head of a frame from a client with at most 125 bytes: type, length, mask.
constexpr std::size_t k_frame_head_bytes = 6;

// Its accepted key is the one of the RFC's example, which the bench sends.
constexpr std::string_view k_upgraded =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

struct Client {
    std::string input;           // of a head or a frame that is not whole
    std::size_t to_send = 0;     // of a large body
    std::size_t to_receive = 0;  // of a request's body
    bool is_tunnel = false;
};

class Server {
  public:
    int run() {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        const int on = 1;
        ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(k_port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listener_, SOMAXCONN) != 0)
            return 1;
        poller_ = ::epoll_create1(0);
        watch(EPOLL_CTL_ADD, listener_, EPOLLIN);
        std::array<epoll_event, 128> events;
        for (;;) {
            const int count = ::epoll_wait(poller_, events.data(), events.size(), -1);
            for (int i = 0; i < count; ++i)
                serve(events[static_cast<std::size_t>(i)]);
        }
    }

  private:
    void watch(int what, int fd, std::uint32_t events) const {
        epoll_event event{.events = events, .data = {.fd = fd}};
        ::epoll_ctl(poller_, what, fd, &event);
    }

    void serve(const epoll_event& event) {
        const int fd = event.data.fd;
        if (fd == listener_)
            return accept_all();
        bool is_alive = true;
        if ((event.events & EPOLLOUT) != 0)
            is_alive = send_body(fd);
        else
            is_alive = receive(fd);
        if (is_alive)
            return;
        clients_[static_cast<std::size_t>(fd)] = {};
        ::close(fd);
    }

    void accept_all() {
        for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
            const int on = 1;
            ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            if (clients_.size() <= static_cast<std::size_t>(fd))
                clients_.resize(static_cast<std::size_t>(fd) + 1);
            watch(EPOLL_CTL_ADD, fd, EPOLLIN);
        }
    }

    // False: the client has gone.
    bool receive(int fd) {
        const ssize_t count = ::recv(fd, buffer_.data(), buffer_.size(), 0);
        if (count <= 0)
            return count < 0 && errno == EAGAIN;
        Client& client = clients_[static_cast<std::size_t>(fd)];
        std::string_view bytes(buffer_.data(), static_cast<std::size_t>(count));
        if (client.to_receive > 0) {
            const std::size_t taken = std::min(client.to_receive, bytes.size());
            client.to_receive -= taken;
            return client.to_receive > 0 || send(fd, small_);
        }
        if (!client.input.empty()) {
            client.input += bytes;
            bytes = client.input;
        }
        std::string_view rest = bytes;
        const bool is_alive = client.is_tunnel ? echo(fd, rest) : answer(fd, client, rest);
        client.input = std::string(rest);
        return is_alive;
    }

    bool answer(int fd, Client& client, std::string_view& bytes) {
        const std::size_t end = bytes.find("\r\n\r\n");
        if (end == std::string_view::npos)
            return true;
        const std::string_view head = bytes.substr(0, end + 2);
        bytes.remove_prefix(end + 4);
        if (head.find("\r\nUpgrade:") != std::string_view::npos) {
            client.is_tunnel = true;
            return send(fd, k_upgraded);
        }
        if (head.starts_with("PUT")) {
            const std::size_t length = head.find("\r\nContent-Length: ");
            if (length == std::string_view::npos)
                return false;
            client.to_receive = std::strtoul(head.data() + length + 18, nullptr, 10);
            const std::size_t taken = std::min(client.to_receive, bytes.size());
            client.to_receive -= taken;
            bytes.remove_prefix(taken);
            return client.to_receive > 0 || send(fd, small_);
        }
        if (!head.starts_with("GET /big"))
            return send(fd, small_);
        client.to_send = k_big_bytes;
        return send(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: " +
                            std::to_string(k_big_bytes) + "\r\n\r\n") &&
               send_body(fd);
    }

    bool echo(int fd, std::string_view& bytes) {
        std::string out;
        while (bytes.size() >= k_frame_head_bytes) {
            const std::size_t length = static_cast<unsigned char>(bytes[1]) & 0x7f;
            if (bytes.size() < k_frame_head_bytes + length)
                break;
            out += {bytes[0], static_cast<char>(length)};
            for (std::size_t i = 0; i < length; ++i)
                out += static_cast<char>(bytes[k_frame_head_bytes + i] ^ bytes[2 + i % 4]);
            bytes.remove_prefix(k_frame_head_bytes + length);
        }
        return out.empty() || send(fd, out);
    }

    bool send_body(int fd) {
        Client& client = clients_[static_cast<std::size_t>(fd)];
        while (client.to_send > 0) {
            const ssize_t sent =
                ::send(fd, body_.data(), std::min(client.to_send, body_.size()), MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN)
                return false;
            if (sent < 0) {
                watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
                return true;
            }
            client.to_send -= static_cast<std::size_t>(sent);
        }
        watch(EPOLL_CTL_MOD, fd, EPOLLIN);
        return true;
    }

    // The socket takes a short text at once.
    static bool send(int fd, std::string_view bytes) {
        return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    }

    int listener_ = -1;
    int poller_ = -1;
    std::vector<Client> clients_;  // by descriptor
    std::vector<char> buffer_ = std::vector<char>(k_buffer_bytes);
    std::vector<char> body_ = std::vector<char>(k_buffer_bytes, 'x');
    std::string small_ =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(k_small_bytes) +
        "\r\n\r\n" + std::string(k_small_bytes, 'x');
};

}  // namespace

int main() {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    return Server().run();
}
