#include "core/conversation/actions.hpp"

namespace atl::conversation {

std::string error_code_of(sandbox::ExitClass exit_class) {
    switch (exit_class) {
        case sandbox::ExitClass::oom:
            return "oom";
        case sandbox::ExitClass::disk_limit:
            return "disk_limit";
        default:
            return "sandbox_crashed";
    }
}

std::string start_code_of(base::Errc why) {
    switch (why) {
        case base::Errc::agent_failed:
        case base::Errc::unknown_agent:
        case base::Errc::deadline_exceeded:  // it never said that it is ready
            return "agent_failed";
        default:
            return "sandbox_failed";
    }
}

PauseReason pause_reason_of(sandbox::ExitClass exit_class) noexcept {
    switch (exit_class) {
        case sandbox::ExitClass::oom:
            return PauseReason::oom;
        case sandbox::ExitClass::disk_limit:
            return PauseReason::disk;
        default:
            return PauseReason::crash;
    }
}

}  // namespace atl::conversation
