#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
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

/// Where they can be counted.
void Manager::watch_sockets(Sandbox& sandbox) {
    Enforcement enforcement;
    ports_.launcher.describe(enforcement, sandbox.record.network);
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

void Manager::watch_host_memory() {
    host_memory_.start();
}

// A sandbox that can be spared gets an orderly end, which takes time, so only one ends at a time. At a hard
// shortage the search does not wait for that end.
void Manager::relieve_host(Shortage shortage, const HostMemory& memory) {
    if (shutting_down_ || search_)
        return;
    const Sandbox* const spared = lookup(spared_);
    if ((spared == nullptr || !spared->generation) && observer_ != nullptr)
        spared_ = observer_->spare_one().value_or("");
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
    search_largest();
}

void Manager::search_largest() {
    search_timer_ = 0;
    for (std::size_t left = base::k_sizes_per_handler; left > 0; --left) {
        const auto at = alive_.upper_bound(search_->at);
        if (at == alive_.end())
            return end_largest();
        search_->at = *at;
        const Generation& generation = *lookup(*at)->generation;
        const std::uint64_t bytes = generation.group ? generation.group->held_bytes().value_or(0) : 0;
        const std::uint64_t sockets = generation.process ? generation.process->sockets().value_or(0) : 0;
        const std::uint64_t weight = bytes + sockets * base::k_socket_weight_bytes;
        if (weight > search_->weight) {
            search_->largest = *at;
            search_->bytes = bytes;
            search_->sockets = sockets;
            search_->weight = weight;
        }
    }
    search_timer_ = ports_.timers.arm(base::Millis{0}, [this] { search_largest(); });
}

// Ending a small sandbox does not help a host whose memory others have taken: it stays.
void Manager::end_largest() {
    const Search found = *std::exchange(search_, std::nullopt);
    Sandbox* const sandbox = lookup(found.largest);  // it may have ended meanwhile
    const bool is_worth_it =
        sandbox != nullptr && sandbox->generation && found.weight >= base::k_least_worth_ending_bytes;
    LogLine line(evt::host_memory_short);
    line.field("available_mb", found.memory.available_bytes / k_bytes_per_mb)
        .field("total_mb", found.memory.total_bytes / k_bytes_per_mb);
    if (is_worth_it)
        line.field("ends", found.largest);
    line.field("held_mb", found.bytes / k_bytes_per_mb).field("sockets", found.sockets).warn();
    if (!is_worth_it)
        return;
    ++stats_.host_kills;
    Exit exit;
    exit.exit_class = ExitClass::oom;
    exit.code = k_sigkill;
    exit.detail = "the host ran short of memory (" + mb(found.memory.available_bytes) + " of " +
                  mb(found.memory.total_bytes) + " available) and this sandbox held most of it, " +
                  mb(found.bytes) + " and " + std::to_string(found.sockets) +
                  " sockets; what it had in memory is lost, the files are kept";
    perform(*sandbox, sandbox->generation->machine.kill(std::move(exit)));
}

}  // namespace atl::sandbox
