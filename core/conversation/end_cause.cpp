#include "core/conversation/end_cause.hpp"

#include <utility>

#include "core/conversation/actions.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

Error end_error(std::string_view code, std::string detail) {
    const Errc errc = code == "conversation_ended" ? Errc::conversation_ended
                      : code == "server_shutdown"  ? Errc::shutting_down
                      : code == "disk_limit"       ? Errc::disk_full
                                                   : Errc::sandbox_gone;
    return {errc, std::move(detail)};
}

Error end_of_generation(const sandbox::Manager& sandboxes, const std::string& sandbox_id) {
    const auto exit = sandboxes.last_end(sandbox_id);
    if (!exit || exit->detail.empty())
        return {Errc::sandbox_gone, "the sandbox has ended"};
    return end_error(error_code_of(exit->exit_class), exit->detail);
}

EndCause::EndCause(Lease& lease, base::Timers& timers, Told told)
    : lease_(lease), timers_(timers), told_(std::move(told)) {
    lease_.on_end([this](const Error& why) { tell(why); });
}

EndCause::~EndCause() {
    timers_.cancel(timer_);
    lease_.on_end(nullptr);
}

void EndCause::met(const Error& error) {
    if (error.code() != Errc::bridge_failed && error.code() != Errc::sandbox_gone)
        return tell(error);
    if (!lease_.is_held())
        return tell(lease_.why());
    if (timer_ == 0)
        timer_ = timers_.arm(base::k_end_cause_wait, [this, error] {
            timer_ = 0;
            tell(error);
        });
}

void EndCause::tell(const Error& why) {
    timers_.cancel(std::exchange(timer_, 0));
    if (const auto told = std::exchange(told_, nullptr))
        told(why);
}

}  // namespace atl::conversation
