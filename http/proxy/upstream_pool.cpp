#include "http/proxy/upstream_pool.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace atl::http {
namespace {

// Whether the other end keeps it open and says nothing.
bool is_quiet(ByteStream& stream) {
    char byte = 0;
    const ssize_t count = ::recv(stream.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

base::Error no_place() {
    return {base::Errc::capacity, "The preview of this sandbox has all the connections that it may have.",
            std::chrono::seconds(1)};
}

}  // namespace

class UpstreamPool::Port final : public UpstreamPort {
  public:
    Port(std::shared_ptr<UpstreamPool> pool, UpstreamKey key)
        : pool_(std::move(pool)), key_(std::move(key)) {}
    base::Result<Upstream> connect(Reuse reuse) override { return pool_->connect(key_, reuse); }
    void keep(std::unique_ptr<ByteStream> stream) override { pool_->keep(key_, std::move(stream)); }

  private:
    std::shared_ptr<UpstreamPool> pool_;
    UpstreamKey key_;
};

UpstreamPool::UpstreamPool(base::Executor executor, const base::Clock& clock, base::Timers& timers,
                           Connect connect, UpstreamBounds bounds, Dial dial)
    : executor_(executor),
      clock_(clock),
      timers_(timers),
      connect_(std::move(connect)),
      dial_(std::move(dial)),
      bounds_(bounds) {}

UpstreamPool::~UpstreamPool() {
    timers_.cancel(timer_);
}

std::shared_ptr<UpstreamPort> UpstreamPool::port(UpstreamKey key) {
    return std::make_shared<Port>(shared_from_this(), std::move(key));
}

void UpstreamPool::clear() {
    idle_.clear();
    count_ = 0;
    timers_.cancel(std::exchange(timer_, 0));
}

/// Counts a connection until it is destroyed. Null: there are too many. One that only waits gives way.
std::shared_ptr<const void> UpstreamPool::take_place(const UpstreamKey& key) {
    const auto is_full = [&] {
        const auto found = open_of_.find(key.sandbox_id);
        return open_ >= bounds_.of_all || (found != open_of_.end() && found->second >= bounds_.of_sandbox);
    };
    while (is_full() && drop_idle(key.sandbox_id)) {
    }
    if (is_full())
        return nullptr;
    ++open_;
    ++open_of_[key.sandbox_id];
    return {this, [weak = weak_from_this(), id = key.sandbox_id](const void*) {
                const auto pool = weak.lock();
                if (pool == nullptr)
                    return;
                --pool->open_;
                if (const auto found = pool->open_of_.find(id); --found->second == 0)
                    pool->open_of_.erase(found);
            }};
}

/// Closes one that only waits, of this sandbox, or of any where all have too many. False: none waits.
bool UpstreamPool::drop_idle(const std::string& sandbox_id) {
    auto found = idle_.lower_bound({sandbox_id, 0, 0});
    if (found == idle_.end() || found->first.sandbox_id != sandbox_id)
        found = open_ >= bounds_.of_all ? idle_.begin() : idle_.end();
    if (found == idle_.end())
        return false;
    found->second.pop_front();
    --count_;
    if (found->second.empty())
        idle_.erase(found);
    return true;
}

base::Result<Upstream> UpstreamPool::connect(const UpstreamKey& key, Reuse reuse) {
    if (reuse == Reuse::allowed) {
        if (auto kept = take(key))
            return Upstream{std::move(kept), true};
    }
    auto place = take_place(key);
    if (place == nullptr)
        return no_place();
    auto made = connect_(key.sandbox_id, key.port);
    if (made.has_error() && made.error().code() == base::Errc::host_unsupported && dial_) {
        if (open_of_.at(key.sandbox_id) > bounds_.dialed_of_sandbox)
            return no_place();
        auto dialed = dial_(key.sandbox_id, key.port, std::move(place));
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
    auto held = std::make_shared<Held>(Held{std::move(place), std::move(made->counted)});
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(made->fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    Socket socket(executor_, boost::asio::generic::stream_protocol(address.ss_family, IPPROTO_TCP),
                  made->fd.release());
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

void UpstreamPool::keep(const UpstreamKey& key, std::unique_ptr<ByteStream> stream) {
    // Without a socket nobody can see whether it is quiet.
    if (stream->native_handle() < 0)
        return;
    auto& kept = idle_[key];
    if (kept.size() >= base::k_max_kept_upstreams) {
        kept.pop_front();
        --count_;
    }
    if (count_ >= base::k_max_kept_upstreams_of_all) {
        if (kept.empty())
            idle_.erase(key);
        return;
    }
    kept.push_back({std::move(stream), clock_.steady_now()});
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
