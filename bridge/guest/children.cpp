#include "bridge/guest/children.hpp"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>

namespace atl::guest {

std::string signal_name(int signal_number) {
    const char* name = sigabbrev_np(signal_number);
    return "SIG" + (name != nullptr ? std::string(name) : std::to_string(signal_number));
}

std::string describe(const Ending& ending) {
    if (ending.signalled)
        return "was killed by " + signal_name(ending.code);
    return "exited with status " + std::to_string(ending.code);
}

void Children::forget(pid_t pid) {
    std::erase_if(watched_, [pid](const auto& entry) { return entry.first == pid; });
}

bool Children::watches(pid_t pid) const {
    return std::any_of(watched_.begin(), watched_.end(),
                       [pid](const auto& entry) { return entry.first == pid; });
}

bool Children::any() const {
    siginfo_t info{};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void Children::reap_all() {
    for (;;) {
        siginfo_t info{};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            return;
        const auto found = std::find_if(watched_.begin(), watched_.end(),
                                        [&](const auto& entry) { return entry.first == info.si_pid; });
        if (found != watched_.end()) {
            const OnEnd on_end = std::move(found->second);
            watched_.erase(found);
            on_end(Ending{info.si_code != CLD_EXITED, info.si_status});
        }
        siginfo_t ignored{};
        waitid(P_PID, static_cast<id_t>(info.si_pid), &ignored, WEXITED | WNOHANG);
    }
}

}  // namespace atl::guest
