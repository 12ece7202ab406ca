// The sockets of the floors: a listener on the loopback, and a pair between two processes. All are blocking.
// Failures throw std::system_error.
#pragma once

#include <cstdint>

#include "core/plain/unique_fd.hpp"

namespace atl::bench {

struct LoopbackListener {
    LoopbackListener();
    base::UniqueFd fd;
    std::uint16_t port = 0;  // as the kernel chose it
};

struct SocketPair {
    SocketPair();
    base::UniqueFd ours;
    base::UniqueFd theirs;
};

}  // namespace atl::bench
