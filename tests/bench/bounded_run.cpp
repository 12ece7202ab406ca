#include "tests/bench/bounded_run.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <sys/types.h>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/bench/child.hpp"
#include "tests/bench/sleeper.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr double k_stop_ms = 20'000;  // for servers that remove their sandboxes
constexpr double k_kill_ms = 100;     // before a look for what the killed processes left to us
constexpr int k_kills = 50;

/// proc(5), CONFIG_PROC_CHILDREN.
void signal_children(int signal) {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t pid = 0; children >> pid;)
        ::kill(pid, signal);
}

/// True as soon as this process has no child.
bool children_end_within(double ms) {
    for (const Until until(ms); !until.passed();) {
        const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
        if (ended < 0)
            return true;
        if (ended == 0)
            ::poll(nullptr, 0, 1);
    }
    return false;
}

/// Ends the children that are left at the end of the scope.
struct Orphans {
    ~Orphans() {
        signal_children(SIGTERM);
        bool ended = children_end_within(k_stop_ms);
        for (int i = 0; i < k_kills && !ended; ++i) {
            signal_children(SIGKILL);
            ended = children_end_within(k_kill_ms);
        }
    }
};

}  // namespace

std::string run_within(std::chrono::seconds deadline, const std::function<std::string()>& run) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const TempDir dir;
    // Floors without privileges find their own folders in it.
    fs::permissions(dir.path(), fs::perms(0711));
    const fs::path answer = dir.path() / "answer";
    const Orphans orphans;
    Child child([&] {
        ::setenv("TMPDIR", dir.path().c_str(), 1);
        std::ofstream out(answer);
        out << run();
        if (!out.flush())
            throw std::runtime_error("cannot write " + answer.string());
    });
    if (!child.ends_within(deadline))
        throw std::runtime_error("did not end within " + std::to_string(deadline.count()) + " s");
    child.wait();
    std::ifstream in(answer);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace atl::bench
