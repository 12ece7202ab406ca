#include "tests/bench/bodies.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace atl::bench {

void send_all(int fd, const char* data, std::size_t size) {
    while (size > 0) {
        const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            throw std::runtime_error("a peer takes no more");
        data += sent;
        size -= static_cast<std::size_t>(sent);
    }
}

void send_bytes(int fd, std::size_t size) {
    const std::vector<char> piece(k_body_piece_bytes, 'x');
    for (; size > 0; size -= std::min(size, piece.size()))
        send_all(fd, piece.data(), std::min(size, piece.size()));
}

void receive_bytes(int fd, std::size_t size) {
    std::vector<char> piece(k_body_piece_bytes);
    while (size > 0) {
        const ssize_t got = ::recv(fd, piece.data(), std::min(size, piece.size()), 0);
        if (got <= 0)
            throw std::runtime_error("a peer sends no more");
        size -= static_cast<std::size_t>(got);
    }
}

std::string receive_head(int fd, const char* status) {
    std::string head;
    for (char byte = 0; !head.ends_with("\r\n\r\n"); head.push_back(byte))
        if (::recv(fd, &byte, 1, 0) != 1)
            throw std::runtime_error("no response");
    if (head.find(status) != std::string("HTTP/1.1 ").size())
        throw std::runtime_error(head.substr(0, head.find('\r')));
    return head;
}

}  // namespace atl::bench
