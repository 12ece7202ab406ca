// A second server on a copy of a data directory: neither takes what is the other's.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "tests/support/api_client.hpp"

namespace copied_data_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

uid_t owner_of(const fs::path& path) {
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status.st_uid;
}

}  // namespace

TEST_CASE(
    "A server on a copy of a data directory leaves the sandboxes of the first alone, and has uids of its "
    "own") {
    const TempDir dir;
    const TempDir leases;
    const auto options = [&](const char* name) {
        ServerOptions made;
        made.data_dir = dir.path() / name;
        made.arguments = {"--uid-lease-dir", (leases.path() / "uids").string()};
        return made;
    };
    fs::create_directory(dir.path() / "first");
    std::string id;
    std::string box;
    {
        ServerProcess before(options("first"));
        ApiClient api(before);
        const Json made = api.create();
        id = made["id"];
        box = made["sandboxId"];
        CHECK(api.message(id, "echo kept > file; mkdir folder; ln -s /etc link").output.empty());
        REQUIRE(before.stop() == 0);
    }
    REQUIRE(std::system(
                ("cp -a '" + (dir.path() / "first").string() + "' '" + (dir.path() / "second").string() + "'")
                    .c_str()) == 0);
    ServerProcess first(options("first"));
    ApiClient on_first(first);
    CHECK(on_first.message(id, "cat file").output == "kept\n");
    const Json living = on_first.get(id);
    ServerProcess second(options("second"));
    ApiClient on_second(second);
    // The first one's sandbox is the same as before, in the same generation.
    CHECK(on_first.get(id)["status"] == "active");
    CHECK(on_first.message(id, "cat file").output == "kept\n");
    CHECK(on_first.get(id)["generation"] == living["generation"]);
    // The copy works, too, beside it.
    CHECK(on_second.message(id, "cat file; echo more > folder/file && cat folder/file").output ==
          "kept\nmore\n");
    CHECK(on_first.get(id)["generation"] == living["generation"]);
    const uid_t one = owner_of(dir.path() / "first/workspaces" / box);
    const uid_t other = owner_of(dir.path() / "second/workspaces" / box);
    if (is_root()) {
        CHECK(one != other);
        for (const char* name : {"file", "folder", "link", "folder/file"})
            CHECK(owner_of(dir.path() / "second/workspaces" / box / name) == other);
        CHECK(second.log().find("evt=uids_renewed") != std::string::npos);
    }
    CHECK(second.log().find("evt=instance_renewed") != std::string::npos);
    // And the reverse: a start of the first one beside the copy.
    REQUIRE(first.stop() == 0);
    ServerProcess again(options("first"));
    CHECK(ApiClient(again).message(id, "cat file").output == "kept\n");
    CHECK(on_second.get(id)["status"] == "active");
    CHECK(on_second.message(id, "cat folder/file").output == "more\n");
    CHECK(again.log().find("evt=uids_renewed") == std::string::npos);
    CHECK(again.log().find("evt=instance_renewed") == std::string::npos);
}

}  // namespace copied_data_test
