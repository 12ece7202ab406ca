#include "bridge/guest/log.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

namespace atl::guest {

// The pipe behind stderr is shared with every process inside, so its O_NONBLOCK is not the guest's to set:
// the wish not to wait goes with the call (preadv2(2), RWF_NOWAIT). Kernels that do not know it for pipes are
// asked for room first; who fills the pipe in between can then make the guest wait for the log's reader.
void log(std::string_view text) {
    std::string line = "atoll-guest: ";
    line.append(text).push_back('\n');
    const iovec part{line.data(), line.size()};
    if (pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT) >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return;
    pollfd room{STDERR_FILENO, POLLOUT, 0};
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 &&
        write(STDERR_FILENO, line.data(), line.size()) < 0)
        return;
}

}  // namespace atl::guest
