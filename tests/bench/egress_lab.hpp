// A server with a sandbox of network `egress`, and upstreams on the loopback that its rules and its route
// lead to; beside it the floors: tinyproxy as a proxy to the same upstreams, and nginx as what a route is.
// Proxies are on the first processor, what asks and what answers on the last one: the proxy alone is what is
// measured. All clients are of this program, also those inside: their sockets are made in the sandbox's net
// namespace.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/bench/in_net_of.hpp"
#include "tests/bench/nginx.hpp"
#include "tests/bench/one_cpu.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {

/// A server on the loopback that answers one connection after the other, in a process of its own.
class Upstream {
  public:
    /// Called with each connection. An exception ends that one alone.
    using Answer = std::function<void(int fd)>;

    explicit Upstream(Answer answer);
    std::uint16_t port() const { return listener_.port; }

  private:
    LoopbackListener listener_;
    Child child_;
};

/// Reads the head of a request. Throws where the peer ends.
void receive_request(int fd);

/// A proxy under measurement, or the routes beside it.
struct Way {
    std::uint16_t port;
    std::optional<pid_t> net_of;  // its net namespace, if not ours
};

/// A tunnel through `way` to `upstream`, asked for by CONNECT: to localhost inside a sandbox, else to
/// 127.0.0.1. The caller is in its net
/// namespace. Throws unless the answer is 200.
base::UniqueFd open_tunnel(const Way& way, std::uint16_t upstream);

class Tinyproxy {
  public:
    /// Starts it and waits until it listens. Throws.
    Tinyproxy();
    Way way() const { return {port_, {}}; }
    pid_t pid() const { return child_->pid(); }

  private:
    TempDir dir_;
    std::uint16_t port_ = 0;
    std::optional<Child> child_;
};

/// The flag that lets sandboxes reach this port of the loopback.
std::vector<std::string> egress_flags(std::uint16_t upstream);
/// Makes a sandbox with this rule and, where `route` is not 0, a route `bench` to that port. Returns its id.
std::string create_egress_sandbox(const Server& server, const std::string& rule, std::uint16_t route = 0);

class EgressLab {
  public:
    /// Each upstream answers so. `rule_suffix`: "/tcp" for more than TLS.
    EgressLab(const Upstream::Answer& answer, const std::string& rule_suffix);

    /// The port of the upstream.
    std::uint16_t upstream() const { return upstream_.port(); }
    Way product() const;
    /// The product's routes: /bench/ leads to the upstream.
    Way routes() const;
    /// Starts tinyproxy if it has not run.
    Way tinyproxy();
    /// Starts an nginx, if it has not run, whose /bench/ leads to an upstream of its own that answers alike.
    Way nginx();

  private:
    const OneCpu confined_{Cpu::last};
    Upstream upstream_;
    Upstream upstream_of_nginx_;
    Server server_;
    pid_t inside_ = 0;
    std::optional<Tinyproxy> tinyproxy_;
    std::optional<Nginx> nginx_;
};

}  // namespace atl::bench
