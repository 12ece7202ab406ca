// An issuer of certificates that one sandbox trusts, and nobody else: it ends the TLS of the hosts whose
// rules set headers. Its key, and that of its leaves, are in the memory of this process alone. A leaf is made
// when its name is first asked for. Not here: which names those are (egress_door.hpp), how the sandbox learns
// of the issuer (core/isolation/profile.hpp).
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "http/wire/certificate.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

class SandboxCa {
  public:
    /// Leaves that are kept: one more drops the one that was unused for the longest time.
    static constexpr std::size_t k_max_leaves = 32;

    /// Takes some 0.1 ms. Errors: internal, where OpenSSL cannot make it.
    static base::Result<std::shared_ptr<SandboxCa>> make();

    /// Its certificate, as PEM.
    const std::string& pem() const noexcept { return pem_; }
    /// The context of a server for `name`, a host name as egress::Host has it. Takes some 0.2 ms where it is
    /// made. Errors: as of make().
    base::Result<std::shared_ptr<const TlsContext>> leaf(const std::string& name);
    std::size_t leaves() const noexcept { return leaves_.size(); }

  private:
    SandboxCa() = default;
    Certificate issuer_;
    Certificate::KeyPtr leaf_key_;
    std::string pem_;
    std::list<std::pair<std::string, std::shared_ptr<const TlsContext>>> leaves_;  // the newest use first
};

}  // namespace atl::http
