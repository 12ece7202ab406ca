// The disk limit where the kernel enforces it: on a file system with project quotas, if temporary folders are
// on one.
#include <catch2/catch_test_macros.hpp>

#include "core/base/limits.hpp"
#include "tests/support/api_client.hpp"

namespace quota_test {

using namespace atl::test;

namespace {

void require_quota(const Json& conversation) {
    if (conversation["enforcement"]["disk"] != "quota")
        SKIP("no project quotas where temporary folders are that this user may set");
}

const char* const k_fill =
    "for i in $(seq 10); do head -c 4000000 /dev/zero > f$i || break; done 2>&1; sync .; ";

}  // namespace

TEST_CASE("Where the kernel enforces the disk limit, writing fails and the conversation goes on", "[quota]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"diskMb", 16}}}});
    require_quota(made);
    const std::string id = made["id"];
    const std::string neighbour = api.create({{"limits", {{"diskMb", 64}}}})["id"];
    const Turn turn = api.message(id, std::string(k_fill) + "du -sm . | cut -f 1");
    CHECK(turn.errors.empty());
    INFO(turn.output);
    CHECK((turn.output.find("quota exceeded") != std::string::npos ||
           turn.output.find("No space left") != std::string::npos));
    const auto last = turn.output.rfind('\n', turn.output.size() - 2);
    CHECK(std::stoi(turn.output.substr(last == std::string::npos ? 0 : last + 1)) <= 17);
    CHECK(api.get(id)["status"] == "active");
    CHECK(api.get(id)["generation"] == 1);
    CHECK(api.message(neighbour, std::string(k_fill) + "echo fine").output == "fine\n");

    // A raised limit applies to the running sandbox, and deleted bytes can be written again.
    const Json patched = api.call(200, "PATCH", "/v1/conversations/" + id, R"({"limits":{"diskMb":64}})");
    CHECK(patched["enforcement"]["disk"] == "quota");
    CHECK(api.message(id, std::string(k_fill) + "echo fine").output == "fine\n");
    CHECK(api.get(id)["generation"] == 1);
}

TEST_CASE("A sandbox cannot take its files out of its quota", "[quota]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"diskMb", 16}}}});
    require_quota(made);
    const std::string id = made["id"];
    // Which project: seen, so that the program is there and works. It is the sandbox's uid, of any block.
    const std::string number = api.message(id, "touch f; lsattr -p f").output;
    INFO(number);
    CHECK(std::strtoul(number.c_str(), nullptr, 10) >= atl::base::k_first_host_uid);
    CHECK(api.message(id, "chattr -p 0 f 2>&1").exit_code != 0);
    CHECK(api.message(id, "chattr -p 0 . 2>&1").exit_code != 0);
    CHECK(api.message(id, "chattr -P . 2>&1; chattr -R -p 7 . 2>&1").exit_code != 0);
    CHECK(api.message(id, "touch f; lsattr -p f").output == number);
    const std::string after = api.message(id, "mkdir d; lsattr -p -d d").output;
    CHECK(std::strtoul(after.c_str(), nullptr, 10) == std::strtoul(number.c_str(), nullptr, 10));
    CHECK(after.find('P') != std::string::npos);
}

TEST_CASE("A quota survives the server, and goes with the conversation", "[quota]") {
    TempDir data;
    ServerOptions options;
    options.data_dir = data.path();
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        const Json made = api.create({{"limits", {{"diskMb", 16}}}});
        require_quota(made);
        id = made["id"];
        api.message(id, "echo kept > file");
        server.kill_hard();
    }
    const ServerProcess server(options);
    ApiClient api(server);
    CHECK(api.get(id)["enforcement"]["disk"] == "quota");
    CHECK(api.message(id, "cat file").output == "kept\n");
    CHECK(api.message(id, std::string(k_fill) + "echo").output.size() > 1);
    CHECK(api.get(id)["status"] == "active");
    api.remove(id);
    // The removed workspace counts for no other sandbox.
    const std::string next = api.create({{"limits", {{"diskMb", 16}}}})["id"];
    CHECK(api.message(next, "head -c 12000000 /dev/zero > f && sync . && echo fine").output == "fine\n");
}

TEST_CASE("Empty files, deleted ones that are open, and room taken beforehand count against a quota",
          "[quota]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create({{"limits", {{"diskMb", 16}}}});
    require_quota(made);
    const std::string id = made["id"];
    // 8192 files, the folder and this one among them.
    const Turn files = api.message(
        id, "mkdir d; i=0; while : 2>/dev/null > d/$i; do i=$((i+1)); done 2>/dev/null; echo $i; rm -r d");
    CHECK(std::stoi(files.output) > 8000);
    CHECK(std::stoi(files.output) < 8192);
    const Turn hidden = api.message(
        id,
        "exec 5> hidden; rm hidden; head -c 12000000 /dev/zero >&5; head -c 12000000 /dev/zero > seen 2>&1 "
        "&& sync . || echo refused; du -sm . | cut -f 1");
    CHECK(hidden.output.starts_with("refused\n"));
    // That of the earlier turn is gone with its last descriptor.
    CHECK(api.message(id, "rm -f seen; fallocate -l 12M taken && echo taken").output == "taken\n");
    CHECK(api.message(id, "fallocate -l 12M more 2>/dev/null || echo refused").output == "refused\n");
    CHECK(api.get(id)["status"] == "active");
    CHECK(api.get(id)["generation"] == 1);
}

}  // namespace quota_test
