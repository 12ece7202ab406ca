// A process of ours that runs a function: the floors' servers and their peers. It ends with its parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

namespace atl::bench {

class Child {
  public:
    /// Forks. The child never returns from here: it exits when `run` does, or throws.
    explicit Child(const std::function<void()>& run);
    Child(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    Child& operator=(Child&&) = delete;
    bool has_ended() const;
    /// Waits for its end so long at most. Throws std::system_error.
    bool ends_within(std::chrono::milliseconds time) const;
    pid_t pid() const { return pid_; }
    /// Waits for its end; throws unless it ended well.
    void wait();
    /// Kills and reaps it.
    ~Child();

  private:
    pid_t pid_ = -1;
};

}  // namespace atl::bench
