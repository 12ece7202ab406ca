#include "fs-guard/workspaces.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <unordered_set>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::fs_guard {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_workspaces = "workspaces";
constexpr const char* k_trash = "trash";

base::Error failed(const std::string& what, int error_number) {
    return base::Error(base::Errc::storage_failed, base::errno_text(what, error_number));
}

base::Result<base::UniqueFd> open_folder(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return failed("mkdir " + path.string(), errno);
    base::UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder)
        return failed("open " + path.string(), errno);
    return folder;
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        names.push_back(entry.path().filename().string());
    return names;
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
                                                           base::Timers& timers) {
    auto workspaces = open_folder(data_dir / k_workspaces);
    if (!workspaces)
        return workspaces.error();
    auto trash = open_folder(data_dir / k_trash);
    if (!trash)
        return trash.error();
    return std::unique_ptr<Workspaces>(
        new Workspaces(data_dir, remover, timers, std::move(*workspaces), std::move(*trash)));
}

Workspaces::Workspaces(fs::path data_dir, HelperClient& remover, base::Timers& timers,
                       base::UniqueFd workspaces, base::UniqueFd trash)
    : data_dir_(std::move(data_dir)),
      remover_(remover),
      timers_(timers),
      workspaces_(std::move(workspaces)),
      trash_(std::move(trash)) {}

fs::path Workspaces::workspace(const std::string& sandbox_id) const {
    return data_dir_ / k_workspaces / sandbox_id;
}

base::Result<fs::path> Workspaces::provision(const std::string& sandbox_id, std::uint32_t host_uid) {
    const char* name = sandbox_id.c_str();
    if (!base::is_id(sandbox_id))
        return base::Error(base::Errc::internal, "a workspace needs an id for its name");
    if (::mkdirat(workspaces_.get(), name, 0700) != 0)
        return failed("making the workspace " + sandbox_id, errno);
    if (host_uid != 0 && ::fchownat(workspaces_.get(), name, host_uid, host_uid, AT_SYMLINK_NOFOLLOW) != 0) {
        const int error_number = errno;
        ::unlinkat(workspaces_.get(), name, AT_REMOVEDIR);
        return failed("giving the workspace to uid " + std::to_string(host_uid), error_number);
    }
    return workspace(sandbox_id);
}

bool Workspaces::move_to_trash(const std::string& name, std::string& trash_name) {
    trash_name = (base::is_id(name) ? name : "stray") + "." + base::new_id();
    return ::renameat(workspaces_.get(), name.c_str(), trash_.get(), trash_name.c_str()) == 0;
}

void Workspaces::remove(const std::string& sandbox_id, std::function<void(base::Result<void>)> done) {
    std::string trash_name;
    if (base::is_id(sandbox_id) && move_to_trash(sandbox_id, trash_name)) {
        remover_.remove(std::string(k_trash) + "/" + trash_name, std::move(done));
        return;
    }
    base::Result<void> result;
    if (!base::is_id(sandbox_id) || errno != ENOENT)
        result = failed("removing the workspace " + sandbox_id, errno);
    timers_.defer([done = std::move(done), result] { done(result); });
}

std::vector<std::uint32_t> Workspaces::sweep(const std::vector<std::string>& known_ids,
                                             std::function<void(base::Result<void>)> done) {
    const std::unordered_set<std::string> known(known_ids.begin(), known_ids.end());
    std::size_t strays = 0;
    std::string unused;
    for (const auto& name : names_in(data_dir_ / k_workspaces)) {
        if (!known.contains(name) && move_to_trash(name, unused))
            ++strays;
    }
    const auto rubbish = names_in(data_dir_ / k_trash);
    if (rubbish.empty()) {
        timers_.defer([done = std::move(done)] { done({}); });
        return {};
    }
    base::LogLine(base::evt::sandbox_cleanup)
        .field("err", "removing what an earlier run left")
        .field("workspaces", static_cast<std::int64_t>(strays))
        .field("trash", static_cast<std::int64_t>(rubbish.size()))
        .info();
    auto countdown = std::make_shared<Countdown>(Countdown{rubbish.size(), std::nullopt, std::move(done)});
    std::vector<std::uint32_t> owners;
    for (const auto& name : rubbish) {
        struct stat status {};
        if (::fstatat(trash_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
            owners.push_back(status.st_uid);
        remover_.remove(std::string(k_trash) + "/" + name,
                        [countdown](const base::Result<void>& result) { countdown->step(result); });
    }
    return owners;
}

void Workspaces::describe(sandbox::Enforcement& enforcement) const {
    enforcement.disk = "none";
}

}  // namespace atl::fs_guard
