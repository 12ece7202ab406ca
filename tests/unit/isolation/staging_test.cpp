#include "core/isolation/staging.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>
#include <sstream>

#include "core/isolation/private_mounts.hpp"
#include "core/plain/unique_fd.hpp"
#include "tests/unit/isolation/fixture.hpp"

namespace staging_test {

using namespace atl;
namespace fs = std::filesystem;

namespace {

/// Runs `act` in a process with a mount namespace of its own; returns its result.
std::string apart(const std::function<std::string()>& act) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    base::UniqueFd reader(ends[0]);
    base::UniqueFd writer(ends[1]);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool ready =
            ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0;
        const std::string said = ready ? act() : "no mount namespace";
        ::_exit(::write(writer.get(), said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    writer.reset();
    std::string said;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::read(reader.get(), buffer, sizeof buffer)) > 0;)
        said.append(buffer, static_cast<std::size_t>(count));
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
    return said;
}

bool is_mount_point(const fs::path& path) {
    std::ifstream table("/proc/self/mountinfo");
    std::stringstream text;
    text << table.rdbuf();
    return text.str().find(" " + path.string() + " ") != std::string::npos;
}

bool mount_tmpfs(const fs::path& path) {
    fs::create_directories(path);
    return ::mount("test", path.c_str(), "tmpfs", 0, "") == 0;
}

/// A data directory in `folder`, and the other sources of a launch.
isolation::StagingSources sources_in(const fs::path& folder) {
    fs::create_directories(folder / "etc");
    test::write_text(folder / "etc/hostname", "sandbox\n", 0644);
    test::write_text(folder / "guest", "guest\n", 0755);
    test::write_text(folder / "program", "program\n", 0755);
    isolation::StagingSources sources{
        folder / "guest", folder / "etc", {folder / "data", "/usr", "/proc", "/dev/null"}};
    sources.agent_program = folder / "program";
    return sources;
}

bool mount_views(const isolation::HostViews& views) {
    return std::ranges::all_of(views.mounts, [](const isolation::StagedMount& mount) {
        if (mount.kind == isolation::StagedKind::bind)
            return ::mount(mount.source.c_str(), mount.target.c_str(), nullptr, MS_BIND, nullptr) == 0;
        return ::mount("test", mount.target.c_str(), "overlay", MS_RDONLY, mount.options.c_str()) == 0;
    });
}

/// In the staging namespace: whether the guest, the program of agents' adapters and the generated /etc are
/// where a launch expects them.
bool has_own_files(const isolation::Staging& made) {
    const bool is_viewed = !made.views.mounts.empty();
    const fs::path dir = made.dir;
    const fs::path guest = is_viewed ? fs::path(made.views.guest) : dir / "guest";
    const fs::path program = is_viewed ? guest.parent_path() / "program" : dir / "agent-program";
    const fs::path etc = is_viewed ? fs::path(made.views.etc) : dir / "etc";
    return mount_views(made.views) && test::read_text(guest) == "guest\n" &&
           test::read_text(program) == "program\n" && test::read_text(etc / "hostname") == "sandbox\n";
}

}  // namespace

TEST_CASE("A view shows what is mounted below its source, and files of its own inodes") {
    if (!test::is_root())
        SKIP("needs root: a rootless launch has no staging namespace");
    const test::TempFolder folder;
    const fs::path at = folder.path();
    auto sources = sources_in(at);
    const std::string said = apart([&]() -> std::string {
        if (!mount_tmpfs(at / "shown") || !mount_tmpfs(at / "shown/mounted: a,b") ||
            !mount_tmpfs(at / "staging"))
            return "mounting failed";
        test::write_text(at / "shown/file", "outer\n", 0644);
        test::write_text(at / "shown/bound", "below\n", 0644);
        test::write_text(at / "shown/mounted: a,b/file", "inner\n", 0644);
        if (::mount((at / "shown/file").c_str(), (at / "shown/bound").c_str(), nullptr, MS_BIND, nullptr) !=
            0)
            return "binding failed";
        isolation::HostViewSources wanted{at / "guest", at / "etc", {at / "shown"}, {}, {}, {}};
        wanted.mount_points = {at / "shown/mounted: a,b", at / "shown/bound", at / "staging", "/"};
        const auto views = isolation::make_host_views(at / "staging", wanted);
        if (!views)
            return views.error().detail();
        if (!views->refused.empty())
            return views->refused.begin()->first + ": " + views->refused.begin()->second;
        const fs::path shown = views->root + (at / "shown").string();
        if (!mount_views(*views))
            return "the views cannot be mounted";
        if (test::read_text(shown / "file") != "outer\n" || test::read_text(shown / "bound") != "outer\n" ||
            test::read_text(shown / "mounted: a,b/file") != "inner\n")
            return "something is not shown";
        struct stat inside {};
        struct stat outside {};
        if (::stat((shown / "file").c_str(), &inside) != 0 ||
            ::stat((at / "shown/file").c_str(), &outside) != 0 || inside.st_dev == outside.st_dev)
            return "the file is the host's own";
        return "as promised";
    });
    CHECK(said == "as promised");
}

TEST_CASE("A folder that the kernel takes for no layer is bound, and named") {
    if (!test::is_root())
        SKIP("needs root: a rootless launch has no staging namespace");
    const test::TempFolder folder;
    const fs::path at = folder.path();
    auto sources = sources_in(at);
    const std::string said = apart([&]() -> std::string {
        if (!mount_tmpfs(at / "staging") || !mount_tmpfs(at / "once") || !mount_tmpfs(at / "twice"))
            return "mounting failed";
        test::write_text(at / "once/file", "kept\n", 0644);
        // Two overlays are as deep as the kernel stacks them.
        const std::string layers = "lowerdir=" + (at / "once").string() + ":" + (at / "etc").string();
        if (::mount("test", (at / "twice").c_str(), "overlay", 0, layers.c_str()) != 0 ||
            ::mount("test", (at / "once").c_str(), "overlay", 0,
                    ("lowerdir=" + (at / "twice").string() + ":" + (at / "etc").string()).c_str()) != 0)
            return "stacking failed";
        const auto views =
            isolation::make_host_views(at / "staging", {at / "guest", at / "etc", {at / "once"}, {}, {}, {}});
        if (!views)
            return views.error().detail();
        if (!views->refused.contains(at / "once"))
            return "it is not named";
        if (!mount_views(*views) || test::read_text(views->root + (at / "once/file").string()) != "kept\n")
            return "it is not bound";
        return "as promised";
    });
    CHECK(said == "as promised");
}

TEST_CASE("The staging namespace keeps what a launch names and none of the host's other mounts") {
    if (!test::is_root())
        SKIP("needs root: a rootless launch has no staging namespace");
    const test::TempFolder folder;
    const fs::path at = folder.path();
    const auto sources = sources_in(at);
    const std::string said = apart([&]() -> std::string {
        // The data directory's path goes through a symlink that lies on a mount of its own.
        if (!mount_tmpfs(at / "disk") || !mount_tmpfs(at / "real") || !mount_tmpfs(at / "other") ||
            !mount_tmpfs(at / "real/data/workspaces"))
            return "mounting failed";
        fs::create_directory_symlink(at / "real", at / "disk/link");
        fs::create_directory_symlink("disk/link/data", at / "data");
        std::ofstream(at / "real/data/workspaces/file") << "kept";
        if (::chdir(at.c_str()) != 0)
            return "chdir";
        const auto made = isolation::make_staging(sources);
        if (!made)
            return made.error().detail();
        if (fs::current_path() != at || !is_mount_point(at / "other") || !is_mount_point("/sys"))
            return "the process is not where it was";
        if (::setns(made->mount_namespace.get(), CLONE_NEWNS) != 0)
            return "setns";
        if (is_mount_point(at / "other") || is_mount_point("/sys"))
            return "a mount that no launch needs is still there";
        if (!is_mount_point("/proc") || !is_mount_point(at / "disk") || !is_mount_point(at / "real"))
            return "a mount is gone that a launch needs";
        if (test::read_text(at / "data/workspaces/file") != "kept")
            return "the data directory is out of reach";
        const fs::path dir = made->dir;
        if (!has_own_files(*made))
            return "guest or etc is missing in " + dir.string();
        for (const char* name : {"workspace", "bridge", "agent"}) {
            if (!fs::is_directory(dir / name) || !fs::is_empty(dir / name))
                return std::string(name) + " is missing";
        }
        return "as promised";
    });
    CHECK(said == "as promised");
}

TEST_CASE("The staging folder is put where it hides no source") {
    if (!test::is_root())
        SKIP("needs root: a rootless launch has no staging namespace");
    const test::TempFolder folder;
    auto sources = sources_in(folder.path());
    const auto place = [&] {
        return apart([&]() -> std::string {
            const auto made = isolation::make_staging(sources);
            return made ? made->dir : made.error().detail();
        });
    };
    CHECK(place() == "/mnt");
    sources.reachable.emplace_back("/mnt/disk/atoll");
    CHECK(place() == "/media");
    sources.reachable.emplace_back("/media");
    CHECK(place() == "/srv");
    for (const char* path : {"/srv/a", "/opt/agent", "/home/b", "/root/c", "/tmp/d"})
        sources.reachable.emplace_back(path);
    CHECK(place().find("make an empty /mnt") != std::string::npos);
}

TEST_CASE("A process without the privilege to mount gets no staging namespace, and stays where it is") {
    const test::TempFolder folder;
    const auto sources = sources_in(folder.path());
    const auto try_it = [&]() -> std::string {
        if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0)
            return "setresuid";
        const auto made = isolation::make_staging(sources);
        return made ? "made" : made.error().detail();
    };
    if (test::is_root())
        CHECK(apart(try_it).find("CAP_SYS_ADMIN") != std::string::npos);
    else
        CHECK(try_it().find("CAP_SYS_ADMIN") != std::string::npos);
}

TEST_CASE("The run directory in memory is empty, private and on no disk") {
    if (!test::is_root())
        SKIP("needs root: a rootless server keeps its run directory on disk");
    const test::TempFolder folder;
    const fs::path run = folder / "run";
    fs::create_directory(run);
    test::write_text(run / "left", "by an earlier run", 0644);
    const std::string said = apart([&]() -> std::string {
        if (auto kept = isolation::keep_in_memory(run); !kept)
            return kept.error().detail();
        struct stat status {};
        if (::stat(run.c_str(), &status) != 0 || (status.st_mode & 07777) != 0700)
            return "mode";
        if (!is_mount_point(run) || !fs::is_empty(run))
            return "not an empty mount";
        std::ofstream(run / "socket").put('x');
        return fs::exists(run / "socket") ? "as promised" : "not writable";
    });
    CHECK(said == "as promised");
    CHECK(fs::is_empty(run));
}

}  // namespace staging_test
