#include "tests/isolation/redteam/small_disk.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

namespace atl::test {
namespace fs = std::filesystem;

namespace {

/// From now on other processes do not see the mounts of this process.
bool leave_mounts() {
    static const bool left =
        ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return left;
}

bool runs(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

SmallDisk::SmallDisk(std::uint64_t megabytes) {
    if (!is_root())
        SKIP("only root can mount a disk of its own");
    REQUIRE(leave_mounts());
    path_ = temp_.path() / "disk";
    fs::create_directory(path_);
    const fs::path image = temp_.path() / "image";
    std::ofstream(image).close();
    fs::resize_file(image, megabytes * 1024 * 1024);
    const bool made = runs("mkfs.ext4 -q -F -m 0 '" + image.string() + "'") &&
                      runs("mount -o loop '" + image.string() + "' '" + path_.string() + "'");
    if (!made) {
        // Without loop devices: a tmpfs, which has all that the tests need except the count of written bytes.
        const std::string size = "size=" + std::to_string(megabytes) + "m";
        REQUIRE(::mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0);
    }
    REQUIRE(::chmod(path_.c_str(), 01777) == 0);
}

SmallDisk::~SmallDisk() {
    ::umount2(path_.c_str(), MNT_DETACH);
}

fs::path SmallDisk::data_dir() const {
    fs::create_directory(path_ / "data");
    return path_ / "data";
}

std::uint64_t SmallDisk::free_mb() const {
    struct statvfs space {};
    REQUIRE(::statvfs(path_.c_str(), &space) == 0);
    return space.f_bavail * space.f_frsize / (1024UL * 1024);
}

}  // namespace atl::test
