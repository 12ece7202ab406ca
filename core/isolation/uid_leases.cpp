#include "core/isolation/uid_leases.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>

#include "core/base/fix.hpp"
#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/user_namespace.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::isolation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_prefix = "block-";

base::Error lease_failed(const fs::path& path, int error_number) {
    return base::Error(base::Errc::storage_failed,
                       base::errno_text("the uid leases in " + path.string(), error_number) +
                           "; name another directory for them, the same for every server of this user");
}

std::string read_text(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

/// Holds the lock of a lease directory.
class DirectoryLock {
  public:
    explicit DirectoryLock(const fs::path& folder)
        : fd_(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
        do {
            held_ = fd_ && ::flock(fd_.get(), LOCK_EX) == 0;
        } while (fd_ && !held_ && errno == EINTR);
    }
    bool held() const noexcept { return held_; }

  private:
    base::UniqueFd fd_;
    bool held_ = false;
};

bool write_whole(const fs::path& path, const std::string& text) {
    const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           ::fsync(file.get()) == 0;
}

std::optional<std::uint32_t> block_of_name(const std::string& name) {
    if (!name.starts_with(k_prefix))
        return std::nullopt;
    std::uint32_t block = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + k_prefix.size(), end, block);
    return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(block) : std::nullopt;
}

std::set<std::uint32_t> leased_blocks(const fs::path& folder) {
    std::set<std::uint32_t> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (const auto block = block_of_name(entry.path().filename().string()))
            found.insert(*block);
    }
    return found;
}

}  // namespace

fs::path HostUidLeases::file_of(std::uint32_t block) const {
    return config_.lease_dir / (std::string(k_prefix) + std::to_string(block));
}

std::string HostUidLeases::holder_text() const {
    return config_.data_dir.string() + "\n" + config_.instance_id + "\n";
}

base::Result<std::unique_ptr<HostUidLeases>> HostUidLeases::open(UidLeaseConfig config) {
    if (config.data_dir.string().find('\n') != std::string::npos)
        return base::Error(base::Errc::storage_failed, "the data directory's name holds a line break");
    std::error_code error;
    fs::create_directories(config.lease_dir, error);
    if (error) {
        const std::string fix =
            base::fix_line("atolld --uid-lease-dir " + (config.data_dir / "uids").string() + " ...");
        return base::Error(base::Errc::storage_failed,
                           lease_failed(config.lease_dir, error.value()).detail() + fix);
    }
    std::unique_ptr<HostUidLeases> leases(new HostUidLeases(std::move(config)));
    for (const std::uint32_t block : leased_blocks(leases->config_.lease_dir)) {
        if (block < leases->config_.blocks && read_text(leases->file_of(block)) == leases->holder_text())
            leases->blocks_.push_back(block);
    }
    return leases;
}

void HostUidLeases::quarantine(const std::vector<std::uint32_t>& host_uids) {
    for (const std::uint32_t uid : host_uids)
        quarantined_.insert(uid);
}

void HostUidLeases::hold(const std::vector<std::uint32_t>& host_uids) {
    for (const std::uint32_t uid : host_uids) {
        if (uid >= base::k_first_host_uid && held_.insert(uid))
            secure_block(uid);
    }
}

std::optional<std::uint32_t> HostUidLeases::next_free() {
    // A uid that was just given back is taken last: stray references to it have time to go.
    const auto total = static_cast<std::uint32_t>(blocks_.size()) * config_.uids_per_block;
    for (std::uint32_t step = 0; step < total;) {
        const std::uint32_t at = (next_ + step) % total;
        const std::uint32_t offset = at % config_.uids_per_block;
        const std::uint32_t uid =
            base::k_first_host_uid + blocks_[at / config_.uids_per_block] * config_.uids_per_block + offset;
        const std::uint32_t rest = std::min(config_.uids_per_block - offset, total - step);
        const std::uint32_t skipped = used_.first_absent(uid, uid + rest) - uid;
        step += skipped;
        if (skipped == rest)
            continue;
        if (!quarantined_.contains(uid + skipped) && !held_.contains(uid + skipped)) {
            next_ = at + skipped + 1;
            return uid + skipped;
        }
        ++step;
    }
    return std::nullopt;
}

base::Result<std::uint32_t> HostUidLeases::acquire() {
    auto uid = next_free();
    // A whole block may be quarantined: then the next block is used.
    while (!uid) {
        auto block = lease_block();
        if (!block)
            return block.error();
        blocks_.push_back(*block);
        uid = next_free();
    }
    used_.insert(*uid);
    return *uid;
}

bool HostUidLeases::is_own(std::uint32_t block) const {
    return std::ranges::find(blocks_, block) != blocks_.end();
}

base::Result<std::uint32_t> HostUidLeases::lease_block() {
    const DirectoryLock lock(config_.lease_dir);
    if (!lock.held())
        return lease_failed(config_.lease_dir, errno);
    const auto leased = leased_blocks(config_.lease_dir);
    for (std::uint32_t block = 0; block < config_.blocks; ++block) {
        if (leased.contains(block))
            continue;
        if (try_lease(block)) {
            if (is_own(block))
                continue;  // its file was removed by hand, and is there again
            return block;
        }
        if (errno != EEXIST)
            return lease_failed(config_.lease_dir, errno);
    }
    return reclaim_block();
}

// Precondition: the lock is held.
base::Result<std::uint32_t> HostUidLeases::reclaim_block() {
    for (std::uint32_t block = 0; block < config_.blocks; ++block) {
        // Without its instance id this server's own blocks look abandoned.
        if (is_own(block) || !is_abandoned(block))
            continue;
        ::unlink(file_of(block).c_str());
        if (try_lease(block))
            return block;
        return lease_failed(config_.lease_dir, errno);
    }
    return base::Error(base::Errc::capacity,
                       "every block of host uids is leased, see " + config_.lease_dir.string());
}

// False with errno; EEXIST: another server was faster.
bool HostUidLeases::try_lease(std::uint32_t block) const {
    const fs::path fresh = config_.lease_dir / ("new-" + base::new_id());
    const bool made = write_whole(fresh, holder_text()) && ::link(fresh.c_str(), file_of(block).c_str()) == 0;
    const int error_number = errno;
    ::unlink(fresh.c_str());
    errno = error_number;
    return made;
}

bool HostUidLeases::is_abandoned(std::uint32_t block) const {
    const std::string text = read_text(file_of(block));
    const std::string data_dir = first_line(text);
    if (text.size() <= data_dir.size() + 1)
        return true;
    const std::string instance = first_line(text.substr(data_dir.size() + 1));
    return first_line(read_text(fs::path(data_dir) / k_instance_id_file)) != instance;
}

bool HostUidLeases::is_held_by_another(std::uint32_t block) const {
    const std::string text = read_text(file_of(block));
    return !text.empty() && text != holder_text() && !is_abandoned(block);
}

bool HostUidLeases::adopt(std::uint32_t host_uid) {
    if (host_uid < base::k_first_host_uid)
        return true;
    if (!secure_block(host_uid))
        return false;
    if (!used_.insert(host_uid))
        shared_.insert(host_uid);
    return true;
}

/// Leases the block of a uid that is in use already. False: another server has the block.
bool HostUidLeases::secure_block(std::uint32_t host_uid) {
    const std::uint32_t block = (host_uid - base::k_first_host_uid) / config_.uids_per_block;
    if (foreign_.contains(block))
        return false;
    if (block >= config_.blocks || is_own(block))
        return true;
    const DirectoryLock lock(config_.lease_dir);
    bool is_leased = lock.held() && try_lease(block);
    if (lock.held() && !is_leased && errno == EEXIST && is_abandoned(block)) {
        ::unlink(file_of(block).c_str());
        is_leased = try_lease(block);
    }
    if (is_leased) {
        blocks_.push_back(block);
        return true;
    }
    const int error_number = errno;
    // Whatever keeps this server from leasing it. What may pass is tried again with the next uid of the
    // block.
    const bool is_foreign = is_held_by_another(block);
    errno = error_number;
    const std::string why = is_foreign ? "a stored uid belongs to a block that another server leases"
                                       : base::errno_text("leasing the block of a stored uid", errno);
    if (is_foreign)
        foreign_.insert(block);
    base::LogLine(base::evt::sandbox_cleanup)
        .quoted("err", why)
        .field("uid", static_cast<std::int64_t>(host_uid))
        .error();
    return !is_foreign;
}

void HostUidLeases::release(std::uint32_t host_uid) {
    if (const auto found = shared_.find(host_uid); found != shared_.end())
        shared_.erase(found);
    else
        used_.erase(host_uid);
}

UidMode own_uid_mode() noexcept {
    return ::geteuid() == 0 ? UidMode::private_uid : UidMode::shared;
}

base::Result<std::unique_ptr<sandbox::UidLeases>> open_uids(UidMode mode, UidLeaseConfig config,
                                                            const fs::path& uid_map) {
    if (mode == UidMode::shared)
        return std::unique_ptr<sandbox::UidLeases>(std::make_unique<SharedUid>());
    config.blocks = std::min(config.blocks, mapped_host_uids(uid_map) / config.uids_per_block);
    if (config.blocks == 0)
        return base::Error(base::Errc::host_unsupported,
                           "root of this user namespace has no uids to give to sandboxes: map " +
                               std::to_string(config.uids_per_block) + " or more from " +
                               std::to_string(base::k_first_host_uid) +
                               " on, or run the server as another user than root");
    auto leases = HostUidLeases::open(std::move(config));
    if (!leases)
        return leases.error();
    return std::unique_ptr<sandbox::UidLeases>(std::move(*leases));
}

}  // namespace atl::isolation
