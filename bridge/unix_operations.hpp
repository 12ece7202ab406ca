// The Operations port over the guest's Unix socket: each operation has a connection for itself.
#pragma once

#include <memory>
#include <string>

#include "bridge/stream.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::bridge {

class UnixOperations final : public sandbox::Operations {
  public:
    /// `path` as connect(2) takes it, at most 107 bytes.
    UnixOperations(std::shared_ptr<StreamContext> context, std::string path);

    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec& spec, sandbox::RunObserver& observer) override;
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t port, sandbox::DialObserver& observer) override;

  private:
    std::shared_ptr<StreamContext> context_;
    std::string path_;
};

}  // namespace atl::bridge
