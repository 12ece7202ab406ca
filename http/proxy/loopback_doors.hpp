// Previews at ports of this machine, where they have no names: who listens there, and which Host fields such
// a listener answers. Not here: which sandbox has which port (core/conversation/preview_ports.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/conversation/preview_ports.hpp"
#include "http/server/server.hpp"

namespace atl::http {

class LoopbackDoors final : public conversation::PreviewDoors {
  public:
    /// `service` answers on all of them. Both must outlive this.
    LoopbackDoors(Server& server, Service& service) : server_(server), services_(service) {}

    Opening open(std::uint16_t number) override;
    void close(std::uint16_t number) override { server_.close_loopback(number); }

  private:
    Server& server_;
    const Services services_;
};

/// The port of an authority that names this machine as its own browsers do: "localhost:PORT",
/// "127.0.0.1:PORT", "[::1]:PORT". Nothing for any other: another name may be one that an attacker lets lead
/// here (DNS rebinding).
std::optional<std::uint16_t> loopback_port(std::string_view authority) noexcept;

}  // namespace atl::http
