// Connections to ports inside sandboxes: how many there are of one sandbox, of one visitor's address within a
// sandbox, and of all, with a share for each owner of sandboxes; and those that wait for their next request,
// with such a share, too. One belongs to a generation: another one of the same sandbox never gets it. An idle
// one is closed after a while.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/ports.hpp"
#include "http/proxy/upstream.hpp"

namespace atl::http {

/// A port of one generation of a sandbox.
struct UpstreamKey {
    std::string sandbox_id;
    std::uint32_t generation = 0;
    std::uint16_t port = 0;
    bool operator<(const UpstreamKey& other) const {
        return std::tie(sandbox_id, generation, port) <
               std::tie(other.sandbox_id, other.generation, other.port);
    }
};

/// For whom a connection is.
struct UpstreamVisitor {
    std::uint32_t max_sockets = UINT32_MAX;  // of the sandbox
    std::optional<std::uint64_t> address{};  // nothing: without a bound of its own
    base::ShareHolder owner{};               // of the sandbox
};

struct UpstreamBounds {
    std::size_t of_sandbox = base::k_upstreams_of_sandbox;
    std::size_t of_all = base::k_max_upstreams;
    /// The bound for a sandbox whose guest makes the connections: each is a connection of the guest, too.
    std::size_t dialed_of_sandbox = base::k_max_guest_dials;
    unsigned user_share_percent = base::k_default_user_share_percent;
};

/// True if the other end of a kept connection, a socket's, has neither ended it nor sent anything.
bool is_quiet(ByteStream& stream);

class UpstreamPool : public std::enable_shared_from_this<UpstreamPool> {
  public:
    /// A connection to `port` of a sandbox. Errors: as conversation::Manager::connect().
    using Connect =
        std::function<base::Result<sandbox::InnerSocket>(const std::string& sandbox_id, std::uint16_t port)>;

    /// The same without a socket of the server's in the sandbox, where it can make none; never reused. `held`
    /// lives as long as the stream. Errors: sandbox_gone.
    using Dial = std::function<base::Result<std::unique_ptr<ByteStream>>(
        const std::string& sandbox_id, std::uint16_t port, std::shared_ptr<const void> held)>;

    /// All that it refers to must outlive it. `dial` is called where `connect` says host_unsupported.
    UpstreamPool(base::Executor executor, const base::Clock& clock, base::Timers& timers, Connect connect,
                 UpstreamBounds bounds = {}, Dial dial = nullptr);
    ~UpstreamPool();
    UpstreamPool(const UpstreamPool&) = delete;
    UpstreamPool& operator=(const UpstreamPool&) = delete;

    /// The port as one request sees it; keeps the pool. What is over a bound is refused: capacity;
    /// user_share, of the sandbox's owner; too_many_connections, of an address.
    std::shared_ptr<UpstreamPort> port(UpstreamKey key, UpstreamVisitor visitor = {});
    std::size_t kept() const noexcept { return count_; }
    /// All that are open, kept or not.
    std::size_t open() const noexcept { return connections_->used(); }
    const base::Budget& connections() const noexcept { return *connections_; }
    /// Closes all that are kept.
    void clear();

  private:
    class Port;
    struct Idle {
        std::unique_ptr<ByteStream> stream;
        base::SteadyTime since;
        base::ShareHolder owner;
        base::Share share;  // of those that are kept
    };

    struct OfSandbox {
        std::size_t open = 0;                                         // connections
        std::size_t requests = 0;                                     // that were let in and are not over
        std::unordered_map<std::uint64_t, std::size_t> of_addresses;  // of these; none is zero
        bool is_dialed = false;                                       // its guest makes the connections
    };
    using Place = std::map<std::string, OfSandbox>::iterator;
    struct Counted;

    std::size_t most_of(const OfSandbox& sandbox, const UpstreamVisitor& visitor) const;
    base::Result<Place> enter(const std::string& sandbox_id, const UpstreamVisitor& visitor);
    void leave(Place sandbox, const UpstreamVisitor& visitor);
    bool is_crowded(Place sandbox, const UpstreamVisitor& visitor) const;
    void erase_unused(Place sandbox);
    base::Result<std::shared_ptr<const void>> take_place(Place sandbox, const UpstreamVisitor& visitor);
    base::Result<Upstream> connect(const UpstreamKey& key, Place sandbox, const UpstreamVisitor& visitor,
                                   Reuse reuse);
    bool drop_idle(const std::string* sandbox_id, const base::ShareHolder* owner);
    std::unique_ptr<ByteStream> take(const UpstreamKey& key);
    void keep(const UpstreamKey& key, const base::ShareHolder& owner, std::unique_ptr<ByteStream> stream);
    void arm();
    void close_idle();

    base::Executor executor_;
    const base::Clock& clock_;
    base::Timers& timers_;
    const Connect connect_;
    const Dial dial_;
    const UpstreamBounds bounds_;
    std::map<std::string, OfSandbox> sandboxes_;       // those with connections or requests
    const std::shared_ptr<base::Budget> connections_;  // the streams may outlive the pool
    base::Budget keeping_;
    std::map<UpstreamKey, std::deque<Idle>> idle_;  // each the oldest first; no empty one
    std::size_t count_ = 0;
    base::TimerId timer_ = 0;
};

}  // namespace atl::http
