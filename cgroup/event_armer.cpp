#include "cgroup/event_armer.hpp"

#include <array>
#include <cerrno>
#include <utility>

namespace atl::cgroup {

namespace {

base::Result<isolation::WaitingProcess> start_process(const base::Executor& executor,
                                                      const std::filesystem::path& program) {
    return isolation::WaitingProcess::start(executor, program, {"arm"});
}

}  // namespace

base::Result<EventArmer> EventArmer::start(const base::Executor& executor,
                                           const std::filesystem::path& program) {
    auto process = start_process(executor, program);
    if (!process)
        return process.error();
    return EventArmer(executor, program, std::move(*process));
}

int EventArmer::arm(int events, int file, int control, std::string_view argument) {
    const std::array fds{events, file, control};
    const int refused = process_ ? process_->send(argument, fds) : EPIPE;
    // ECONNRESET: the armer died with unread requests (unix(7)). These are lost.
    if (refused != EPIPE && refused != ECONNRESET)
        return refused;
    process_.reset();
    auto another = start_process(executor_, program_);
    if (!another)
        return refused;
    return process_.emplace(std::move(*another)).send(argument, fds);
}

}  // namespace atl::cgroup
