// The services of one listener, by host name. A value that is made at start and does not change. It selects
// and admits nobody: a service that takes only some hosts checks that itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/server/service.hpp"

namespace atl::http {

class Services {
  public:
    /// `any` answers where no other one is named for the host. All must outlive the listener.
    Services(Service& any) : any_(any) {}  // NOLINT: one service is a set of services

    /// `service` answers for `pattern`: a host name, or "*.domain" for every name below the domain, at any
    /// depth. Without port. Throws std::invalid_argument for what is neither, or is there already.
    Services& add(std::string_view pattern, Service& service);

    /// For the authority of a request, "host" or "host:port", compared without regard to case, port and a
    /// dot at the end: an exact name first, then the longest domain.
    Service& find(std::string_view authority) const noexcept {
        return by_host_.empty() ? any_ : find_by_host(authority);
    }
    Service& any() const noexcept { return any_; }

  private:
    struct Entry {
        std::string name;  // of a domain with the dot before it
        bool is_domain;
        Service* service;
    };
    Service& find_by_host(std::string_view authority) const noexcept;

    Service& any_;
    std::vector<Entry> by_host_;  // exact names first, then longer domains first
};

}  // namespace atl::http
