// Pipes that outlive the turn or the agent they served because some process inside still holds their other
// end. They are read to nowhere, so that a server started in the background neither blocks nor dies of
// SIGPIPE.
#pragma once

#include <cstddef>
#include <list>

#include "bridge/guest/loop.hpp"

namespace atl::guest {

/// Beyond this many the oldest pipe is closed.
inline constexpr std::size_t k_max_leftover_pipes = 128;

class OrphanPipes {
  public:
    explicit OrphanPipes(Loop& loop) : loop_(loop) {}
    ~OrphanPipes();
    OrphanPipes(const OrphanPipes&) = delete;
    OrphanPipes& operator=(const OrphanPipes&) = delete;

    /// Takes the nonblocking read end of a pipe; it must not be in the loop any more.
    void adopt(base::UniqueFd pipe);
    std::size_t size() const noexcept { return drains_.size(); }

  private:
    struct Drain final : FdHandler {
        Drain(OrphanPipes& in_owner, base::UniqueFd in_pipe) : owner(in_owner), pipe(std::move(in_pipe)) {}
        void on_ready(std::uint32_t events) override;
        OrphanPipes& owner;
        base::UniqueFd pipe;
    };

    void drop(const Drain* drain);

    Loop& loop_;
    std::list<Drain> drains_;
};

}  // namespace atl::guest
