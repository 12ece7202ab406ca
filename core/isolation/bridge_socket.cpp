#include "core/isolation/bridge_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl::isolation {
namespace {

constexpr int k_backlog = 128;

base::Error socket_failed(const char* what) {
    return base::Error(base::Errc::sandbox_failed, base::errno_text(what, errno));
}

int make_socket_folder(int run_dir, const char* name) {
    if (::mkdirat(run_dir, name, 0755) == 0)
        return 0;
    if (errno != EEXIST)
        return -1;
    const std::string socket = std::string(name) + "/" + k_bridge_socket_name;
    ::unlinkat(run_dir, socket.c_str(), 0);
    ::unlinkat(run_dir, name, AT_REMOVEDIR);
    return ::mkdirat(run_dir, name, 0755);
}

}  // namespace

BridgeSocket::BridgeSocket(std::shared_ptr<base::UniqueFd> run_dir, std::string name, base::UniqueFd folder)
    : run_dir_(std::move(run_dir)),
      name_(std::move(name)),
      folder_(std::move(folder)),
      path_("/proc/self/fd/" + std::to_string(folder_.get()) + "/" + k_bridge_socket_name) {}

BridgeSocket::~BridgeSocket() {
    if (!folder_)
        return;
    ::unlinkat(folder_.get(), k_bridge_socket_name, 0);
    ::unlinkat(run_dir_->get(), name_.c_str(), AT_REMOVEDIR);
}

base::Result<BridgeSocket> BridgeSocket::listen(std::shared_ptr<base::UniqueFd> run_dir, std::string name,
                                                base::UniqueFd& listener) {
    if (make_socket_folder(run_dir->get(), name.c_str()) != 0)
        return socket_failed("making the folder of the bridge socket");
    base::UniqueFd folder(
        ::openat(run_dir->get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder)
        return socket_failed("opening the folder of the bridge socket");
    BridgeSocket made(std::move(run_dir), std::move(name), std::move(folder));
    base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, made.path_.c_str(), made.path_.size() + 1);
    if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return socket_failed("binding the bridge socket");
    if (::fchmodat(made.folder_.get(), k_bridge_socket_name, 0600, 0) != 0 ||
        ::listen(socket.get(), k_backlog) != 0)
        return socket_failed("listening on the bridge socket");
    listener = std::move(socket);
    return made;
}

}  // namespace atl::isolation
