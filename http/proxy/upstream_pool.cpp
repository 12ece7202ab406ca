#include "http/proxy/upstream_pool.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atl::http {
namespace {

constexpr std::chrono::seconds k_try_again{1};

base::BudgetSpec upstreams_spec(std::size_t of_all) {
    return {"preview_connections",
            "connections",
            "A visitor that leaves a preview gives room back.",
            of_all,
            base::k_upstreams_user_floor,
            k_try_again};
}

/// Nobody is told of it: a connection that finds no room is closed.
constexpr base::BudgetSpec k_keeping_spec{
    "kept_upstreams", "connections", "", base::k_max_kept_upstreams_of_all, base::k_max_kept_upstreams, {}};

base::Error no_place() {
    return {base::Errc::capacity, "The preview of this sandbox has all the connections that it may have.",
            k_try_again};
}

base::Error no_place_for_address() {
    return {base::Errc::too_many_connections,
            "This address has as many connections of the preview of this sandbox as it leaves to others.",
            k_try_again};
}

}  // namespace

bool is_quiet(ByteStream& stream) {
    char byte = 0;
    const ssize_t count = ::recv(stream.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/// A connection, as long as it is open.
struct UpstreamPool::Counted {
    Counted(UpstreamPool& of, Place place, base::Share taken)
        : pool(of.weak_from_this()), budget(of.connections_), sandbox(place), share(std::move(taken)) {
        ++sandbox->second.open;
    }
    ~Counted() {
        if (const auto counting = pool.lock()) {
            --sandbox->second.open;
            counting->erase_unused(sandbox);
        }
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    std::weak_ptr<UpstreamPool> pool;
    std::shared_ptr<base::Budget> budget;  // outlives the share
    Place sandbox;
    base::Share share;
};

class UpstreamPool::Port final : public UpstreamPort {
  public:
    Port(std::shared_ptr<UpstreamPool> pool, UpstreamKey key, UpstreamVisitor visitor)
        : pool_(std::move(pool)), key_(std::move(key)), visitor_(std::move(visitor)) {}
    ~Port() override {
        if (sandbox_)
            pool_->leave(*sandbox_, visitor_);
    }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    base::Result<Upstream> connect(Reuse reuse) override {
        if (!sandbox_) {
            const auto entered = pool_->enter(key_.sandbox_id, visitor_);
            if (entered.has_error())
                return entered.error();
            sandbox_ = *entered;
        }
        return pool_->connect(key_, *sandbox_, visitor_, reuse);
    }
    void keep(std::unique_ptr<ByteStream> stream) override {
        pool_->keep(key_, visitor_.owner, std::move(stream));
    }
    bool is_crowded() const override { return sandbox_ && pool_->is_crowded(*sandbox_, visitor_); }

  private:
    std::shared_ptr<UpstreamPool> pool_;
    UpstreamKey key_;
    const UpstreamVisitor visitor_;
    std::optional<Place> sandbox_;  // once it was let in
};

UpstreamPool::UpstreamPool(base::Executor executor, const base::Clock& clock, base::Timers& timers,
                           Connect connect, UpstreamBounds bounds, Dial dial)
    : executor_(executor),
      clock_(clock),
      timers_(timers),
      connect_(std::move(connect)),
      dial_(std::move(dial)),
      bounds_(bounds),
      connections_(std::make_shared<base::Budget>(upstreams_spec(bounds.of_all), bounds.user_share_percent)),
      keeping_(k_keeping_spec, bounds.user_share_percent) {}

UpstreamPool::~UpstreamPool() {
    timers_.cancel(timer_);
}

std::shared_ptr<UpstreamPort> UpstreamPool::port(UpstreamKey key, UpstreamVisitor visitor) {
    return std::make_shared<Port>(shared_from_this(), std::move(key), std::move(visitor));
}

void UpstreamPool::clear() {
    idle_.clear();
    count_ = 0;
    timers_.cancel(std::exchange(timer_, 0));
}

/// The connections that a sandbox may have to its visitors: their sockets leave it as many.
std::size_t UpstreamPool::most_of(const OfSandbox& sandbox, const UpstreamVisitor& visitor) const {
    const std::size_t sockets = visitor.max_sockets / base::k_visitors_sockets;
    if (!sandbox.is_dialed)
        return std::min(bounds_.of_sandbox, sockets);
    return std::min({bounds_.of_sandbox, bounds_.dialed_of_sandbox, sockets / base::k_sockets_of_dial});
}

/// A request is let in. An address may have as many as it leaves to the others.
base::Result<UpstreamPool::Place> UpstreamPool::enter(const std::string& sandbox_id,
                                                      const UpstreamVisitor& visitor) {
    const Place at = sandboxes_.try_emplace(sandbox_id).first;
    OfSandbox& sandbox = at->second;
    if (visitor.address) {
        std::size_t& own = sandbox.of_addresses[*visitor.address];
        if (own >= base::k_upstreams_of_address && sandbox.requests + own >= most_of(sandbox, visitor))
            return no_place_for_address();
        ++own;
    }
    ++sandbox.requests;
    return at;
}

void UpstreamPool::leave(Place sandbox, const UpstreamVisitor& visitor) {
    auto& of_addresses = sandbox->second.of_addresses;
    --sandbox->second.requests;
    if (visitor.address && --of_addresses.at(*visitor.address) == 0)
        of_addresses.erase(*visitor.address);
    erase_unused(sandbox);
}

bool UpstreamPool::is_crowded(Place sandbox, const UpstreamVisitor& visitor) const {
    return sandbox->second.requests * base::k_crowded_upstreams >= most_of(sandbox->second, visitor);
}

void UpstreamPool::erase_unused(Place sandbox) {
    if (sandbox->second.open == 0 && sandbox->second.requests == 0)
        sandboxes_.erase(sandbox);
}

/// Counts a connection until the result is destroyed. One that only waits gives way.
base::Result<std::shared_ptr<const void>> UpstreamPool::take_place(Place sandbox,
                                                                   const UpstreamVisitor& visitor) {
    while (sandbox->second.open >= most_of(sandbox->second, visitor)) {
        if (!drop_idle(&sandbox->first, nullptr))
            return no_place();
    }
    auto share = connections_->take(visitor.owner, 1);
    while (!share) {
        const bool is_full = share.error().code() == base::Errc::capacity;
        if (!drop_idle(&sandbox->first, nullptr) && !drop_idle(nullptr, is_full ? nullptr : &visitor.owner))
            return share.error();
        share = connections_->take(visitor.owner, 1);
    }
    return std::shared_ptr<const void>(std::make_shared<Counted>(*this, sandbox, std::move(*share)));
}

/// Closes one that only waits, of this sandbox and this owner; null: of any. False: there is none.
bool UpstreamPool::drop_idle(const std::string* sandbox_id, const base::ShareHolder* owner) {
    const auto found = std::find_if(idle_.begin(), idle_.end(), [=](const auto& each) {
        return (sandbox_id == nullptr || each.first.sandbox_id == *sandbox_id) &&
               (owner == nullptr || each.second.front().owner == *owner);
    });
    if (found == idle_.end())
        return false;
    found->second.pop_front();
    --count_;
    if (found->second.empty())
        idle_.erase(found);
    return true;
}

base::Result<Upstream> UpstreamPool::connect(const UpstreamKey& key, Place sandbox,
                                             const UpstreamVisitor& visitor, Reuse reuse) {
    if (reuse == Reuse::allowed) {
        if (auto kept = take(key))
            return Upstream{std::move(kept), true};
    }
    auto place = take_place(sandbox, visitor);
    if (place.has_error())
        return place.error();
    auto made = connect_(key.sandbox_id, key.port);
    if (made.has_error() && made.error().code() == base::Errc::host_unsupported && dial_) {
        sandbox->second.is_dialed = true;
        if (sandbox->second.open > most_of(sandbox->second, visitor))
            return no_place();
        auto dialed = dial_(key.sandbox_id, key.port, std::move(*place));
        if (dialed.has_error())
            return dialed.error();
        return Upstream{std::move(*dialed), false};
    }
    if (made.has_error())
        return made.error();
    struct Held {
        std::shared_ptr<const void> place;
        std::shared_ptr<const void> counted;
    };
    auto held = std::make_shared<Held>(Held{std::move(*place), std::move(made->counted)});
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(made->fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    Socket socket(executor_, boost::asio::generic::stream_protocol(address.ss_family, IPPROTO_TCP),
                  made->fd.release());
    // Else a write waits, and the loop with it, until a server whose backlog is full has taken the
    // connection.
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    return Upstream{std::make_unique<SocketStream>(std::move(socket), std::move(held)), false};
}

std::unique_ptr<ByteStream> UpstreamPool::take(const UpstreamKey& key) {
    for (auto found = idle_.find(key); found != idle_.end(); found = idle_.find(key)) {
        std::unique_ptr<ByteStream> stream = std::move(found->second.back().stream);
        found->second.pop_back();
        --count_;
        if (found->second.empty())
            idle_.erase(found);
        if (is_quiet(*stream))
            return stream;
    }
    return nullptr;
}

void UpstreamPool::keep(const UpstreamKey& key, const base::ShareHolder& owner,
                        std::unique_ptr<ByteStream> stream) {
    // Without a socket nobody can see whether it is quiet.
    if (stream->native_handle() < 0)
        return;
    auto& kept = idle_[key];
    if (kept.size() >= base::k_max_kept_upstreams) {
        kept.pop_front();
        --count_;
    }
    auto share = keeping_.take(owner, 1);
    if (!share) {
        if (kept.empty())
            idle_.erase(key);
        return;
    }
    kept.push_back({std::move(stream), clock_.steady_now(), owner, std::move(*share)});
    ++count_;
    arm();
}

void UpstreamPool::arm() {
    if (timer_ == 0)
        timer_ = timers_.arm(base::k_kept_upstream_time, [this] { close_idle(); });
}

void UpstreamPool::close_idle() {
    timer_ = 0;
    const auto oldest = clock_.steady_now() - base::k_kept_upstream_time;
    for (auto at = idle_.begin(); at != idle_.end();) {
        while (!at->second.empty() && at->second.front().since <= oldest) {
            at->second.pop_front();
            --count_;
        }
        at = at->second.empty() ? idle_.erase(at) : std::next(at);
    }
    if (count_ > 0)
        arm();
}

}  // namespace atl::http
