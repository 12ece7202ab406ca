// A server that is not root, of a user with subordinate ids: each sandbox has a uid of its own, as with root.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <set>

#include "tests/support/api_client.hpp"

namespace rootless_test {

using namespace atl::test;

namespace {

namespace fs = std::filesystem;

constexpr uid_t k_end_of_range = k_first_subordinate_id + 65'536;

ServerOptions options(Privilege privilege, const fs::path& data_dir,
                      std::vector<std::string> arguments = {}) {
    ServerOptions made;
    made.privilege = privilege;
    made.data_dir = data_dir;
    made.arguments = std::move(arguments);
    return made;
}

fs::path make_data_dir(const TempDir& dir) {
    fs::create_directory(dir.path() / "data");
    return dir.path() / "data";
}

uid_t owner(const fs::path& path) {
    struct stat about {};
    REQUIRE(::lstat(path.c_str(), &about) == 0);
    return about.st_uid;
}

fs::path workspace(const fs::path& data_dir, const Json& conversation) {
    return data_dir / "workspaces" / conversation["sandboxId"].get<std::string>();
}

void require_root() {
    if (!is_root())
        SKIP("needs root to start a server as another user");
}

}  // namespace

// [serial]: servers of one user have the same subordinate uids.
TEST_CASE("Rootless with subordinate ids each sandbox has a uid of its own, which lasts", "[full][serial]") {
    require_root();
    const TempDir dir;
    const fs::path data = make_data_dir(dir);
    std::string kept;
    std::string removed;
    {
        ServerProcess server(options(Privilege::subordinate, data));
        INFO(server.log());
        ApiClient api(server);
        std::set<uid_t> owners;
        for (int i = 0; i < 3; ++i) {
            const Json made = api.create();
            CHECK(made["enforcement"]["uid"] == "private");
            kept = made["id"];
            CHECK(api.message(kept, "id -u; echo kept > file; mkdir -m 0 closed").output == "1000\n");
            const uid_t uid = owner(workspace(data, made));
            CHECK(uid >= k_first_subordinate_id);
            CHECK(uid < k_end_of_range);
            CHECK(owner(workspace(data, made) / "file") == uid);
            owners.insert(uid);
            if (i == 0)
                removed = kept;
        }
        CHECK(owners.size() == 3);
        CHECK_FALSE(api.call(200, "GET", "/v1/system")["notEnforced"].contains("uid"));
        CHECK(server.log().find("uids_private") != std::string::npos);
        CHECK(fs::exists(data / "subordinate-ids"));
        server.kill_hard();
    }
    // A crash between the mkdir and the chown of a new workspace leaves this.
    const std::string half_made = "aaaaaaaaaaaaaaaaaaaa";
    std::ofstream(data / "unclaimed" / half_made) << "";
    fs::create_directory(data / "workspaces" / half_made);
    for (const char* folder : {"unclaimed", "workspaces"})
        REQUIRE(::chown((data / folder / half_made).c_str(), k_rootless_uid, k_rootless_uid) == 0);
    ServerProcess again(options(Privilege::subordinate, data));
    INFO(again.log());
    ApiClient api(again);
    CHECK_FALSE(fs::exists(data / "workspaces" / half_made));
    CHECK(api.message(kept, "cat file").output == "kept\n");
    const fs::path gone = workspace(data, api.get(removed));
    api.remove(removed);
    CHECK_FALSE(fs::exists(gone));
    CHECK(api.call(200, "GET", "/v1/system")["orphans"] == 0);
    CHECK(again.stop() == 0);
}

// [serial]: servers of one user have the same subordinate uids.
TEST_CASE("Rootless, too, the data directory that a server makes is for its user alone", "[full][serial]") {
    require_root();
    for (const Privilege privilege : {Privilege::subordinate, Privilege::rootless}) {
        ServerOptions made;
        made.privilege = privilege;
        const ServerProcess server(made);
        CHECK(fs::status(server.data_dir()).permissions() == fs::perms::owner_all);
    }
}

// [serial]: servers of one user have the same subordinate uids.
TEST_CASE("Rootless with a shared uid a data directory stays as it is, and the log says so",
          "[full][serial]") {
    require_root();
    const TempDir dir;
    const fs::path data = make_data_dir(dir);
    std::string id;
    {
        const ServerProcess server(options(Privilege::subordinate, data, {"--shared-uid"}));
        ApiClient api(server);
        const Json made = api.create();
        id = made["id"];
        CHECK(made["enforcement"]["uid"] == "shared");
        CHECK(owner(workspace(data, made)) == k_rootless_uid);
        CHECK(api.message(id, "echo old > file").exit_code == 0);
    }
    const ServerProcess server(options(Privilege::subordinate, data));
    ApiClient api(server);
    CHECK(server.log().find("uids_shared") != std::string::npos);
    CHECK(api.message(id, "cat file").output == "old\n");
    CHECK(api.create()["enforcement"]["uid"] == "shared");
}

TEST_CASE("Each start of a rootless server without subordinate ids says how to have some", "[full]") {
    require_root();
    const TempDir dir;
    const fs::path data = make_data_dir(dir);
    for (int start = 0; start < 2; ++start) {
        const ServerProcess server(options(Privilege::rootless, data));
        INFO(server.log());
        CHECK(server.log().find("uids_shared") != std::string::npos);
        CHECK(server.log().find("usermod --add-subuids") != std::string::npos);
        // It has workspaces at the second start.
        CHECK(ApiClient(server).create()["enforcement"]["uid"] == "shared");
    }
}

// [serial]: servers of one user have the same subordinate uids.
TEST_CASE("Workspaces of subordinate uids are refused by a server that cannot have those", "[full][serial]") {
    require_root();
    const TempDir dir;
    const fs::path data = make_data_dir(dir);
    {
        const ServerProcess server(options(Privilege::subordinate, data));
        ApiClient(server).create();
    }
    const RunResult refused =
        run_server({"--data-dir", data.string(), "--listen", "127.0.0.1:0"},
                   {{"ATOLL_API_KEY", "test-key-0123456789abcdef"}}, Privilege::rootless);
    INFO(refused.output);
    CHECK(refused.status == 1);
    CHECK(refused.output.find("belong to other uids") != std::string::npos);
    CHECK(refused.output.find("/etc/subuid") != std::string::npos);

    // It does not start either with other ids than the workspaces have.
    std::ofstream(data / "subordinate-ids")
        << k_first_subordinate_id + 10 << ' ' << k_first_subordinate_id << " 65535\n";
    CHECK_THROWS_WITH(ServerProcess(options(Privilege::subordinate, data)),
                      Catch::Matchers::ContainsSubstring("give them back"));
}

// [serial]: servers of one user have the same subordinate uids.
TEST_CASE("Rootless with subordinate ids the API says what still counts for the server's user",
          "[full][serial]") {
    require_root();
    const TempDir dir;
    const ServerProcess server(options(Privilege::subordinate, make_data_dir(dir)));
    ApiClient api(server);
    CHECK(api.call(200, "GET", "/v1/system")["notEnforced"].contains("perUser"));
    // The control for that text: one sandbox takes a resource, and another does not get it.
    const std::string take = R"(exec python3 -c '
import ctypes, time
libc = ctypes.CDLL(None)
until = time.monotonic() + 100
while time.monotonic() < until:
    if libc.inotify_init() < 0:
        time.sleep(0.01)')";
    const std::string taker = api.create()["id"];
    const std::string other = api.create()["id"];
    api.call(202, "POST", "/v1/conversations/" + taker + "/messages", Json{{"content", take}}.dump());
    std::string left = "none";
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (left != "0\n" && std::chrono::steady_clock::now() < deadline)
        left = api.message(other, R"(python3 -c '
import ctypes
print(0 if ctypes.CDLL(None).inotify_init() < 0 else 1)')")
                   .output;
    CHECK(left == "0\n");
}

}  // namespace rootless_test
