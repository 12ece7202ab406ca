#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

using base::Errc;
using base::Error;
using base::LogLine;
using base::Result;
namespace evt = base::evt;

namespace {

constexpr int k_sigkill = 9;  // signal(7)
constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;
constexpr std::string_view k_host_budget = "\"host_memory\"";

std::string mb(std::uint64_t bytes) {
    return std::to_string(bytes / k_bytes_per_mb) + " MB";
}

}  // namespace

Enforcement Manager::enforcement(NetworkMode network, const std::string& id) const {
    Enforcement enforcement;
    ports_.launcher.describe(enforcement, network);
    ports_.groups.describe(enforcement);
    ports_.disk.describe(enforcement, id);
    return enforcement;
}

/// Where they can be counted.
void Manager::watch_sockets(Sandbox& sandbox) {
    Enforcement enforcement;
    ports_.launcher.describe(enforcement, sandbox.generation->network);
    if (enforcement.sockets != "none")
        sockets_.watch(sandbox.record.id, *sandbox.generation->process, sandbox.record.limits.max_sockets);
}

void Manager::on_socket_excess(const std::string& id, const SocketExcess& excess) {
    Sandbox* const sandbox = lookup(id);
    if (sandbox == nullptr || !sandbox->generation)
        return;
    const bool is_netlink = excess.kind == SocketExcess::Kind::netlink;
    LogLine(evt::sockets_exceeded)
        .field("sbx", id)
        .field("gen", sandbox->generation->number)
        .field("kind", is_netlink ? "netlink" : "all")
        .field("sockets", excess.count)
        .field("limit", excess.limit)
        .warn();
    ++stats_.socket_kills;
    Exit exit;
    exit.exit_class = ExitClass::oom;
    exit.code = k_sigkill;
    exit.detail = "its processes had " + std::to_string(excess.count) +
                  (is_netlink ? " netlink sockets" : " sockets") + " open, more than the limit of " +
                  std::to_string(excess.limit) + (is_netlink ? "" : " (maxSockets)") +
                  "; what they had in memory is lost, the files are kept";
    perform(*sandbox, sandbox->generation->machine.kill(std::move(exit)));
}

base::Result<InnerSocket> Manager::connect(const std::string& id, std::uint16_t port) {
    if (channel(id) == nullptr || status(id) != Status::ready)
        return base::Error(base::Errc::sandbox_gone);
    const Sandbox& sandbox = *lookup(id);
    Process& process = *sandbox.generation->process;
    // A program may keep the sockets of visitors who left: what is counted are all that there are now.
    const std::uint32_t limit = sandbox.record.limits.max_sockets;
    if (process.sockets().value_or(0) >= limit - limit / base::k_visitors_leave_sockets)
        return base::Error(base::Errc::capacity, "The sandbox has almost all sockets that it may have.",
                           std::chrono::seconds(1));
    return process.connect(port);
}

bool Manager::can_connect(const std::string& id) const {
    const Sandbox* const sandbox = lookup(id);
    return sandbox == nullptr || sandbox->status != Status::ready || !sandbox->generation ||
           !sandbox->generation->process || sandbox->generation->process->can_connect();
}

void Manager::await_connect(const std::string& id, std::function<void()> ready) {
    lookup(id)->generation->process->await_connect(std::move(ready));
}

void Manager::watch_host_memory() {
    host_memory_.start();
}

Shortage Manager::host_shortage() const {
    const auto host =
        settings_.memory_reserve > 0 && ports_.host_memory ? ports_.host_memory() : std::nullopt;
    return host ? shortage_of(*host, settings_.memory_reserve) : Shortage::none;
}

bool Manager::is_host_short() const {
    return host_shortage() != Shortage::none;
}

// The user who holds most is refused first; others start down to half of the reserve, where sandboxes of that
// user are ended.
Result<void> Manager::room_on_host(const std::optional<base::ShareHolder>& holder) const {
    const Shortage shortage = host_shortage();
    if (shortage == Shortage::none)
        return {};
    if (holder && is_over_host_share(*holder))
        return Error(Errc::user_share, "The host is short of memory, and the sandboxes of this user hold " +
                                           mb(held_of_host(*holder)) +
                                           " of it, more than a user may have now: " + mb(host_share_bytes_) +
                                           ". A conversation that is paused or deleted, a sandbox that is "
                                           "deleted and a run that ends give memory back.")
            .with("budget", std::string(k_host_budget));
    if (holder && shortage != Shortage::hard)
        return {};
    return Error(Errc::capacity, "the host is short of memory; try again later", base::k_place_retry)
        .with("budget", std::string(k_host_budget));
}

std::uint64_t Manager::held_of_host(const base::ShareHolder& holder) const {
    const auto found = host_held_.find(holder.name());
    return found == host_held_.end() ? 0 : found->second;
}

double Manager::part_held(const base::ShareHolder& holder) const {
    if (!host_held_.empty())
        return static_cast<double>(held_of_host(holder));
    const auto part = [&](const base::Budget& budget) {
        const auto total = static_cast<double>(std::max<std::uint64_t>(budget.spec().total, 1));
        return static_cast<double>(budget.held_by(holder)) / total;
    };
    return std::max(part(places_), part(memory_));
}

bool Manager::may_spare(const base::ShareHolder& holder) const {
    return host_held_.empty() || !has_excess_ || is_over_host_share(holder);
}

// At a hard shortage a search does not wait for the pause after another search, nor for the end of a sandbox
// that is evicted.
void Manager::relieve_host(Shortage shortage, const HostMemory& memory) {
    if (shutting_down_ || search_)
        return;
    auto& last = shortage == Shortage::hard ? last_host_kill_ : last_host_search_;
    const auto now = ports_.clock.steady_now();
    const bool is_early = last && now - *last < base::k_host_kill_pause;
    if (shortage == Shortage::none) {
        // A host that is short now and then is judged by what was found a moment ago.
        if (!is_early)
            host_held_.clear();
        return;
    }
    if (is_early)
        return evict_for_host();
    last = last_host_search_ = now;
    search_.emplace();
    search_->shortage = shortage;
    search_->memory = memory;
    search_holders();
}

// A sandbox that can be spared gets an orderly end, which takes time, so only one ends at a time.
void Manager::evict_for_host() {
    const Sandbox* const victim = lookup(victim_);
    if ((victim == nullptr || !victim->generation) && observer_ != nullptr)
        victim_ = observer_->pick_victim().value_or("");
}

std::uint64_t Manager::weight_of(const Generation& generation) {
    const std::uint64_t bytes = generation.group ? generation.group->held_bytes().value_or(0) : 0;
    const std::uint64_t sockets = generation.process ? generation.process->sockets().value_or(0) : 0;
    return bytes + sockets * base::k_socket_weight_bytes;
}

void Manager::search_holders() {
    search_timer_ = 0;
    for (std::size_t left = base::k_sizes_per_handler; left > 0; --left) {
        const auto at = alive_.upper_bound(search_->at);
        if (at == alive_.end())
            return end_search();
        search_->at = *at;
        const Sandbox& sandbox = *lookup(*at);
        const std::uint64_t weight = weight_of(*sandbox.generation);
        search_->held.push_back({*at, user_of(sandbox.record), weight});
        if (sandbox.record.holder)
            search_->by_holder[sandbox.record.holder->name()] += weight;
    }
    search_timer_ = ports_.timers.arm(base::Millis{0}, [this] { search_holders(); });
}

// The rule is that of a Budget: a user may hold a percentage of what the others leave, which is here what
// that user holds and what is available.
void Manager::end_search() {
    Search found = *std::exchange(search_, std::nullopt);
    host_held_ = std::move(found.by_holder);
    const std::uint64_t percent = settings_.user_share_percent;
    host_share_bytes_ = percent >= 100 ? UINT64_MAX
                                       : std::max(base::k_least_worth_ending_bytes,
                                                  found.memory.available_bytes * percent / (100 - percent));
    has_excess_ =
        std::ranges::any_of(host_held_, [this](const auto& user) { return user.second > host_share_bytes_; });
    evict_for_host();
    if (found.shortage == Shortage::hard)
        end_victims(std::move(found));
}

// Ending a small sandbox does not help a host whose memory others have taken: it stays, unless its user has
// many of them.
void Manager::end_victims(Search found) {
    const auto victims = base::choose_victims(std::move(found.held), base::k_least_worth_ending_bytes);
    LogLine(evt::host_memory_short)
        .field("available_mb", found.memory.available_bytes / k_bytes_per_mb)
        .field("total_mb", found.memory.total_bytes / k_bytes_per_mb)
        .field("held_mb", victims.total / k_bytes_per_mb)
        .field("victims", static_cast<std::int64_t>(victims.ids.size()))
        .warn();
    for (const std::string& id : victims.ids) {
        Sandbox* const sandbox = lookup(id);  // it may have ended meanwhile
        if (sandbox != nullptr && sandbox->generation)
            end_for_host(*sandbox, found.memory, victims.total);
    }
}

void Manager::end_for_host(Sandbox& sandbox, const HostMemory& memory, std::uint64_t held_by_user) {
    ++stats_.host_kills;
    Exit exit;
    exit.exit_class = ExitClass::oom;
    exit.code = k_sigkill;
    exit.detail = "the host ran short of memory (" + mb(memory.available_bytes) + " of " +
                  mb(memory.total_bytes) + " available) and the sandboxes of its user held most of it, " +
                  mb(held_by_user) + "; this one held " + mb(weight_of(*sandbox.generation)) +
                  " with its sockets; what it had in memory is lost, the files are kept";
    perform(sandbox, sandbox.generation->machine.kill(std::move(exit)));
}

}  // namespace atl::sandbox
