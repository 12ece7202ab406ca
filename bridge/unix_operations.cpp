#include "bridge/unix_operations.hpp"

#include <utility>

#include "bridge/dial_stream.hpp"
#include "bridge/run_stream.hpp"

namespace atl::bridge {

UnixOperations::UnixOperations(std::shared_ptr<StreamContext> context, std::string path)
    : context_(std::move(context)), path_(std::move(path)) {}

std::unique_ptr<sandbox::Run> UnixOperations::run(const sandbox::RunSpec& spec,
                                                  sandbox::RunObserver& observer) {
    return std::make_unique<RunStream>(context_, path_, spec, observer);
}

std::unique_ptr<sandbox::Dial> UnixOperations::dial(std::uint16_t port, sandbox::DialObserver& observer) {
    return std::make_unique<DialStream>(context_, path_, port, observer);
}

}  // namespace atl::bridge
