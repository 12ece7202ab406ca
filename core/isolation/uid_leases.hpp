// The host uids of sandboxes. As root each sandbox has one of its own, so that two sandboxes are strangers to
// the kernel, also when two servers run on one host: blocks of uids are leased host-wide by files in a lease
// directory, and each server hands out the uids of its blocks.
// A lease file `block-N` names its holder: the data directory and the instance id that lies in it. It stays
// when the server stops, since the workspaces stay. A block is taken over only when its holder's data
// directory no longer has that id, and only when no fresh block is left or the sandboxes of this server have
// its uids already (a data directory that moved, or got another id).
// Invariants: a uid is handed out to one sandbox at a time; a lease file appears whole or not at all
// (link(2)); taking a block over happens under a lock (flock(2)); a block is leased once by one server, also
// when its lease file or its instance id was removed under it.
// Not here: the sandbox of each uid (the store), the making of the instance id (app).
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "core/isolation/uid_set.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::isolation {

enum class UidMode : std::uint8_t {
    shared,       // every sandbox has the server's uid
    private_uid,  // each has its own: the server is root, of the host or of a user namespace of its own
};
/// The mode of this process.
UidMode own_uid_mode() noexcept;

inline constexpr const char* k_instance_id_file = "instance-id";

struct UidLeaseConfig {
    std::filesystem::path lease_dir = "/var/lib/atoll/uids";
    std::filesystem::path data_dir;  // absolute; holds k_instance_id_file with `instance_id`
    std::string instance_id;
    std::uint32_t blocks = base::k_host_uid_blocks;
    std::uint32_t uids_per_block = base::k_host_uids_per_block;
};

/// The uids that sandboxes get in this mode. Of the blocks of `config`, which counts for private uids only,
/// those that the user namespace maps. Errors: host_unsupported where it maps none; those of
/// HostUidLeases::open().
base::Result<std::unique_ptr<sandbox::UidLeases>> open_uids(
    UidMode mode, UidLeaseConfig config, const std::filesystem::path& uid_map = "/proc/self/uid_map");

/// For a server that is root.
class HostUidLeases final : public sandbox::UidLeases {
  public:
    /// Finds the blocks that this server holds already. Errors: storage_failed with how to fix it.
    static base::Result<std::unique_ptr<HostUidLeases>> open(UidLeaseConfig config);

    /// Errors: capacity when the whole range is leased, storage_failed.
    base::Result<std::uint32_t> acquire() override;
    /// False for a uid of a block that another server holds by now: this data directory is a copy of that
    /// server's, or the block's file was removed by hand. The first one of a block is logged. A block whose
    /// holder is gone is taken over.
    bool adopt(std::uint32_t host_uid) override;
    void release(std::uint32_t host_uid) override;

    void quarantine(const std::vector<std::uint32_t>& host_uids) override;
    void lift_quarantine() override { quarantined_.clear(); }
    void hold(const std::vector<std::uint32_t>& host_uids) override;

  private:
    explicit HostUidLeases(UidLeaseConfig config) : config_(std::move(config)) {}
    std::filesystem::path file_of(std::uint32_t block) const;
    std::string holder_text() const;
    base::Result<std::uint32_t> lease_block();
    base::Result<std::uint32_t> reclaim_block();
    bool secure_block(std::uint32_t host_uid);
    bool try_lease(std::uint32_t block) const;
    bool is_abandoned(std::uint32_t block) const;
    bool is_held_by_another(std::uint32_t block) const;
    bool is_own(std::uint32_t block) const;
    std::optional<std::uint32_t> next_free();

    UidLeaseConfig config_;
    std::vector<std::uint32_t> blocks_;
    UidSet used_;
    std::multiset<std::uint32_t> shared_;  // of those, for each sandbox beyond the first that has it
    UidSet quarantined_;
    UidSet held_;
    std::set<std::uint32_t> foreign_;  // blocks of uids in use that could not be leased
    std::uint32_t next_ = 0;           // where the search for a free uid starts
};

/// For a rootless server: every sandbox has the server's uid.
class SharedUid final : public sandbox::UidLeases {
  public:
    base::Result<std::uint32_t> acquire() override { return 0U; }
    bool adopt(std::uint32_t) override { return true; }
    void release(std::uint32_t) override {}
};

}  // namespace atl::isolation
