// An nginx with one process, as the floor of what a proxy or a file server does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tests/bench/child.hpp"
#include "tests/bench/in_net_of.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {

class Nginx {
  public:
    /// The text inside `http { … }`: `folder` is nginx's own, `listen` the address of its socket.
    using Settings = std::function<std::string(const std::string& folder, const std::string& listen)>;

    /// Starts it and waits until it answers. With `net_of` all of its sockets but the listening one, which is
    /// on our loopback, are made in the net namespace of that process (setns(2); needs root). Throws.
    explicit Nginx(const Settings& settings, std::optional<pid_t> net_of = {});

    std::uint16_t port() const { return port_; }
    pid_t pid() const { return child_->pid(); }

  private:
    void await_answer() const;

    TempDir dir_;
    std::uint16_t port_ = 0;
    std::optional<Child> child_;
};

}  // namespace atl::bench
