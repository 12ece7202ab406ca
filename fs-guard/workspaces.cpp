#include "fs-guard/workspaces.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <unordered_set>

#include "core/base/ids.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "fs-guard/folders.hpp"
#include "fs-guard/owner_change.hpp"

namespace atl::fs_guard {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t k_bytes_per_mb = 1024UL * 1024;

std::string megabytes(std::uint64_t bytes) {
    return std::to_string(bytes / k_bytes_per_mb) + " MB";
}

std::string in_seconds(base::Millis time) {
    return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

std::string rest_of(base::Millis pause) {
    if (pause == base::Millis{0})
        return "";
    return "; it was so in one start after another, so it can start again only in " + in_seconds(pause);
}

std::string reason_of(const DiskMeter::Verdict& verdict) {
    const std::string used = megabytes(verdict.used_bytes);
    const std::string held =
        verdict.held_bytes < k_disk_slack_bytes
            ? ""
            : " (" + megabytes(verdict.held_bytes) +
                  " of it in deleted files that its processes held open, or in uploads under way)";
    const std::string limit = "the disk limit of " + megabytes(verdict.limit_bytes);
    const std::string nearly_full = "the host's disk is nearly full, and ";
    switch (verdict.why) {
        case DiskExcess::limit:
            return "its workspace holds " + used + held + ", more than " + limit +
                   "; the files are kept: delete some with the next message, or raise the limit" +
                   rest_of(verdict.pause);
        case DiskExcess::out_of_sight:
            return "the disk lost " + megabytes(verdict.unexplained_bytes) +
                   " that are in nobody's workspace; its processes keep open files where they cannot be "
                   "counted and wrote most, " +
                   megabytes(verdict.written_bytes) + ": with its workspace of " + used + ", more than " +
                   limit + "; the files are kept";
        case DiskExcess::reserve:
            return nearly_full + "its workspace of " + used + held +
                   " grew the fastest of those of the user who wrote most; the files are kept";
        case DiskExcess::reserve_held:
            return nearly_full + "its processes held the most in deleted files, " +
                   megabytes(verdict.held_bytes) + "; the files of its workspace are kept";
        case DiskExcess::reserve_written:
            return nearly_full + "it wrote the most of those whose open files cannot all be counted, " +
                   megabytes(verdict.written_bytes) + "; the files are kept";
        case DiskExcess::reserve_unmeasured:
            return nearly_full + "no other growth explains it, and its workspace of at least " + used +
                   " takes too long to be measured; the files are kept";
        case DiskExcess::too_large:
            return "its workspace is too large to be measured: more than 1,000,000 entries, 2,048 levels of "
                   "folders, or 2 s of processor time; the files are kept: delete most of "
                   "them with the next message, which has the time of one --disk-period for it" +
                   rest_of(verdict.pause);
        case DiskExcess::unmeasurable:
            break;
    }
    return "its workspace cannot be measured, since its folders are moved all the time; the files are kept";
}

base::Error nearly_full() {
    return base::Error(base::Errc::capacity,
                       "the host's disk is nearly full; delete conversations or free space, then try again")
        .with("budget", "\"files\"");
}

sandbox::Exit exit_of(const DiskMeter::Verdict& verdict) {
    sandbox::Exit exit;
    exit.exit_class = sandbox::ExitClass::disk_limit;
    exit.code = SIGKILL;
    exit.limit_bytes = verdict.limit_bytes;
    exit.peak_bytes = verdict.used_bytes;
    exit.detail = reason_of(verdict);
    return exit;
}

/// Counts removals down and keeps the first error.
struct Countdown {
    std::size_t left = 0;
    std::optional<base::Error> first_error;
    std::function<void(base::Result<void>)> done;

    void step(const base::Result<void>& result) {
        if (!result && !first_error)
            first_error = result.error();
        if (--left > 0)
            return;
        if (first_error)
            done(*first_error);
        else
            done({});
    }
};

}  // namespace

base::Result<std::unique_ptr<Workspaces>> Workspaces::open(const fs::path& data_dir, HelperClient& remover,
                                                           DiskMeter& meter, base::Timers& timers,
                                                           base::Budget& removals) {
    auto workspaces = open_folder(data_dir / k_workspaces);
    if (!workspaces)
        return workspaces.error();
    auto trash = open_folder(data_dir / k_trash);
    if (!trash)
        return trash.error();
    auto unclaimed = open_folder(data_dir / k_unclaimed);
    if (!unclaimed)
        return unclaimed.error();
    auto orphans = Orphans::open(data_dir);
    if (!orphans)
        return orphans.error();
    std::unique_ptr<Workspaces> opened(new Workspaces(
        data_dir, remover, meter, timers, removals,
        {std::move(*workspaces), std::move(*trash), std::move(*unclaimed), std::move(*orphans)}));
    opened->open_quota();
    return opened;
}

Workspaces::Workspaces(fs::path data_dir, HelperClient& remover, DiskMeter& meter, base::Timers& timers,
                       base::Budget& removals, Folders folders)
    : data_dir_(std::move(data_dir)),
      removals_(remover, removals),
      meter_(meter),
      timers_(timers),
      workspaces_(std::move(folders.workspaces)),
      trash_(std::move(folders.trash)),
      marks_(std::move(folders.unclaimed)),
      orphans_(std::move(folders.orphans)) {}

fs::path Workspaces::workspace(const std::string& sandbox_id) const {
    return data_dir_ / k_workspaces / sandbox_id;
}

base::Result<fs::path> Workspaces::provision(const std::string& sandbox_id, std::uint32_t host_uid) {
    if (!base::is_id(sandbox_id))
        return base::Error(base::Errc::internal, "a workspace needs an id for its name");
    if (meter_.is_very_short())
        return nearly_full();
    if (auto marked = mark(sandbox_id); !marked)
        return marked.error();
    if (auto made = make_workspace(sandbox_id, host_uid); !made) {
        unmark(sandbox_id);
        return made.error();
    }
    return workspace(sandbox_id);
}

base::Result<void> Workspaces::make_workspace(const std::string& sandbox_id, std::uint32_t host_uid) {
    const char* name = sandbox_id.c_str();
    if (::mkdirat(workspaces_.get(), name, 0700) != 0)
        return failed("making the workspace " + sandbox_id, errno);
    if (host_uid != 0 && ::fchownat(workspaces_.get(), name, host_uid, host_uid, AT_SYMLINK_NOFOLLOW) != 0) {
        const int error_number = errno;
        ::unlinkat(workspaces_.get(), name, AT_REMOVEDIR);
        return failed("giving the workspace to uid " + std::to_string(host_uid), error_number);
    }
    if (!quota_)
        return {};
    if (host_uid < base::k_first_host_uid) {
        measured_.insert(sandbox_id);
    } else if (auto joined = join_project(sandbox_id, host_uid); !joined) {
        ::unlinkat(workspaces_.get(), name, AT_REMOVEDIR);
        return joined.error();
    }
    return {};
}

// Below the reserve users with little may still make some, for there is room until half of it is gone.
base::Result<void> Workspaces::room_for(const base::ShareHolder& user) const {
    if (auto room = removals_.room_for(user); !room)
        return room;
    if (auto room = meter_.room_for(user); !room)
        return room;
    if (user.is_user() ? meter_.is_very_short() : meter_.is_short())
        return nearly_full();
    return {};
}

// The mark comes before the workspace: the next start keeps a workspace without a record and without a mark.
base::Result<void> Workspaces::mark(const std::string& sandbox_id) {
    const base::UniqueFd made(::openat(marks_.get(), sandbox_id.c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made)
        return failed("marking the workspace " + sandbox_id + " as unclaimed", errno);
    unclaimed_.insert(sandbox_id);
    return {};
}

void Workspaces::unmark(const std::string& sandbox_id) {
    if (unclaimed_.erase(sandbox_id) == 0 || ::unlinkat(marks_.get(), sandbox_id.c_str(), 0) == 0)
        return;
    base::LogLine(base::evt::sandbox_cleanup)
        .field("sbx", sandbox_id)
        .quoted("err", failed("taking the mark off the workspace", errno).detail())
        .error();
}

void Workspaces::open_quota() {
    auto quota = ProjectQuota::open(workspaces_.get());
    if (!quota) {
        base::LogLine(base::evt::disk_enforcement)
            .field("by", "check")
            .quoted("err", quota.error().detail())
            .info();
        return;
    }
    // The kernel refuses to move a file of another project into a folder with project inheritance.
    if (ProjectQuota::project_of(trash_.get()) != 0)
        (void)ProjectQuota::assign(trash_.get(), 0);
    quota_ = std::move(*quota);
    base::LogLine(base::evt::disk_enforcement).field("by", "quota").info();
}

base::Result<void> Workspaces::join_project(const std::string& sandbox_id, std::uint32_t project) {
    const base::UniqueFd folder = open_existing(workspaces_.get(), sandbox_id);
    if (!folder)
        return failed("opening the workspace " + sandbox_id, errno);
    return ProjectQuota::assign(folder.get(), project);
}

std::optional<std::uint32_t> Workspaces::stored_project(const std::string& sandbox_id) const {
    const base::UniqueFd folder = open_existing(workspaces_.get(), sandbox_id);
    struct stat status {};
    const std::uint32_t project = folder ? ProjectQuota::project_of(folder.get()) : 0;
    if (project >= base::k_first_host_uid && ::fstat(folder.get(), &status) == 0 && status.st_uid == project)
        return project;
    return std::nullopt;
}

std::optional<std::uint32_t> Workspaces::project(const std::string& sandbox_id) const {
    if (!quota_ || !base::is_id(sandbox_id) || measured_.contains(sandbox_id))
        return std::nullopt;
    const auto found = projects_.find(sandbox_id);
    return found == projects_.end() ? stored_project(sandbox_id) : found->second;
}

bool Workspaces::set_quota(const std::string& sandbox_id, std::uint64_t limit_bytes) {
    const auto found = project(sandbox_id);
    if (!found)
        return false;
    const auto set =
        quota_->set_limit(*found, limit_bytes + k_disk_slack_bytes, limit_bytes / k_least_bytes_an_inode);
    if (!set)
        base::LogLine(base::evt::disk_unmetered)
            .field("sbx", sandbox_id)
            .quoted("err", set.error().detail())
            .error();
    return set.has_value();
}

void Workspaces::clear_quota(std::uint32_t project) {
    if (quota_ && project >= base::k_first_host_uid)
        (void)quota_->clear(project);
}

std::optional<TreeSize> Workspaces::counted(const std::string& sandbox_id) const {
    const auto found = project(sandbox_id);
    const auto usage = found ? quota_->usage(*found) : std::nullopt;
    if (!usage)
        return std::nullopt;
    return TreeSize{usage->bytes, usage->inodes, true};
}

void Workspaces::measure(const std::string& sandbox_id, HelperClient& measurer,
                         std::function<void(base::Result<TreeSize>)> done) const {
    if (const auto size = counted(sandbox_id))
        return timers_.defer([done = std::move(done), size] { done(*size); });
    measurer.measure(folder_name(sandbox_id), std::move(done));
}

bool Workspaces::move_to_trash(const std::string& name, std::string& trash_name) {
    trash_name = (base::is_id(name) ? name : "stray") + "." + base::new_id();
    return ::renameat(workspaces_.get(), name.c_str(), trash_.get(), trash_name.c_str()) == 0;
}

base::Result<void> Workspaces::remove(const std::string& sandbox_id, const base::ShareHolder& user,
                                      std::function<void(base::Result<void>)> done) {
    std::string trash_name;
    const auto had = project(sandbox_id);
    const auto size = counted(sandbox_id);
    const std::uint64_t bytes =
        size ? size->bytes : meter_.last_size(sandbox_id).value_or(base::k_unmeasured_tree_bytes);
    const bool is_moved = base::is_id(sandbox_id) && move_to_trash(sandbox_id, trash_name);
    if (!is_moved && (!base::is_id(sandbox_id) || errno != ENOENT))
        return failed("removing the workspace " + sandbox_id, errno);
    measured_.erase(sandbox_id);
    projects_.erase(sandbox_id);
    // Its size stays known until its last byte is freed.
    auto forget = [this, sandbox_id, done = std::move(done)](const base::Result<void>& removed) {
        meter_.forget(sandbox_id);
        done(removed);
    };
    if (!is_moved) {
        timers_.defer([forget = std::move(forget)] { forget({}); });
        return {};
    }
    unmark(sandbox_id);
    if (had)
        clear_quota(*had);
    removals_.add(user, bytes, std::string(k_trash) + "/" + trash_name, std::move(forget));
    return {};
}

/// The marks that the last run left, and the marked workspaces that could not be moved.
struct Workspaces::Marked {
    std::unordered_set<std::string> names;
    std::unordered_set<std::string> stuck;
};

base::Result<Workspaces::Sweep> Workspaces::sweep(sandbox::SweepCalls calls) {
    Sweep sweep;
    if (auto sorted = sort_out(calls, sweep); !sorted)
        return sorted.error();
    if (auto given = give_back(calls, sweep); !given)
        return given.error();
    sweep.missing = calls.known - std::min<std::uint64_t>(calls.known, sweep.kept);
    base::LogLine report(base::evt::workspaces_swept);
    const auto tell = [&report](const char* name, std::uint64_t count) {
        report.field(name, static_cast<std::int64_t>(count));
    };
    tell("known", calls.known);
    tell("unclaimed", sweep.unclaimed);
    tell("orphans", sweep.orphans);
    tell("new_orphans", sweep.new_orphans);
    tell("returned", sweep.returned);
    tell("missing", sweep.missing);
    if (sweep.orphans > 0 || sweep.missing > 0)
        report.warn();
    else
        report.info();
    sweep.trash_owners = empty_trash(std::move(calls.on_emptied));
    return sweep;
}

// Half-made workspaces of a crash go to the trash; workspaces without a record go to the orphans.
base::Result<void> Workspaces::sort_out(const sandbox::SweepCalls& calls, Sweep& sweep) {
    const std::unordered_set<std::string> held(calls.held_ids.begin(), calls.held_ids.end());
    const auto marks = names_in(data_dir_ / k_unclaimed);
    Marked marked{{marks.begin(), marks.end()}, {}};
    auto sorted = each_workspace_name(data_dir_, [&](const std::string& name) -> base::Result<void> {
        const auto known = base::is_id(name) ? calls.is_known(name) : base::Result<bool>(false);
        if (!known)
            return known.error();
        if (*known)
            return keep(calls, name, sweep);
        if (held.contains(name))
            marked.stuck.insert(name);
        else
            put_aside(name, marked, sweep);
        return {};
    });
    if (!sorted)
        return sorted;
    for (const auto& mark : marks) {
        if (!marked.stuck.contains(mark))
            ::unlinkat(marks_.get(), mark.c_str(), 0);
    }
    return {};
}

base::Result<void> Workspaces::keep(const sandbox::SweepCalls& calls, const std::string& name, Sweep& sweep) {
    ++sweep.kept;
    if (quota_ && !stored_project(name))
        measured_.insert(name);
    return calls.on_kept(name);
}

void Workspaces::put_aside(const std::string& name, Marked& marked, Sweep& sweep) {
    if (marked.names.contains(name)) {
        std::string unused;
        if (move_to_trash(name, unused))
            ++sweep.unclaimed;
        else
            marked.stuck.insert(name);
        return;
    }
    const auto taken = orphans_.take(workspaces_.get(), name);
    if (taken) {
        ++sweep.new_orphans;
        return;
    }
    base::LogLine(base::evt::sandbox_cleanup).quoted("err", taken.error().detail()).error();
    struct stat status {};
    if (::fstatat(workspaces_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
        sweep.orphan_owners.push_back(status.st_uid);
    ++sweep.orphans;
}

// An orphan that the database knows again goes back to its place, unless a workspace is there.
base::Result<void> Workspaces::give_back(const sandbox::SweepCalls& calls, Sweep& sweep) {
    for (const auto& orphan : orphans_.list()) {
        const auto known = base::is_id(orphan.name) ? calls.is_known(orphan.name) : base::Result<bool>(false);
        if (!known)
            return known.error();
        if (!*known || !orphans_.give(orphan, workspaces_.get(), orphan.name)) {
            ++sweep.orphans;
            sweep.orphan_owners.push_back(orphan.owner_uid);
            continue;
        }
        ++sweep.returned;
        if (auto kept = keep(calls, orphan.name, sweep); !kept)
            return kept;
    }
    return {};
}

std::vector<std::uint32_t> Workspaces::empty_trash(std::function<void(base::Result<void>)> done) {
    const auto rubbish = names_in(data_dir_ / k_trash);
    if (rubbish.empty()) {
        timers_.defer([done = std::move(done)] { done({}); });
        return {};
    }
    base::LogLine(base::evt::sandbox_cleanup)
        .field("err", "removing what an earlier run left")
        .field("trash", static_cast<std::int64_t>(rubbish.size()))
        .info();
    auto countdown = std::make_shared<Countdown>(Countdown{rubbish.size(), std::nullopt, std::move(done)});
    std::vector<std::uint32_t> owners;
    for (const auto& name : rubbish) {
        struct stat status {};
        if (::fstatat(trash_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
            owners.push_back(status.st_uid);
        if (const base::UniqueFd folder = open_existing(trash_.get(), name))
            clear_quota(ProjectQuota::project_of(folder.get()));
        // Whose it was is not known any more.
        removals_.add(base::ShareHolder::thing(name), 0, std::string(k_trash) + "/" + name,
                      [countdown](const base::Result<void>& result) { countdown->step(result); });
    }
    return owners;
}

std::optional<std::uint32_t> Workspaces::owner(const std::string& sandbox_id) const {
    struct stat status {};
    if (!base::is_id(sandbox_id) ||
        ::fstatat(workspaces_.get(), sandbox_id.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return std::nullopt;
    // A launch follows a link, as a copied data directory may have one in the place of a workspace.
    if (!S_ISDIR(status.st_mode))
        return std::nullopt;
    return status.st_uid < base::k_first_host_uid ? 0 : status.st_uid;
}

base::Result<void> Workspaces::give_to(const std::string& sandbox_id, std::uint32_t host_uid) {
    return give_tree(workspaces_.get(), sandbox_id, host_uid);
}

base::Result<std::vector<std::string>> Workspaces::owned_by(
    const std::vector<std::uint32_t>& host_uids) const {
    std::vector<std::string> owned;
    if (host_uids.empty())
        return owned;
    const auto visit = [&](const std::string& name) -> base::Result<void> {
        struct stat status {};
        if (::fstatat(workspaces_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            std::ranges::find(host_uids, status.st_uid) != host_uids.end())
            owned.push_back(name);
        return {};
    };
    if (auto visited = each_workspace_name(data_dir_, visit); !visited)
        return visited.error();
    return owned;
}

base::Result<void> Workspaces::each_workspace(
    const std::function<base::Result<void>(const std::string& sandbox_id)>& visit) const {
    return each_workspace_name(data_dir_, [&](const std::string& name) {
        return base::is_id(name) ? visit(name) : base::Result<void>();
    });
}

std::string Workspaces::folder_name(const std::string& sandbox_id) {
    return std::string(k_workspaces) + "/" + sandbox_id;
}

void Workspaces::watch(const std::string& sandbox_id, const base::ShareHolder& user, std::uint32_t limit_mb,
                       std::function<void(sandbox::Exit)> on_excess,
                       std::function<void(std::uint64_t, std::uint64_t)> on_warning) {
    const std::uint64_t limit_bytes = limit_mb * k_bytes_per_mb;
    if (const auto found = project(sandbox_id))
        projects_[sandbox_id] = *found;
    const DiskEnforcer enforcer =
        set_quota(sandbox_id, limit_bytes) ? DiskEnforcer::quota : DiskEnforcer::none;
    // A quota that could not be set is none: then it is measured.
    if (enforcer == DiskEnforcer::none && projects_.erase(sandbox_id) > 0)
        measured_.insert(sandbox_id);
    meter_.watch(
        sandbox_id, limit_bytes,
        [on_excess = std::move(on_excess)](const DiskMeter::Verdict& verdict) {
            on_excess(exit_of(verdict));
        },
        std::move(on_warning), enforcer, user);
}

base::Result<void> Workspaces::may_start(const std::string& sandbox_id, std::uint32_t limit_mb) const {
    const base::Millis rest = meter_.may_start_in(sandbox_id, limit_mb * k_bytes_per_mb);
    if (rest == base::Millis{0})
        return {};
    return base::Error(base::Errc::sandbox_failed,
                       "its workspace has grown again and again while it was over the disk limit of " +
                           std::to_string(limit_mb) +
                           " MB, or stayed too large to be measured; it can start again in " +
                           in_seconds(rest) +
                           ", to remove files, or, if the limit is in the way, at once with a higher limit");
}

void Workspaces::unwatch(const std::string& sandbox_id) {
    projects_.erase(sandbox_id);
    meter_.unwatch(sandbox_id);
}

void Workspaces::set_limit(const std::string& sandbox_id, std::uint32_t limit_mb) {
    (void)set_quota(sandbox_id, limit_mb * k_bytes_per_mb);
    meter_.set_limit(sandbox_id, limit_mb * k_bytes_per_mb);
}

std::optional<sandbox::DiskUsage> Workspaces::usage(const std::string& sandbox_id) const {
    auto size = counted(sandbox_id);
    if (!size)
        size = meter_.size(sandbox_id);
    if (!size)
        return std::nullopt;
    return sandbox::DiskUsage{size->bytes, size->inodes};
}

void Workspaces::check_room(const std::string& sandbox_id, std::optional<std::uint64_t> bytes,
                            std::function<void(base::Result<void>)> done) {
    meter_.check_room(
        sandbox_id, bytes, [bytes, done = std::move(done)](const std::optional<DiskMeter::Verdict>& excess) {
            if (!excess)
                return done({});
            done(base::Error(base::Errc::disk_full,
                             bytes.value_or(0) == 0
                                 ? reason_of(*excess)
                                 : "its workspace holds " + megabytes(excess->used_bytes) + ", and " +
                                       std::to_string(*bytes) + " bytes more are over the disk limit of " +
                                       megabytes(excess->limit_bytes) +
                                       "; the files are kept: delete some, or raise the limit"));
        });
}

void Workspaces::describe(sandbox::Enforcement& enforcement, const std::string& sandbox_id) const {
    enforcement.disk = quota_ && !measured_.contains(sandbox_id) ? "quota" : "check";
}

}  // namespace atl::fs_guard
