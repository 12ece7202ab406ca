#include "core/sandbox/host_memory_watch.hpp"

#include <utility>

#include "core/base/limits.hpp"

namespace atl::sandbox {

Shortage shortage_of(const HostMemory& memory, double reserve) noexcept {
    const auto available = static_cast<double>(memory.available_bytes);
    const double reserved = static_cast<double>(memory.total_bytes) * reserve;
    if (available >= reserved)
        return Shortage::none;
    return available < reserved / 2 ? Shortage::hard : Shortage::below_reserve;
}

HostMemoryWatch::HostMemoryWatch(base::Timers& timers, Read read, double reserve, OnLook on_look)
    : timers_(timers), read_(std::move(read)), reserve_(reserve), on_look_(std::move(on_look)) {}

HostMemoryWatch::~HostMemoryWatch() {
    stop();
}

void HostMemoryWatch::start() {
    if (timer_ == 0 && reserve_ > 0 && read_)
        timer_ = timers_.arm(base::k_host_memory_interval, [this] { look(); });
}

void HostMemoryWatch::stop() {
    timers_.cancel(std::exchange(timer_, 0));
}

void HostMemoryWatch::look() {
    const auto memory = read_();
    const bool is_near = memory && shortage_of(*memory, 2 * reserve_) != Shortage::none;
    // Before the call, which may stop this.
    timer_ = timers_.arm(is_near ? base::k_short_host_memory_interval : base::k_host_memory_interval,
                         [this] { look(); });
    if (memory)
        on_look_(shortage_of(*memory, reserve_), *memory);
}

}  // namespace atl::sandbox
