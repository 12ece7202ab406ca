// Generations whose processes did not die of SIGKILL in time: a process is in an uninterruptible system call,
// a file system does not answer, or a foreign freezer holds it. The list keeps them with their group and
// kills them again, with growing pauses, until the kernel says that none is left.
//
// Invariants: a process and its group are released only after both are seen to be gone; `gone` is called once
// for each, from the loop.
// Not here: the uid, workspace and place that the sandbox keeps meanwhile (manager.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/sandbox/ports.hpp"
#include "core/sandbox/reservation.hpp"
#include "core/sandbox/types.hpp"
#include "core/sandbox/unkillable.hpp"

namespace atl::sandbox {

/// The process and the group of a lost generation. Destroyed in reverse order: the process before its group.
struct Remains {
    std::string sandbox_id;  // empty: of an earlier run, and the sandbox is not known
    std::uint32_t generation = 0;
    std::vector<std::uint32_t> host_uids;  // of the processes; empty: only the sandbox counts
    std::uint32_t memory_mb = 0;           // its limit
    PlaceShares place;                     // of its user
    std::unique_ptr<ResourceGroup> group;  // may be null
    std::unique_ptr<Process> process;      // null: of an earlier run
    bool has_exited = false;               // `process` said so already
};

class UnkillableList {
  public:
    using Gone =
        std::function<void(const std::string& sandbox_id, std::uint32_t generation, std::uint32_t memory_mb)>;

    /// `clock` and `timers` outlive this.
    UnkillableList(const base::Clock& clock, base::Timers& timers, Gone gone);
    ~UnkillableList();
    UnkillableList(const UnkillableList&) = delete;
    UnkillableList& operator=(const UnkillableList&) = delete;

    void add(Remains remains);
    /// To be called by `on_exit` of the kept process. False if no process of this generation is kept.
    bool process_exited(const std::string& sandbox_id, std::uint32_t generation);
    /// True if processes of this sandbox, or with its uid, may be left. A `host_uid` of 0 belongs to no
    /// single sandbox.
    bool holds(const std::string& sandbox_id, std::uint32_t host_uid) const;
    /// Assigns unnamed remains that have this sandbox's uid, if it is not 0, to it. Returns the additional
    /// memory in MB that all remains of this sandbox now count for.
    std::uint32_t identify(const Record& record, std::uint32_t host_uid);
    /// Kills all once more and gives them up: the server ends.
    void stop();
    std::size_t size() const noexcept { return kept_.size(); }
    /// The oldest first, at most `most` of them.
    std::vector<Unkillable> list(std::size_t most) const;

  private:
    struct Entry {
        Remains remains;
        base::WallTime since{};
        base::Millis pause{};
        base::TimerId timer = 0;
        bool group_gone = false;
        bool removing = false;  // the group's removal is under way
    };
    using Number = std::uint64_t;

    Entry* lookup(Number number);
    void try_again(Number number);
    void removed(Number number, const base::Result<void>& result);
    void rest(Number number);
    void settle(Number number);

    const base::Clock& clock_;
    base::Timers& timers_;
    Gone gone_;
    std::map<Number, Entry> kept_;
    Number last_ = 0;
};

}  // namespace atl::sandbox
