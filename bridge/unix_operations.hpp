// The Operations port over the guest's Unix socket: each operation has a connection for itself; a call that
// ended well leaves its connection to the next one.
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
    ~UnixOperations() override;
    UnixOperations(const UnixOperations&) = delete;
    UnixOperations& operator=(const UnixOperations&) = delete;

    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec& spec, sandbox::RunObserver& observer) override;
    std::unique_ptr<sandbox::Question> start_process(const sandbox::ProcessSpec& spec,
                                                     sandbox::Answer<pid_t> answer) override;
    std::unique_ptr<sandbox::Question> list_processes(
        const std::string& id, sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer) override;
    std::unique_ptr<sandbox::Question> control_process(const std::string& id,
                                                       const sandbox::ProcessControl& control,
                                                       sandbox::Answer<void> answer) override;
    std::unique_ptr<sandbox::Run> attach(const std::string& id, std::uint64_t after,
                                         sandbox::RunObserver& observer) override;
    std::unique_ptr<sandbox::Run> feed(const std::string& id, sandbox::RunObserver& observer) override;
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t port, sandbox::DialObserver& observer) override;
    std::unique_ptr<sandbox::Call> call(const sandbox::CallSpec& spec,
                                        sandbox::CallObserver& observer) override;
    std::unique_ptr<sandbox::Watch> watch(sandbox::WatchObserver& observer) override;

  private:
    std::shared_ptr<StreamContext> context_;
    std::string path_;
    std::shared_ptr<IdleStream> idle_;
};

}  // namespace atl::bridge
