// Processes that no signal ends before their thaw: a process in a frozen group of cgroup v1 dies only once it
// is thawed (cgroup-v1/freezer-subsystem.rst). The group is the test's own, beside the groups of a server
// under test.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace atl::test {

class StuckProcesses {
  public:
    /// True if this user can make such a group here.
    static bool can_be_made();

    /// Throws std::runtime_error where the kernel refuses.
    StuckProcesses();
    /// Lets go of all and removes the group.
    ~StuckProcesses();
    StuckProcesses(const StuckProcesses&) = delete;
    StuckProcesses& operator=(const StuckProcesses&) = delete;

    /// From now on `pid` stands still and does not die.
    void hold(pid_t pid);
    /// Thaws all; the killed processes die.
    void let_go();

  private:
    void set_state(const char* wanted);

    std::filesystem::path folder_;
};

}  // namespace atl::test
