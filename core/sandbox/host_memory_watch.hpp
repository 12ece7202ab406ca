// Polls the host's memory and reports whether less than the reserve is available.
// Not here: the reaction (Manager::relieve_host).
#pragma once

#include <functional>
#include <optional>

#include "core/base/clock.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

enum class Shortage : std::uint8_t {
    none,
    below_reserve,
    hard,  // below half of it
};

/// `reserve` is a share of the total.
Shortage shortage_of(const HostMemory& memory, double reserve) noexcept;

class HostMemoryWatch {
  public:
    using Read = std::function<std::optional<HostMemory>()>;
    using OnLook = std::function<void(Shortage shortage, const HostMemory& memory)>;

    HostMemoryWatch(base::Timers& timers, Read read, double reserve, OnLook on_look);
    ~HostMemoryWatch();
    HostMemoryWatch(const HostMemoryWatch&) = delete;
    HostMemoryWatch& operator=(const HostMemoryWatch&) = delete;

    /// `on_look` is called at each look. Nothing without a reserve, or where the host's memory is not known.
    void start();
    void stop();

  private:
    void look();

    base::Timers& timers_;
    Read read_;
    double reserve_;
    OnLook on_look_;
    base::TimerId timer_ = 0;
};

}  // namespace atl::sandbox
