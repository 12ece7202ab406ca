// All tasks of a part of the server: every coroutine is spawned through a group. The group logs an exception
// that leaves a task, and reports the end of the last one. Single-threaded. The group must outlive its tasks:
// destroy it after the io_context has run out of work.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/base/task.hpp"

namespace atl::base {

class TaskGroup {
  public:
    TaskGroup(Executor executor, std::string name);
    TaskGroup(const TaskGroup&) = delete;
    TaskGroup& operator=(const TaskGroup&) = delete;
    ~TaskGroup();

    /// Starts `task` on the loop. An exception from it is logged as task_failed; operation_aborted is not
    /// logged.
    void spawn(Task<> task);
    /// Calls `done` once when no task is left; at once if there is none. One waiter at a time.
    void on_empty(std::function<void()> done);
    std::size_t size() const noexcept { return size_; }

  private:
    Executor executor_;
    std::string name_;
    std::size_t size_ = 0;
    std::function<void()> on_empty_;
};

}  // namespace atl::base
