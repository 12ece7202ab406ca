// Time as the core sees it: a clock that a test can hold still, and one-shot timers that a test can fire.
// Both are ports: app wires the real ones (asio_timers.hpp), the simulation its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace atl::base {

using SteadyTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
using Millis = std::chrono::milliseconds;

class Clock {
  public:
    virtual ~Clock() = default;
    virtual SteadyTime steady_now() const = 0;
    virtual WallTime wall_now() const = 0;
};

class SystemClock final : public Clock {
  public:
    SteadyTime steady_now() const override { return std::chrono::steady_clock::now(); }
    WallTime wall_now() const override {
        return std::chrono::floor<Millis>(std::chrono::system_clock::now());
    }
};

/// Zero names no timer.
using TimerId = std::uint64_t;

class Timers {
  public:
    virtual ~Timers() = default;
    /// Calls `fire` once after `delay`, from the loop, never from inside arm(). Never fires once cancelled.
    virtual TimerId arm(Millis delay, std::function<void()> fire) = 0;
    /// Unknown and already fired ids are ignored.
    virtual void cancel(TimerId id) = 0;
    /// Calls `run` later in this turn of the loop, after the handlers that are already due.
    virtual void defer(std::function<void()> run) = 0;
};

/// RFC 3339 in UTC with milliseconds: "2026-01-31T09:05:00.123Z".
std::string rfc3339(WallTime time);
/// The time of an RFC 3339 text with any offset; what is finer than a millisecond is cut off. Nothing for any
/// other text, and for years before 1970.
std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept;

}  // namespace atl::base
