// Project quotas of a real file system: where temporary folders are, if that has them. scripts/vm-test sees
// to it.
#include "fs-guard/project_quota.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <functional>

#include "../isolation/fixture.hpp"
#include "core/base/limits.hpp"
#include "fs-guard/workspaces.hpp"

namespace project_quota_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;
using fs_guard::ProjectQuota;

constexpr std::uint64_t k_mb = 1024UL * 1024;
// A project number in a block that no server is likely to lease.
constexpr std::uint32_t k_project = base::k_first_host_uid + 4096 * 16'000;

base::UniqueFd open_folder(const fs::path& path) {
    return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

ProjectQuota open_quota(const fs::path& path) {
    auto quota = ProjectQuota::open(open_folder(path).get());
    if (!quota)
        SKIP("no project quotas where temporary folders are that this user may set: "
             << quota.error().detail());
    return std::move(*quota);
}

/// A folder that is a project of its own, as the workspace of a sandbox is.
struct Project {
    test::TempFolder temp;
    ProjectQuota quota = open_quota(temp.path());
    std::uint32_t number;
    fs::path folder = temp / "workspace";

    explicit Project(std::uint32_t wanted = k_project) : number(wanted) {
        fs::create_directory(folder);
        REQUIRE(::chown(folder.c_str(), number, number) == 0);
        REQUIRE(ProjectQuota::assign(open_folder(folder).get(), number).has_value());
    }
    ~Project() { (void)quota.clear(number); }

    /// Runs `work` as the owner of the folder, in a process of its own; returns its result.
    int as_owner(const std::function<int()>& work) const {
        const pid_t pid = ::fork();
        if (pid == 0) {
            if (::setresgid(number, number, number) != 0 || ::setresuid(number, number, number) != 0 ||
                ::chdir(folder.c_str()) != 0)
                ::_exit(255);
            // A process that changed its uid may not write its own uid_map otherwise (proc(5)).
            ::prctl(PR_SET_DUMPABLE, 1);
            ::_exit(work());
        }
        int status = 0;
        REQUIRE(::waitpid(pid, &status, 0) == pid);
        REQUIRE(WIFEXITED(status));
        REQUIRE(WEXITSTATUS(status) != 255);
        return WEXITSTATUS(status);
    }
};

/// 0 or errno.
int write_file(const char* name, std::uint64_t bytes) {
    const base::UniqueFd file(::open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (!file)
        return errno;
    const std::string chunk(64UL * 1024, 'x');
    for (std::uint64_t done = 0; done < bytes; done += chunk.size()) {
        if (::write(file.get(), chunk.data(), chunk.size()) < 0)
            return errno;
    }
    // Where blocks are allocated late, late is when it fails.
    return ::fsync(file.get()) == 0 ? 0 : errno;
}

bool is_refusal(int error_number) {
    return error_number == EDQUOT || error_number == ENOSPC;
}

/// Tries to leave the project: 0 or errno.
int leave_project(const char* name, bool keeps_number) {
    const base::UniqueFd file(::open(name, O_RDONLY | O_CLOEXEC));
    fsxattr attributes{};
    if (!file || ::ioctl(file.get(), FS_IOC_FSGETXATTR, &attributes) != 0)
        return errno;
    if (!keeps_number)
        attributes.fsx_projid = 0;
    attributes.fsx_xflags &= ~static_cast<unsigned>(FS_XFLAG_PROJINHERIT);
    return ::ioctl(file.get(), FS_IOC_FSSETXATTR, &attributes) == 0 ? 0 : errno;
}

bool write_text(const char* path, const std::string& text) {
    const base::UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool become_root_of_a_user_namespace() {
    const std::string uid = std::to_string(::geteuid());
    return ::unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", "0 " + uid + " 1") &&
           write_text("/proc/self/gid_map", "0 " + uid + " 1") && ::setresuid(0, 0, 0) == 0;
}

}  // namespace

TEST_CASE("quota: a file system without says why", "[quota]") {
    const auto none = ProjectQuota::open(open_folder("/proc").get());
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code() == base::Errc::host_unsupported);
    CHECK_FALSE(none.error().detail().empty());
}

TEST_CASE("quota: what goes beyond the limit is refused, and a limit that is raised holds at once",
          "[quota]") {
    const Project project;
    REQUIRE(project.quota.set_limit(k_project, 4 * k_mb, 1000).has_value());
    CHECK(project.as_owner([] { return write_file("small", 2 * k_mb); }) == 0);
    CHECK(is_refusal(project.as_owner([] { return write_file("big", 4 * k_mb); })));
    const auto used = project.quota.usage(k_project);
    REQUIRE(used.has_value());
    CHECK(used->bytes <= 4 * k_mb);
    CHECK(used->bytes >= 2 * k_mb);
    CHECK(used->inodes == 3);
    CHECK(used->limit_bytes == 4 * k_mb);
    // It is the project that is full, not the file system.
    CHECK(write_file((project.temp / "beside").c_str(), 8 * k_mb) == 0);
    REQUIRE(project.quota.set_limit(k_project, 16 * k_mb, 1000).has_value());
    CHECK(project.as_owner([] { return write_file("big", 6 * k_mb); }) == 0);
    // Less than is in use stops growth alone.
    REQUIRE(project.quota.set_limit(k_project, k_mb, 1000).has_value());
    CHECK(is_refusal(project.as_owner([] { return write_file("more", k_mb); })));
    CHECK(project.as_owner([] { return ::unlink("big") == 0 && ::unlink("small") == 0 ? 0 : errno; }) == 0);
    CHECK(project.as_owner([] { return write_file("more", k_mb / 2); }) == 0);
}

TEST_CASE("quota: files are counted too, in folders below as well, also those that are unlinked and open",
          "[quota]") {
    const Project project;
    REQUIRE(project.quota.set_limit(k_project, 64 * k_mb, 10).has_value());
    const int made = project.as_owner([] {
        ::mkdir("below", 0700);
        int count = 0;
        while (count < 100 && write_file(("below/" + std::to_string(count)).c_str(), 0) == 0)
            ++count;
        return count;
    });
    CHECK(made == 8);  // beside the two folders
    project.as_owner([] {
        for (int i = 0; i < 8; ++i)
            ::unlink(("below/" + std::to_string(i)).c_str());
        return 0;
    });
    // XFS frees unlinked files a moment later.
    test::Loop loop;
    CHECK(loop.run_until([&] {
        loop.context.poll();
        return project.quota.usage(k_project)->inodes == 2;
    }));
    CHECK(project.as_owner([] {
        const int open_file = ::open("below/hidden", O_CREAT | O_RDWR, 0600);
        ::unlink("below/hidden");
        int count = 0;
        while (count < 100 && write_file(std::to_string(count).c_str(), 0) == 0)
            ++count;
        return open_file >= 0 ? count : 254;
    }) == 7);
}

TEST_CASE("quota: nothing is linked or moved out of a project into another", "[quota]") {
    const Project project;
    const Project other(k_project + 1);
    CHECK(project.as_owner([] { return write_file("file", k_mb); }) == 0);
    CHECK(::link((project.folder / "file").c_str(), (other.folder / "file").c_str()) != 0);
    const fs::path beside = project.temp / "beside";
    fs::create_directory(beside);
    REQUIRE(ProjectQuota::assign(open_folder(beside).get(), k_project + 1).has_value());
    CHECK(::rename((project.folder / "file").c_str(), (beside / "file").c_str()) != 0);
    CHECK(errno == EXDEV);
    CHECK(ProjectQuota::project_of(open_folder(beside).get()) == k_project + 1);
    CHECK(other.quota.usage(k_project + 1)->bytes < k_mb);
}

TEST_CASE("quota: who is root of a user namespace cannot leave the project or change a limit", "[quota]") {
    const Project project;
    REQUIRE(project.quota.set_limit(k_project, 4 * k_mb, 1000).has_value());
    REQUIRE(project.as_owner([] { return write_file("file", 0); }) == 0);
    const auto in_namespace = [](const std::function<int()>& attempt) {
        return [attempt] { return become_root_of_a_user_namespace() ? attempt() : 255; };
    };
    CHECK(project.as_owner(in_namespace([] { return leave_project("file", false); })) == EINVAL);
    CHECK(project.as_owner(in_namespace([] { return leave_project(".", false); })) == EINVAL);
    CHECK(project.as_owner(in_namespace([] { return leave_project(".", true); })) == EINVAL);
    CHECK(project.as_owner(in_namespace(
              [&project] { return project.quota.set_limit(k_project, 0, 0).has_value() ? 0 : 1; })) == 1);
    CHECK(project.quota.usage(k_project)->limit_bytes == 4 * k_mb);
    // The control: outside, its owner can.
    CHECK(project.as_owner([] { return leave_project("file", false); }) == 0);
    CHECK(project.as_owner([] { return leave_project(".", false); }) == 0);
}

TEST_CASE("quota: a project that is none of this server's is not touched", "[quota]") {
    const Project project;
    CHECK(project.quota.set_limit(7, k_mb, 10).error().code() == base::Errc::invalid_field);
}

}  // namespace project_quota_test
