// A reserve of epoll registrations for the server. fs.epoll.max_user_watches (epoll(7)) bounds them for each
// uid of the host, and a rootless server shares its uid with its sandboxes: one sandbox can use up all
// registrations, and then the kernel refuses every descriptor that the server wants to register with ENOSPC.
// This module defines epoll_ctl() for the program: if the table is full, the reserve gives up a registration
// for the new one. No other hook covers every registration that Asio makes. Not here: finding the sandbox
// that fills the table (core/isolation/epoll_guard.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::base {

// The reserve is their product; a registration takes 200 bytes of the kernel's memory. Each connection and
// each operation in a sandbox needs one.
inline constexpr std::size_t k_epoll_reserve_sets = 64;
inline constexpr std::size_t k_epoll_reserve_files = 64;

/// One exists at a time, in a program with one thread that uses epoll.
class EpollReserve {
  public:
    /// Holds nothing before the first refill().
    EpollReserve();
    ~EpollReserve();
    EpollReserve(const EpollReserve&) = delete;
    EpollReserve& operator=(const EpollReserve&) = delete;

    /// Refills the reserve and tries one more registration. False if the table is full, or was full at any
    /// time since the last call.
    bool refill();
    /// Gives up to `count` registrations back to the table; returns how many.
    std::size_t give(std::size_t count);
    /// Told by epoll_ctl(): the table was full.
    void note_full() noexcept { was_full_ = true; }
    std::size_t held() const noexcept { return held_; }
    std::size_t size() const noexcept { return sets_.size() * events_.size(); }

  private:
    bool change(std::size_t index, int operation) const;

    // A registration is a pair of a set and a file: few descriptors make many of them.
    std::vector<UniqueFd> sets_;
    std::vector<UniqueFd> events_;
    UniqueFd probe_;
    std::size_t held_ = 0;
    bool was_full_ = false;
};

}  // namespace atl::base
