// The inside of sandbox::Manager. Internal to core/sandbox: only manager*.cpp include it. manager.cpp makes,
// starts and ends sandboxes, manager_limits.cpp is about what they may use.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/sandbox/manager.hpp"

namespace atl::sandbox {

// Destroyed in reverse: first the channel, then the process it talks to, then the group both live in.
struct Manager::Generation {
    std::uint32_t number = 0;
    std::uint32_t memory_mb = 0;  // its limit, which only grows while it lives
    GenerationMachine machine;
    std::unique_ptr<ResourceGroup> group;
    std::unique_ptr<Process> process;
    std::unique_ptr<Channel> channel;
    base::TimerId timer = 0;
    base::SteadyTime started{};
    Ready ready;  // until it has been answered
    Ready frozen;
    std::vector<Done> waiters;
    base::Error start_error{base::Errc::sandbox_failed, ""};
};

struct Manager::Sandbox {
    Record record;
    Status status = Status::terminated;
    std::optional<Generation> generation;
    bool removing = false;
    std::vector<Done> on_removed;
};

}  // namespace atl::sandbox
