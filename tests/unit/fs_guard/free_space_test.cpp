#include "fs-guard/free_space.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "../isolation/fixture.hpp"

namespace free_space_test {

using namespace atl;

TEST_CASE("free space: databases on the same file system are the server's own bytes, with their logs") {
    const test::TempFolder folder;
    const std::string block(64 * 1024, 'x');
    CHECK(fs_guard::free_space(folder.path(), {folder / "a.db"})->own_bytes == 0);
    test::write_text(folder / "a.db", block);
    test::write_text(folder / "a.db-wal", block);
    test::write_text(folder / "b.db", block);
    const auto one = fs_guard::free_space(folder.path(), {folder / "a.db"});
    REQUIRE(one.has_value());
    CHECK(one->own_bytes >= 2 * block.size());
    CHECK(one->own_bytes < 3 * block.size());
    CHECK(fs_guard::free_space(folder.path(), {folder / "a.db", folder / "b.db"})->own_bytes >=
          3 * block.size());
    // Databases on another file system do not count.
    CHECK(fs_guard::free_space("/proc", {folder / "a.db"})->own_bytes == 0);
    CHECK_FALSE(fs_guard::free_space(folder / "nothing").has_value());
}

}  // namespace free_space_test
