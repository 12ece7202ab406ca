#include "bridge/unix_operations.hpp"

#include <utility>

#include "bridge/call_stream.hpp"
#include "bridge/dial_stream.hpp"
#include "bridge/process_questions.hpp"
#include "bridge/run_stream.hpp"
#include "bridge/watch_stream.hpp"

namespace atl::bridge {

UnixOperations::UnixOperations(std::shared_ptr<StreamContext> context, std::string path)
    : context_(std::move(context)), path_(std::move(path)), idle_(std::make_shared<IdleStream>()) {}

UnixOperations::~UnixOperations() {
    idle_->drop();
}

std::unique_ptr<sandbox::Run> UnixOperations::run(const sandbox::RunSpec& spec,
                                                  sandbox::RunObserver& observer) {
    return std::make_unique<RunStream>(context_, path_, spec, observer);
}

std::unique_ptr<sandbox::Run> UnixOperations::attach(const std::string& id, std::uint64_t after,
                                                     sandbox::RunObserver& observer) {
    return std::make_unique<RunStream>(context_, path_, id, after, observer);
}

std::unique_ptr<sandbox::Run> UnixOperations::feed(const std::string& id, sandbox::RunObserver& observer) {
    return std::make_unique<RunStream>(context_, path_, id, observer);
}

std::unique_ptr<sandbox::Question> UnixOperations::start_process(const sandbox::ProcessSpec& spec,
                                                                 sandbox::Answer<pid_t> answer) {
    return std::make_unique<StartQuestion>(context_, path_, spec, std::move(answer));
}

std::unique_ptr<sandbox::Question> UnixOperations::list_processes(
    const std::string& id, sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer) {
    return std::make_unique<ListQuestion>(context_, path_, id, std::move(answer));
}

std::unique_ptr<sandbox::Question> UnixOperations::control_process(const std::string& id,
                                                                   const sandbox::ProcessControl& control,
                                                                   sandbox::Answer<void> answer) {
    return std::make_unique<ControlQuestion>(context_, path_, id, control, std::move(answer));
}

std::unique_ptr<sandbox::Dial> UnixOperations::dial(std::uint16_t port, sandbox::DialObserver& observer) {
    return std::make_unique<DialStream>(context_, path_, port, observer);
}

std::unique_ptr<sandbox::Call> UnixOperations::call(const sandbox::CallSpec& spec,
                                                    sandbox::CallObserver& observer) {
    return std::make_unique<CallStream>(context_, path_, idle_, spec, observer);
}

std::unique_ptr<sandbox::Watch> UnixOperations::watch(sandbox::WatchObserver& observer) {
    return std::make_unique<WatchStream>(context_, path_, observer);
}

}  // namespace atl::bridge
