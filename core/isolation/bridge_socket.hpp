// The listening Unix socket of one generation, in a folder of its own below the run directory. Bound and
// connected through /proc/self/fd/N/, since sun_path holds 107 bytes (unix(7)) and a data directory may be
// anywhere. The socket is mode 0600: where a sandbox has its own uid, no one inside can connect to it.
#pragma once

#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {

/// Owns the folder and the socket in it; removes both.
class BridgeSocket {
  public:
    /// Errors: sandbox_failed. A folder that an earlier run left is replaced. `listener` is the only
    /// descriptor of the listening socket, non-inheritable, blocking.
    static base::Result<BridgeSocket> listen(std::shared_ptr<base::UniqueFd> run_dir, std::string name,
                                             base::UniqueFd& listener);
    BridgeSocket(BridgeSocket&&) noexcept = default;
    BridgeSocket& operator=(BridgeSocket&&) = delete;
    ~BridgeSocket();

    /// For connect(2) in this process, while this object lives.
    const std::string& path() const noexcept { return path_; }

  private:
    BridgeSocket(std::shared_ptr<base::UniqueFd> run_dir, std::string name, base::UniqueFd folder);

    std::shared_ptr<base::UniqueFd> run_dir_;
    std::string name_;
    base::UniqueFd folder_;
    std::string path_;
};

inline constexpr const char* k_bridge_socket_name = "bridge.sock";

}  // namespace atl::isolation
