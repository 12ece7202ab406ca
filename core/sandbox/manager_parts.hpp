// The inside of sandbox::Manager. Internal to core/sandbox: only manager*.cpp include it. manager.cpp makes,
// starts and ends sandboxes, manager_removal.cpp removes them, manager_limits.cpp enforces their limits,
// manager_hold.cpp stops them for an inspection, manager_network.cpp opens their ways out,
// manager_ephemeral.cpp makes those without a workspace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/sandbox/machine.hpp"
#include "core/sandbox/ports.hpp"
#include "core/sandbox/reservation.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {

using WhenReady = std::function<void(base::Result<void>)>;
using WhenDone = std::function<void()>;

/// Why processes stand still without being frozen for a client.
enum class Hold : std::uint8_t {
    none,
    coming,    // asked for
    standing,  // by the hold alone
    parked,    // frozen anyway
};

// Destroyed in reverse: first the channel, then the process it talks to, then the group both live in.
struct ManagedGeneration {
    std::uint32_t number = 0;
    std::uint32_t memory_mb = 0;              // its limit, which only grows while it lives
    PlaceShares place;                        // of its user
    NetworkMode network = NetworkMode::none;  // as it was started
    GenerationMachine machine;
    bool has_exited = false;  // its process said so
    bool remains = false;     // dead for us, and processes of it are left
    std::unique_ptr<ResourceGroup> group;
    std::unique_ptr<Process> process;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Operations> operations;  // once somebody asked
    std::vector<std::uint16_t> ports;        // that are listened on
    base::TimerId timer = 0;
    base::SteadyTime started{};
    WhenReady ready;  // until it has been answered
    WhenReady frozen;
    Hold hold = Hold::none;
    std::vector<WhenDone> waiters;
    base::Error start_error{base::Errc::sandbox_failed, ""};
};

struct PendingRemoval {
    WhenDone answered;  // empty: told already
    WhenDone gone;
    base::TimerId timer = 0;
};

struct ManagedSandbox {
    Record record;
    /// 0: the server's own, or no workspace needs one. None while the node's store cannot be read.
    std::optional<std::uint32_t> host_uid;
    Status status = Status::terminated;
    std::optional<ManagedGeneration> generation;
    std::optional<Exit> last_exit;  // in this run of the server
    bool is_bare = false;           // made by create_ephemeral()
    std::function<void(const Exit&)> on_bare_exit;
    bool removing = false;
    bool is_workspace_going = false;  // the rest of the removal is the disk's work, or the next start's
    std::vector<std::shared_ptr<PendingRemoval>> removals;
};

}  // namespace atl::sandbox
