#include "core/conversation/warm_pool.hpp"

#include <algorithm>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::conversation {

using base::LogLine;
namespace evt = base::evt;

namespace {

// The pause between two starts: requests that wait for a sandbox of their own come first.
constexpr base::Millis k_refill_pause{10};
// The pause without a claim, while at least half of a pool is there: a client that creates many has the
// processors to itself.
constexpr base::Millis k_quiet{50};
constexpr base::Millis k_first_retry{1000};
constexpr base::Millis k_longest_retry{60'000};

sandbox::NetworkMode network_of(const sandbox::AgentSpec& spec) {
    return spec.needs_network ? sandbox::NetworkMode::egress : sandbox::NetworkMode::none;
}

/// Without a rule, a route or a question of the request's own.
bool is_plain(sandbox::EgressSettings egress) {
    egress.user_id.clear();
    return egress == sandbox::EgressSettings{};
}

}  // namespace

WarmPool::WarmPool(base::Timers& timers, sandbox::Manager& sandboxes, const std::vector<PoolSize>& sizes,
                   FindAgent find_agent)
    : timers_(timers), sandboxes_(sandboxes), find_agent_(std::move(find_agent)) {
    for (const PoolSize& size : sizes)
        shelves_.push_back({size.agent, size.size, {}, k_first_retry, 0});
}

WarmPool::~WarmPool() {
    timers_.cancel(timer_);
    for (const Shelf& shelf : shelves_)
        timers_.cancel(shelf.rest);
}

void WarmPool::fill() {
    if (timer_ == 0)
        start_next();
}

void WarmPool::start_next() {
    // Room comes with a sandbox's end, and that calls fill().
    if (closed_ || !starting_.empty() || is_full())
        return;
    for (std::size_t tried = 0; tried < shelves_.size(); ++tried) {
        Shelf& shelf = shelves_[next_];
        next_ = (next_ + 1) % shelves_.size();
        const sandbox::AgentSpec* const spec = find_agent_(shelf.agent);
        if (spec != nullptr && shelf.ready.size() < shelf.size && shelf.rest == 0 &&
            sandboxes_.room_for({limits_of(*spec)}))
            return start_one(shelf, *spec);
    }
}

sandbox::Limits WarmPool::limits_of(const sandbox::AgentSpec& spec) const {
    return spec.limits.applied_to(sandboxes_.default_limits());
}

void WarmPool::start_one(Shelf& shelf, const sandbox::AgentSpec& spec) {
    sandbox::Record wanted;
    wanted.conversation_id = base::new_id();
    wanted.limits = limits_of(spec);
    wanted.network = network_of(spec);
    if (sandboxes_.is_disk_short())
        return on_failure(shelf, base::Error(base::Errc::capacity, "the host's disk is nearly full"));
    auto made = sandboxes_.create(std::move(wanted));
    if (!made)
        return on_failure(shelf, made.error());
    starting_ = made->id;
    gives_way_ = false;
    sandboxes_.start(made->id, spec,
                     [this, agent = shelf.agent, id = made->id](const base::Result<void>& result) {
                         on_started(agent, id, result);
                     });
}

void WarmPool::on_started(const std::string& agent, const std::string& id, const base::Result<void>& result) {
    starting_.clear();
    const sandbox::Record* record = sandboxes_.find(id);
    if (closed_ || !result || record == nullptr) {
        sandboxes_.remove(id, [] {});
        if (!closed_ && !result && !gives_way_)
            return on_failure(*shelf_of(agent), result.error());
    } else {
        shelf_of(agent)->ready.push_back(*record);
    }
    wait_for_next(k_refill_pause);
}

void WarmPool::on_failure(Shelf& shelf, const base::Error& error) {
    if (closed_ || error.code() == base::Errc::shutting_down)
        return;
    LogLine(evt::pool_failed).field("agent", shelf.agent).quoted("err", error.detail()).warn();
    timers_.cancel(shelf.rest);
    shelf.rest = timers_.arm(shelf.retry_pause, [this, agent = shelf.agent] {
        shelf_of(agent)->rest = 0;
        fill();
    });
    shelf.retry_pause = std::min(2 * shelf.retry_pause, k_longest_retry);
    wait_for_next(k_refill_pause);
}

bool WarmPool::is_full() const {
    return std::all_of(shelves_.begin(), shelves_.end(),
                       [](const Shelf& shelf) { return shelf.ready.size() >= shelf.size; });
}

void WarmPool::wait_for_next(base::Millis pause) {
    if (closed_ || timer_ != 0 || is_full())
        return;
    timer_ = timers_.arm(pause, [this] {
        timer_ = 0;
        const bool is_half_full = std::all_of(shelves_.begin(), shelves_.end(), [](const Shelf& shelf) {
            return 2 * shelf.ready.size() >= shelf.size;
        });
        if (std::exchange(claimed_, false) && is_half_full)
            return wait_for_next(k_quiet);
        start_next();
    });
}

WarmPool::Shelf* WarmPool::shelf_of(const std::string& agent) {
    const auto found = std::find_if(shelves_.begin(), shelves_.end(),
                                    [&](const Shelf& shelf) { return shelf.agent == agent; });
    return found == shelves_.end() ? nullptr : &*found;
}

std::optional<WarmPool::Claimed> WarmPool::claim(const std::string& agent, const CreateRequest& request) {
    Shelf* const shelf = shelf_of(agent);
    const sandbox::AgentSpec* const spec = shelf != nullptr ? find_agent_(agent) : nullptr;
    if (spec == nullptr || !request.env.empty() || request.network.mode != network_of(*spec) ||
        !is_plain(request.network.egress) || request.limits != limits_of(*spec))
        return std::nullopt;
    std::optional<Claimed> claimed;
    while (!claimed && !shelf->ready.empty()) {
        sandbox::Record sandbox_record = std::move(shelf->ready.front());
        shelf->ready.pop_front();
        // The pool was not told yet of a sandbox that is just ending.
        if (sandboxes_.channel(sandbox_record.id) == nullptr)
            sandboxes_.remove(sandbox_record.id, [] {});
        else
            claimed = Claimed{sandbox_record.conversation_id, std::move(sandbox_record)};
    }
    if (claimed) {
        claimed->sandbox_record.egress = request.network.egress;
        sandboxes_.set_network(claimed->sandbox_record.id, request.network);
        claimed_ = true;
        shelf->retry_pause = k_first_retry;
    }
    if (starting_.empty())
        wait_for_next(k_refill_pause);
    return claimed;
}

bool WarmPool::can_shrink() const {
    return (!starting_.empty() && !gives_way_) ||
           std::any_of(shelves_.begin(), shelves_.end(),
                       [](const Shelf& shelf) { return !shelf.ready.empty(); });
}

std::optional<std::string> WarmPool::shrink() {
    if (!starting_.empty() && !std::exchange(gives_way_, true)) {
        const std::string id = starting_;
        sandboxes_.remove(id, [] {});
        return id;
    }
    for (Shelf& shelf : shelves_) {
        if (shelf.ready.empty())
            continue;
        std::string id = shelf.ready.front().id;
        shelf.ready.pop_front();
        sandboxes_.remove(id, [] {});
        return id;
    }
    return std::nullopt;
}

bool WarmPool::lost(const std::string& sandbox_id) {
    for (Shelf& shelf : shelves_) {
        if (std::erase_if(shelf.ready, [&](const auto& record) { return record.id == sandbox_id; }) == 0)
            continue;
        sandboxes_.remove(sandbox_id, [] {});
        on_failure(shelf, base::Error(base::Errc::sandbox_failed, "a sandbox of the pool ended by itself"));
        return true;
    }
    return false;
}

void WarmPool::close() {
    closed_ = true;
    timers_.cancel(std::exchange(timer_, 0));
    for (Shelf& shelf : shelves_) {
        timers_.cancel(std::exchange(shelf.rest, 0));
        for (const sandbox::Record& record : std::exchange(shelf.ready, std::deque<sandbox::Record>()))
            sandboxes_.remove(record.id, [] {});
    }
}

std::vector<PoolState> WarmPool::states() const {
    std::vector<PoolState> states;
    for (const Shelf& shelf : shelves_)
        states.push_back({shelf.agent, shelf.size, shelf.ready.size()});
    return states;
}

}  // namespace atl::conversation
