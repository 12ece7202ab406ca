#include "bridge/agents/shell_agent.hpp"

#include <errno.h>

#include "bridge/protocol.hpp"

namespace atl::guest {

Begun ShellAgent::begin(const TurnRequest& request, TurnSink& sink) {
    ShellRun& run = runs_.emplace_back(services_, request.turn, sink,
                                       [this](const ShellRun& ended_run, std::optional<ShellState> left) {
                                           if (left)
                                               state_ = std::move(*left);
                                           ended(ended_run);
                                       });
    const ShellRun::Failure failure = run.start(request.prompt, state_);
    if (failure.error.empty())
        return Begun::yes;
    runs_.pop_back();
    if (failure.error_number == EAGAIN)
        return Begun::no_room;
    sink.write(bridge::encode_error_event("exec_failed", failure.error));
    sink.write(bridge::k_done_line);
    sink.finish();
    return Begun::yes;
}

void ShellAgent::resume(TurnSink& sink) {
    if (ShellRun* run = run_of(sink))
        run->resume();
}

void ShellAgent::abandon(TurnSink& sink) {
    if (ShellRun* run = run_of(sink))
        run->abandon();
}

bool ShellAgent::interrupt(std::string_view turn) {
    for (ShellRun& run : runs_)
        if (run.turn() == turn && !run.abandoned()) {
            run.interrupt();
            return true;
        }
    return false;
}

void ShellAgent::stop(std::function<void()> on_stopped) {
    if (runs_.empty())
        return on_stopped();
    on_stopped_ = std::move(on_stopped);
    for (ShellRun& run : runs_)
        run.terminate();
}

ShellRun* ShellAgent::run_of(const TurnSink& sink) {
    for (ShellRun& run : runs_)
        if (run.writes_to(sink))
            return &run;
    return nullptr;
}

void ShellAgent::ended(const ShellRun& run) {
    runs_.remove_if([&run](const ShellRun& candidate) { return &candidate == &run; });
    if (runs_.empty() && on_stopped_)
        std::exchange(on_stopped_, nullptr)();
}

}  // namespace atl::guest
