#include "cgroup/event_armer.hpp"

#include <array>
#include <utility>

namespace atl::cgroup {

base::Result<EventArmer> EventArmer::start(const base::Executor& executor,
                                           const std::filesystem::path& program) {
    auto process = isolation::WaitingProcess::start(executor, program, {"arm"});
    if (!process)
        return process.error();
    return EventArmer(std::move(*process));
}

int EventArmer::arm(int events, int file, int control, std::string_view argument) {
    return process_.send(argument, std::array{events, file, control});
}

}  // namespace atl::cgroup
