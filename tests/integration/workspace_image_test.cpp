// scripts/workspace-image: real project quotas from an image file. It needs root, loop devices and a kernel
// with project quotas, as the virtual machine of scripts/vm-test has.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "tests/support/api_client.hpp"
#include "tests/support/paths.hpp"

namespace workspace_image_test {

using namespace atl;
using namespace atl::test;
namespace fs = std::filesystem;

namespace {

const std::string k_script = test::source_path("scripts/workspace-image");
constexpr int k_host_cannot = 3;

RunResult run_script(const std::string& arguments) {
    FILE* const pipe = ::popen((k_script + " " + arguments + " 2>&1 </dev/null").c_str(), "re");
    REQUIRE(pipe != nullptr);
    RunResult result;
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
        result.output.append(buffer.data(), count);
    const int status = ::pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

void require_a_host_that_can() {
    if (!is_root())
        SKIP("needs root: only root mounts images");
    const RunResult check = run_script("--check");
    INFO(check.output);
    if (check.status == k_host_cannot)
        SKIP("no project quotas in this kernel, or no loop devices");
    REQUIRE(check.status == 0);
}

/// A data directory with an image, which the destructor unmounts.
class Place {
  public:
    ~Place() { unmount(); }
    const fs::path& data() const { return folder_.path(); }
    fs::path disk() const { return data() / "disk"; }
    void unmount() const { ::umount2(disk().c_str(), MNT_DETACH); }
    RunResult convert(const std::string& size = "64M") const { return run_script(size + on_it()); }
    /// The host's disk cannot run out under it.
    bool is_preallocated() const {
        struct stat image {};
        REQUIRE(::stat((data() / "workspaces.image").c_str(), &image) == 0);
        CHECK((image.st_mode & 0777) == 0600);
        return image.st_blocks * 512 >= image.st_size;
    }
    RunResult grow(const std::string& size) const { return run_script("--grow " + size + on_it()); }
    ServerOptions options() const {
        ServerOptions made;
        made.data_dir = data();
        return made;
    }

  private:
    std::string on_it() const { return " --data-dir " + data().string(); }
    TempDir folder_;
};

std::uint64_t blocks_of(const fs::path& folder) {
    struct statvfs about {};
    REQUIRE(::statvfs(folder.c_str(), &about) == 0);
    return about.f_blocks * about.f_frsize;
}

// A file with a mode, a hard link, a symbolic one, a pipe, a hole, an executable, a deep name with blanks.
const char* const k_make =
    "echo kept > file; chmod 640 file; ln file link; ln -s file 'symbolic one'; mkfifo pipe; "
    "truncate -s 9M hole; echo end >> hole; mkdir -p 'a b/c'; printf '#!/bin/sh\\necho ran\\n' > 'a "
    "b/c/run'; "
    "chmod 755 'a b/c/run'";
const char* const k_tell =
    "cat link; stat -c '%a %h %F %u' file; readlink 'symbolic one'; stat -c %F pipe; stat -c %s hole; "
    "test $(stat -c %b hole) -lt 1000 && echo sparse; './a b/c/run'; rm link; stat -c %h file; ln file link";
const char* const k_told = "kept\n640 2 regular file 1000\nfile\nfifo\n9437188\nsparse\nran\n1\n";

}  // namespace

// [serial]: it uses the host's loop devices and mounts.
TEST_CASE("Workspaces move onto an image with project quotas, and are what they were", "[image][serial]") {
    require_a_host_that_can();
    const Place place;
    std::string id, box;
    {
        ServerProcess server(place.options());
        ApiClient api(server);
        const Json made = api.create({{"limits", {{"diskMb", 16}}}});
        id = made["id"];
        box = made["sandboxId"];
        if (made["enforcement"]["disk"] == "quota")
            SKIP("project quotas are where temporary folders are already");
        api.message(id, k_make);
        REQUIRE(api.message(id, k_tell).output == k_told);
        // The control: it is measured, as everywhere without an image.
        CHECK(made["enforcement"]["disk"] == "check");

        const RunResult refused = place.convert();
        CHECK(refused.status == 1);
        CHECK(refused.output.find("a server runs on") != std::string::npos);
        CHECK_FALSE(fs::exists(place.disk()));
    }
    // An image that is there already is never overwritten, and no server goes on without it.
    std::ofstream(place.data() / "workspaces.image") << "precious";
    const RunResult kept = place.convert();
    CHECK(kept.status == 1);
    CHECK(kept.output.find("may hold workspaces") != std::string::npos);
    CHECK(fs::file_size(place.data() / "workspaces.image") == 8);
    CHECK(run_server({"--data-dir", place.data().string(), "--listen", "127.0.0.1:0"})
              .output.find("holds workspaces") != std::string::npos);
    fs::remove(place.data() / "workspaces.image");
    // A run that was killed before the image had its name leaves this folder.
    fs::create_directory(place.disk());
    // A run that was killed while it copied leaves these.
    std::ofstream(place.data() / "workspaces.image.new") << "half";
    fs::create_directory(place.data() / ".workspace-image-mount");
    const RunResult converted = place.convert();
    INFO(converted.output);
    REQUIRE(converted.status == 0);
    CHECK(converted.output.find("ext4 loop,prjquota,nodev,nosuid,nofail,X-fstrim.notrim 0 2") !=
          std::string::npos);
    // Root runs it at each start: never what a user's checkout has.
    CHECK(converted.output.find("ExecStartPre=+/usr/local/lib/atoll/workspace-image --fill ") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(place.data() / "workspaces"));
    CHECK_FALSE(fs::exists(place.data() / ".workspace-image-mount"));
    CHECK(place.is_preallocated());
    {
        ServerProcess server(place.options());
        ApiClient api(server);
        CHECK(api.get(id)["enforcement"]["disk"] == "quota");
        CHECK(api.message(id, k_tell).output == k_told);
        // The earlier files count, and no more than the limit can be written.
        const Turn full = api.message(
            id, "for i in 1 2 3; do head -c 8000000 /dev/zero > big$i || break; done 2>&1; sync .; rm big*");
        INFO(full.output);
        CHECK((full.output.find("quota exceeded") != std::string::npos ||
               full.output.find("No space left") != std::string::npos));
        CHECK(api.get(id)["status"] == "active");
        // Small writes into room that was taken beforehand, which ext4 likes to surround with zeroes.
        api.message(
            id,
            "fallocate -l 8M room; for i in 1 3 5 7 9; do printf x | dd of=room bs=1 seek=$((i * 50000)) "
            "conv=notrunc; done 2>/dev/null; sync .; rm room; sync .");
        CHECK(place.is_preallocated());

        const auto before = blocks_of(place.disk());
        const RunResult grown = place.grow("96M");
        INFO(grown.output);
        CHECK(grown.status == 0);
        CHECK(blocks_of(place.disk()) > before + 24UL * 1024 * 1024);
        CHECK(place.grow("80M").status == 1);
        CHECK(place.is_preallocated());
        CHECK(api.message(id, k_tell).output == k_told);
    }
    // A run that was killed after the switch leaves this: not mounted, and the former workspaces still there.
    fs::create_directories(place.data() / "workspaces" / box);
    place.unmount();
    const RunResult unmounted = run_server({"--listen", "127.0.0.1:0", "--data-dir", place.data().string()});
    CHECK(unmounted.status != 0);
    CHECK(unmounted.output.find("nothing is mounted") != std::string::npos);
    fs::create_directory(place.data() / "workspaces" / "unknown");
    const RunResult careful = place.convert();
    CHECK(careful.status == 1);
    CHECK(careful.output.find("is not on the image") != std::string::npos);
    fs::remove(place.data() / "workspaces" / "unknown");
    const RunResult again = place.convert();
    INFO(again.output);
    REQUIRE(again.status == 0);
    CHECK_FALSE(fs::exists(place.data() / "workspaces"));
    const ServerProcess server(place.options());
    ApiClient api(server);
    CHECK(api.message(id, k_tell).output == k_told);
    api.remove(id);
    CHECK(fs::is_empty(place.disk() / "workspaces"));
}

TEST_CASE("The image's script refuses wrong usage", "[image]") {
    CHECK(run_script("-h").output.find("Usage: scripts/workspace-image") != std::string::npos);
    for (const char* wrong : {"", "20", "0G", "20X", "--grow", "--unknown", "1G --data-dir"}) {
        INFO(wrong);
        CHECK(run_script(wrong).status == 2);
    }
    // /etc/fstab and systemd read these otherwise, each in its own way.
    for (const char* path : {"'/nowhere/a b'", "'/nowhere/a%b'", R"('/nowhere/a$b')", R"('/nowhere/a\b')",
                             R"("/nowhere/a'b")"}) {
        for (const std::string option : {"--data-dir ", "--image "}) {
            const RunResult refused = run_script("64M " + option + path);
            INFO(option << path << '\n' << refused.output);
            CHECK(refused.status == 2);
            CHECK(refused.output.find("/etc/fstab") != std::string::npos);
        }
    }
}

// [serial]: it uses the host's loop devices and mounts.
TEST_CASE("Where no image can be made its script says why, and changes nothing", "[image][serial]") {
    require_a_host_that_can();
    const TempDir nowhere;
    const RunResult missing = run_script("64M --data-dir " + (nowhere.path() / "none").string());
    CHECK(missing.status == 1);
    CHECK(missing.output.find("no data directory") != std::string::npos);
    const Place place;
    const RunResult large = place.convert("900000T");
    CHECK(large.status == 1);
    CHECK(large.output.find("cannot preallocate") != std::string::npos);
    CHECK_FALSE(fs::exists(place.disk()));
}

}  // namespace workspace_image_test
