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
