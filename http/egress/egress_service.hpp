// The proxies of all sandboxes with network mode `egress`: a door for each, at the listener that its
// sandbox's generation has. Not here: what a door does (egress_door.hpp).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/sandbox/ports.hpp"
#include "http/egress/egress_door.hpp"
#include "http/egress/route_door.hpp"
#include "http/server/server.hpp"

namespace atl::http {

class EgressService final : public sandbox::Egress {
  public:
    /// `server` must outlive this.
    EgressService(Server& server, EgressParts parts) : server_(server), parts_(std::move(parts)) {}

    base::Result<void> check(const sandbox::EgressSettings& settings) const override {
        auto good = parts_.policy.check(settings);
        return good.has_error() ? good : check_routes(parts_, settings);
    }
    base::Result<void> check_start(const sandbox::EgressSettings& settings) const override {
        return parts_.has_lists ? base::Result<void>() : check(settings);
    }
    base::Result<std::string> make_issuer(const std::string& sandbox_id) override;
    void open(const std::string& sandbox_id, const sandbox::EgressSettings& settings,
              sandbox::InnerListener listener) override;
    void open_routes(const std::string& sandbox_id, const sandbox::EgressSettings& settings,
                     const std::vector<sandbox::EgressRoute>& defaults,
                     sandbox::InnerListener listener) override;
    void change(const std::string& sandbox_id, const sandbox::NetworkSettings& network) override;
    void close(const std::string& sandbox_id) override;

  private:
    void close_doors(const std::string& sandbox_id);
    /// How a listener of the sandbox is bounded, and its connections counted as the server's.
    InnerAccess access_of(const std::string& sandbox_id,
                          std::function<std::shared_ptr<const void>()> count) const;

    struct Opened {
        std::shared_ptr<EgressDoor> door;
        std::shared_ptr<const void> counted;  // the listener
        std::shared_ptr<RouteDoor> routes{};
        std::shared_ptr<const void> routes_counted{};
    };

    Server& server_;
    const EgressParts parts_;
    std::map<std::string, std::shared_ptr<SandboxCa>> issuers_;  // by sandbox
    std::map<std::string, Opened> doors_;
};

}  // namespace atl::http
