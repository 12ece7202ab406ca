#include "core/sandbox/socket_watch.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/plain/preview_limits.hpp"

namespace atl::sandbox {
namespace {

constexpr base::Millis k_shortest_interval{5};

/// A sandbox on several processors is as many times as fast.
base::Millis count_interval() {
    static const base::Millis interval =
        std::max(k_shortest_interval,
                 base::k_socket_count_interval / std::max(1U, std::thread::hardware_concurrency()));
    return interval;
}

/// True if connections that the server just closed explain the count.
bool may_pass(const SocketExcess& excess, const Process& process) {
    return excess.kind == SocketExcess::Kind::all && excess.count - excess.limit <= process.closed_lately();
}

}  // namespace

SocketWatch::SocketWatch(base::Timers& timers, CpuUsec cpu_usec, OnExcess on_excess)
    : timers_(timers), cpu_usec_(std::move(cpu_usec)), on_excess_(std::move(on_excess)) {}

SocketWatch::~SocketWatch() {
    timers_.cancel(tick_timer_);
    timers_.cancel(walk_timer_);
    for (const auto& [id, entry] : entries_)
        timers_.cancel(entry.second_count);
}

void SocketWatch::watch(const std::string& id, const Process& process, std::uint32_t limit) {
    unwatch(id);
    entries_.insert_or_assign(id, Entry{&process, limit});
    if (tick_timer_ == 0)
        tick_timer_ = timers_.arm(count_interval(), [this] { tick(); });
}

void SocketWatch::unwatch(const std::string& id) {
    const auto at = entries_.find(id);
    if (at == entries_.end())
        return;
    timers_.cancel(at->second.second_count);
    entries_.erase(at);
}

void SocketWatch::set_limit(const std::string& id, std::uint32_t limit) {
    if (const auto found = entries_.find(id); found != entries_.end())
        found->second.limit = limit;
}

void SocketWatch::tick() {
    tick_timer_ = 0;
    if (entries_.empty())
        return;
    tick_timer_ = timers_.arm(count_interval(), [this] { tick(); });
    if (walk_timer_ == 0 && is_due()) {
        walked_to_.clear();
        walk();
    }
}

bool SocketWatch::is_due() {
    if (const auto used = cpu_usec_()) {
        // If the counter went backwards, the subtraction wraps to a large value, and a count is due.
        if (*used - cpu_at_walk_ < static_cast<std::uint64_t>(base::k_socket_count_cpu.count()))
            return false;
        cpu_at_walk_ = *used;
        return true;
    }
    since_blind_walk_ += count_interval();
    if (since_blind_walk_ < base::k_blind_socket_count_interval)
        return false;
    since_blind_walk_ = base::Millis{0};
    return true;
}

// By name and not by position: sandboxes come and go between two handlers, and inside on_excess_.
void SocketWatch::walk() {
    walk_timer_ = 0;
    for (std::size_t left = base::k_socket_counts_per_handler; left > 0; --left) {
        const auto at = entries_.upper_bound(walked_to_);
        if (at == entries_.end())
            return;
        walked_to_ = at->first;
        const auto excess = excess_of(at->second);
        if (excess && !may_pass(*excess, *at->second.process))
            tell(at, *excess);
        else if (excess && at->second.second_count == 0)
            at->second.second_count =
                timers_.arm(base::k_closed_socket_stays, [this, at] { count_again(at); });
    }
    walk_timer_ = timers_.arm(base::Millis{0}, [this] { walk(); });
}

void SocketWatch::count_again(Entries::iterator at) {
    at->second.second_count = 0;
    if (const auto excess = excess_of(at->second))
        tell(at, *excess);
}

void SocketWatch::tell(Entries::iterator at, const SocketExcess& excess) {
    const std::string id = at->first;
    unwatch(id);
    on_excess_(id, excess);
}

std::optional<SocketExcess> SocketWatch::excess_of(const Entry& entry) {
    using Kind = SocketExcess::Kind;
    ++counts_;
    const auto all = entry.process->sockets();
    if (all && *all > entry.limit)
        return SocketExcess{Kind::all, *all, entry.limit};
    if (!all || *all <= base::k_max_netlink_sockets)
        return std::nullopt;
    const auto netlink = entry.process->netlink_sockets();
    if (netlink && *netlink > base::k_max_netlink_sockets)
        return SocketExcess{Kind::netlink, *netlink, base::k_max_netlink_sockets};
    return std::nullopt;
}

}  // namespace atl::sandbox
