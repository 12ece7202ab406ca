#include "http/wire/socket_bio.hpp"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

namespace atl::http {
namespace {

struct SocketState {
    int fd;
    std::string early{};
    std::size_t early_read = 0;
    std::size_t may_read_bytes = 0;
    bool at_end = false;
};

SocketState& state_of(BIO* bio) {
    return *static_cast<SocketState*>(BIO_get_data(bio));
}

bool would_block(int error_number) {
    return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

int read_socket(BIO* bio, char* data, std::size_t size, std::size_t* done) {
    SocketState& state = state_of(bio);
    BIO_clear_retry_flags(bio);
    *done = 0;
    size = std::min(size, state.may_read_bytes);
    if (size == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    if (state.early_read < state.early.size()) {
        *done = state.early.copy(data, size, state.early_read);
        state.early_read += *done;
        state.may_read_bytes -= *done;
        if (state.early_read == state.early.size()) {
            std::string().swap(state.early);
            state.early_read = 0;
        }
        return 1;
    }
    const ssize_t got = ::recv(state.fd, data, size, 0);
    if (got > 0) {
        *done = static_cast<std::size_t>(got);
        state.may_read_bytes -= *done;
        return 1;
    }
    if (got == 0)
        state.at_end = true;
    else if (would_block(errno))
        BIO_set_retry_read(bio);
    return 0;
}

int write_socket(BIO* bio, const char* data, std::size_t size, std::size_t* done) {
    BIO_clear_retry_flags(bio);
    *done = 0;
    const ssize_t sent = ::send(state_of(bio).fd, data, size, MSG_NOSIGNAL);
    if (sent >= 0) {
        *done = static_cast<std::size_t>(sent);
        return 1;
    }
    if (would_block(errno))
        BIO_set_retry_write(bio);
    return 0;
}

// BIO_ctrl(3): the control commands of libssl.
long control_socket(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH)
        return 1;
    return command == BIO_CTRL_EOF && state_of(bio).at_end ? 1 : 0;
}

int destroy_socket(BIO* bio) {
    delete static_cast<SocketState*>(BIO_get_data(bio));
    BIO_set_data(bio, nullptr);
    return 1;
}

BIO_METHOD* make_method() {
    BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "atoll socket");
    if (method != nullptr) {
        BIO_meth_set_read_ex(method, read_socket);
        BIO_meth_set_write_ex(method, write_socket);
        BIO_meth_set_ctrl(method, control_socket);
        BIO_meth_set_destroy(method, destroy_socket);
    }
    return method;
}

const BIO_METHOD* method() {
    static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> made(make_method(), &BIO_meth_free);
    return made.get();
}

}  // namespace

BIO* new_socket_bio(int fd, std::string early) {
    BIO* const bio = method() == nullptr ? nullptr : BIO_new(method());
    if (bio == nullptr)
        return nullptr;
    BIO_set_data(bio, new SocketState{fd, std::move(early)});
    BIO_set_init(bio, 1);
    return bio;
}

void allow_reading(BIO* bio, std::size_t limit_bytes) noexcept {
    state_of(bio).may_read_bytes = limit_bytes;
}

}  // namespace atl::http
