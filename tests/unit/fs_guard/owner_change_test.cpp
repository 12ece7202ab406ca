#include "fs-guard/owner_change.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "../isolation/fixture.hpp"
#include "core/base/limits.hpp"
#include "fs-guard/folders.hpp"

namespace owner_change_test {

using namespace atl;
namespace fs = std::filesystem;

TEST_CASE("a workspace is given away with all that is in it, and nothing that its links lead to") {
    if (!test::is_root())
        SKIP("needs root to give files away");
    const test::TempFolder folder;
    constexpr std::uint32_t k_uid = base::k_first_host_uid + 7;
    test::write_text(folder / "work/file", "text");
    test::write_text(folder / "outside/kept", "text");
    fs::create_directory_symlink(folder / "outside", folder / "work/link");
    fs::path deep = folder / "work";
    for (int i = 0; i < 200; ++i)
        deep /= "d";
    test::write_text(deep / "file", "text");
    REQUIRE(::mkfifo((folder / "work/d/fifo").c_str(), 0600) == 0);
    const auto parent = fs_guard::open_folder(folder.path());
    REQUIRE(parent.has_value());
    // Twice: the second one finds a change that was done already.
    for (int round = 0; round < 2; ++round)
        REQUIRE(fs_guard::give_tree(parent->get(), "work", k_uid).has_value());
    const auto owner = [](const fs::path& path) {
        struct stat status {};
        REQUIRE(::lstat(path.c_str(), &status) == 0);
        CHECK(status.st_uid == status.st_gid);
        return status.st_uid;
    };
    CHECK(owner(folder / "work") == k_uid);
    for (const auto& entry : fs::recursive_directory_iterator(folder / "work"))
        CHECK(owner(entry.path()) == k_uid);
    CHECK(owner(folder / "outside") == 0);
    CHECK(owner(folder / "outside/kept") == 0);
    CHECK_FALSE(fs_guard::give_tree(parent->get(), "missing", k_uid).has_value());
}

}  // namespace owner_change_test
