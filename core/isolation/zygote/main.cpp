// atoll-zygote N: joins the N groups whose cgroup.procs it got as descriptors 3 and up, waits on descriptor 0
// for what to become, and becomes it. What goes wrong is told on the future program's stderr; the exit status
// is then 127. `atoll-zygote sockets` (socket_task.hpp) is another task.
// Static and small: a few of these wait at any time.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/isolation/child_setup.hpp"
#include "core/isolation/zygote/request.hpp"
#include "core/isolation/zygote/socket_task.hpp"

namespace {

using namespace atl::isolation;

constexpr int k_socket = 0;
constexpr int k_first_group = 3;
constexpr int k_failed = 127;

/// Empty, or why a group could not be joined.
std::string join_groups(int count) {
    for (int fd = k_first_group; fd < k_first_group + count; ++fd) {
        if (::write(fd, "0", 1) != 1)
            return std::string("joining the cgroup: ") + std::strerror(errno);
        ::close(fd);
    }
    return {};
}

std::optional<ZygoteRequest> receive() {
    static std::array<char, k_max_zygote_message_bytes> bytes;
    alignas(cmsghdr) static std::array<char, CMSG_SPACE(k_max_zygote_fds * sizeof(int))> control;
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t count = 0;
    do {
        count = ::recvmsg(k_socket, &message, MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count <= 0)
        ::_exit(EXIT_SUCCESS);  // the server does not need it any more
    std::vector<int> fds;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        fds.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        std::memcpy(fds.data(), CMSG_DATA(header), fds.size() * sizeof(int));
    }
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return std::nullopt;
    return decode({bytes.data(), static_cast<std::size_t>(count)}, fds);
}

[[noreturn]] void fail(int log, const std::string& why) {
    const std::string line = "atoll: " + why + "\n";
    // A failure of this write cannot be reported. Nobody may read the log: the end must not wait for that.
    pollfd room{log, POLLOUT, 0};
    if (::poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0)
        (void)!::write(log, line.data(), line.size());
    ::_exit(k_failed);
}

}  // namespace

int main(int argc, char** argv) {
    const pid_t parent = ::getppid();
    // It is for the server (signal(7)), and may be sent to all processes of its unit. What this becomes has
    // the default again (ChildSetup).
    std::signal(SIGHUP, SIG_IGN);
    if (argc == 2 && argv[1] == k_socket_task)
        return make_sockets();
    const std::string refused = join_groups(argc == 2 ? std::atoi(argv[1]) : 0);
    const auto request = receive();
    if (!request)
        fail(STDERR_FILENO, "a zygote got a message that is none");
    const ChildPlan& plan = request->plan;
    const int log = plan.fds.size() > STDERR_FILENO ? plan.fds[STDERR_FILENO] : STDERR_FILENO;
    if (!refused.empty())
        fail(log, refused);
    std::vector<const char*> args{request->program.c_str()};
    for (const auto& arg : request->args)
        args.push_back(arg.c_str());
    args.push_back(nullptr);
    char* const no_environment[] = {nullptr};
    ChildSetup setup(plan, parent);
    const bool arranged = setup.run();
    if (arranged) {
        ::execve(request->program.c_str(), const_cast<char* const*>(args.data()), no_environment);
        setup.note(ChildStage::exec, errno);
    }
    const std::string why = what_failed(setup.failure(), plan, request->program) + ": " +
                            std::strerror(setup.failure().error_number);
    // The descriptors may have been arranged, or not yet.
    fail(setup.failure().stage <= ChildStage::descriptors ? log : STDERR_FILENO, why);
}
