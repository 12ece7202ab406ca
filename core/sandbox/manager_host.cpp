#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

using base::LogLine;
namespace evt = base::evt;

namespace {

constexpr int k_sigkill = 9;  // signal(7)
constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;

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

// A sandbox that can be victim gets an orderly end, which takes time, so only one ends at a time. At a hard
// shortage the search does not wait for that end.
void Manager::relieve_host(Shortage shortage, const HostMemory& memory) {
    if (shutting_down_ || search_)
        return;
    const Sandbox* const victim = lookup(victim_);
    if ((victim == nullptr || !victim->generation) && observer_ != nullptr)
        victim_ = observer_->pick_victim().value_or("");
    const auto now = ports_.clock.steady_now();
    if (shortage == Shortage::hard &&
        (!last_host_kill_ || now - *last_host_kill_ >= base::k_host_kill_pause)) {
        last_host_kill_ = now;
        begin_search(memory);
    }
}

void Manager::begin_search(const HostMemory& memory) {
    search_.emplace();
    search_->memory = memory;
    search_holders();
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
            return end_victims();
        search_->at = *at;
        const Sandbox& sandbox = *lookup(*at);
        search_->held.push_back({*at, user_of(sandbox.record), weight_of(*sandbox.generation)});
    }
    search_timer_ = ports_.timers.arm(base::Millis{0}, [this] { search_holders(); });
}

// Ending a small sandbox does not help a host whose memory others have taken: it stays, unless its user has
// many of them.
void Manager::end_victims() {
    Search found = *std::exchange(search_, std::nullopt);
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
