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

// Between two starts: requests that wait for a sandbox of their own come first.
constexpr base::Millis k_pause{10};
// Without a claim, while at least half of a pool is there: whoever creates many has the processors to
// himself.
constexpr base::Millis k_quiet{50};
constexpr base::Millis k_first_retry{1000};
constexpr base::Millis k_longest_retry{60'000};

}  // namespace

WarmPool::WarmPool(base::Timers& timers, sandbox::Manager& sandboxes, const std::vector<PoolSize>& sizes,
                   FindAgent find_agent)
    : timers_(timers),
      sandboxes_(sandboxes),
      find_agent_(std::move(find_agent)),
      retry_pause_(k_first_retry) {
    for (const PoolSize& size : sizes)
        shelves_.push_back({size.agent, size.size, {}});
}

WarmPool::~WarmPool() {
    timers_.cancel(timer_);
}

void WarmPool::fill() {
    if (timer_ == 0 && !starting_)
        start_next();
}

void WarmPool::start_next() {
    // Room comes with a sandbox's end, and that calls fill().
    if (closed_ || starting_ || !sandboxes_.room_for(sandbox::Limits{}))
        return;
    const auto short_of = std::find_if(shelves_.begin(), shelves_.end(),
                                       [](const Shelf& shelf) { return shelf.ready.size() < shelf.size; });
    if (short_of != shelves_.end())
        start_one(*short_of);
}

void WarmPool::start_one(Shelf& shelf) {
    const sandbox::AgentSpec* spec = find_agent_(shelf.agent);
    if (spec == nullptr)
        return;
    sandbox::Record wanted;
    wanted.conversation_id = base::new_id();
    auto made = sandboxes_.create(std::move(wanted));
    if (!made)
        return on_failure(made.error());
    starting_ = true;
    sandboxes_.start(made->id, *spec,
                     [this, agent = shelf.agent, id = made->id](const base::Result<void>& result) {
                         on_started(agent, id, result);
                     });
}

void WarmPool::on_started(const std::string& agent, const std::string& id, const base::Result<void>& result) {
    starting_ = false;
    const sandbox::Record* record = sandboxes_.find(id);
    if (closed_ || !result || record == nullptr) {
        sandboxes_.remove(id, [] {});
        if (!closed_ && !result)
            on_failure(result.error());
        return;
    }
    retry_pause_ = k_first_retry;
    shelf_of(agent)->ready.push_back(*record);
    wait_for_next(k_pause);
}

void WarmPool::on_failure(const base::Error& error) {
    if (error.code() == base::Errc::shutting_down)
        return;
    LogLine(evt::pool_failed).quoted("err", error.detail()).warn();
    wait_for_next(std::exchange(retry_pause_, std::min(2 * retry_pause_, k_longest_retry)));
}

void WarmPool::wait_for_next(base::Millis pause) {
    const bool is_full = std::all_of(shelves_.begin(), shelves_.end(),
                                     [](const Shelf& shelf) { return shelf.ready.size() >= shelf.size; });
    if (is_full || timer_ != 0)
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
    if (shelf == nullptr || !request.env.empty() || request.network != sandbox::NetworkMode::none ||
        request.limits != sandbox::Limits{})
        return std::nullopt;
    std::optional<Claimed> claimed;
    while (!claimed && !shelf->ready.empty()) {
        sandbox::Record box = std::move(shelf->ready.front());
        shelf->ready.pop_front();
        // One that is just ending was not told of yet.
        if (sandboxes_.channel(box.id) == nullptr)
            sandboxes_.remove(box.id, [] {});
        else
            claimed = Claimed{box.conversation_id, std::move(box)};
    }
    claimed_ = claimed_ || claimed.has_value();
    if (!starting_)
        wait_for_next(k_pause);
    return claimed;
}

bool WarmPool::can_give_way() const {
    return std::any_of(shelves_.begin(), shelves_.end(),
                       [](const Shelf& shelf) { return !shelf.ready.empty(); });
}

std::optional<std::string> WarmPool::give_way() {
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
        on_failure(base::Error(base::Errc::sandbox_failed, "a sandbox of the pool ended by itself"));
        return true;
    }
    return false;
}

void WarmPool::close() {
    closed_ = true;
    timers_.cancel(std::exchange(timer_, 0));
    for (Shelf& shelf : shelves_) {
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
