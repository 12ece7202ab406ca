// Listening sockets made from a spec: "HOST:PORT", one at each address of the name; "[V6]:PORT" or
// "unix:PATH". Blocking name look-up happens only in open(), at start. A Unix socket's file has mode 0600, or
// 0660 for a group; it replaces one that nobody serves any more, and is removed by close(). Accepted sockets
// are non-blocking and close-on-exec.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "core/plain/unique_fd.hpp"
#include "http/access/access.hpp"
#include "http/access/client_address.hpp"
#include "http/wire/connection.hpp"

struct addrinfo;

namespace atl::http {

/// A client that has connected.
struct Accepted {
    Socket socket;
    PeerAddress peer;
};

/// Checks the form of such a spec, that the name has an address and that the folder of a socket is there.
/// Blocks while the name is looked up. Errors: listen_failed, with what to do.
base::Result<void> check_listen_spec(const std::string& spec);

class Listener {
  public:
    /// Gives at least one. Members of `unix_group` may connect to a Unix socket, too. Errors: listen_failed,
    /// with what to do.
    static base::Result<std::vector<Listener>> open(base::Executor executor, const std::string& spec,
                                                    std::optional<gid_t> unix_group = std::nullopt);
    /// A listener on each of these addresses that this host has; an address may be of a family that the host
    /// lacks. For port 0 the kernel chooses one port for all. `spec` is for the error. Errors: listen_failed,
    /// if the host has none of them, or another program has one of them, which the error names.
    static base::Result<std::vector<Listener>> open_all(base::Executor executor, const std::string& spec,
                                                        const addrinfo* addresses);
    /// A listener on 127.0.0.1 (AF_INET) or [::1] (AF_INET6), without a look-up. None: `error_number` is
    /// bind(2)'s or that of another call.
    static std::optional<Listener> open_loopback(base::Executor executor, int family, std::uint16_t port,
                                                 int& error_number);
    /// A listener inside a sandbox: `fd` is a TCP socket that listens, non-blocking.
    static Listener adopt(base::Executor executor, base::UniqueFd fd);
    Listener(Listener&&) noexcept = default;
    Listener& operator=(Listener&&) = delete;
    ~Listener();

    /// Waits until a client may be there. False: the listener was closed.
    base::Task<bool> async_wait();
    /// Accepts a client that is there, if any. `exhausted` is set when the process or the host has no
    /// descriptors left.
    std::optional<Accepted> accept(bool& exhausted);
    void close();
    bool is_open() const { return descriptor_.is_open(); }

    /// The address as bound: port 0 is replaced by the one that the kernel chose.
    const std::string& address() const noexcept { return address_; }
    ListenerScope reach() const noexcept { return reach_; }
    base::Executor executor() { return descriptor_.get_executor(); }
    /// The port as bound; 0: the listener has none.
    std::uint16_t port() const noexcept;

  private:
    using Descriptor = boost::asio::posix::basic_stream_descriptor<base::Executor>;

    Listener(base::Executor executor, base::UniqueFd fd, int family, ListenerScope reach);

    Descriptor descriptor_;
    int family_;
    ListenerScope reach_;
    std::string address_;
    std::string unix_path_;
    std::uint64_t unix_inode_ = 0;
};

}  // namespace atl::http
