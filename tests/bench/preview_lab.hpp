// A server with a sandbox whose preview shows preview_upstream.cpp, and beside it nginx as a proxy to the
// same process: it listens where we are, and connects in the sandbox's net namespace. Server or nginx are on
// the first processor, what asks and what answers on the last one: the proxy alone is what is measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/nginx.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"

namespace atl::bench {

/// A proxy under measurement.
struct Front {
    std::uint16_t port;
    std::string host;             // its Host field
    std::optional<pid_t> net_of;  // its net namespace, if not ours
};

class PreviewLab {
  public:
    /// `sandboxes` with raised limits, each with its server, which answers. Throws.
    explicit PreviewLab(std::size_t sandboxes = 1);

    const Server& server() const { return server_; }
    Front product(std::size_t sandbox = 0) const { return {server_.port(), hosts_.at(sandbox), {}}; }
    /// Starts nginx if it has not run.
    Front nginx();
    /// The server in the first sandbox, without a proxy.
    Front upstream() const;
    /// Proxies, clients and servers on one processor from now on.
    void use_one_cpu();

  private:
    void add_sandbox();

    Server server_;
    std::vector<std::string> hosts_;
    pid_t upstream_ = 0;
    std::optional<Nginx> nginx_;
    std::optional<OneCpu> confined_;
};

/// The bytes of a request to `front`, with the fields that a browser sends.
std::string preview_request(const Front& front, std::string_view method, std::string_view target,
                            std::string_view more = "");

/// wrk(1) for so many seconds: requests a second. Throws if a request failed.
double run_wrk(const Front& front, std::size_t connections, std::size_t seconds);

}  // namespace atl::bench
