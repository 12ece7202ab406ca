// API keys beside the server's own: made and revoked while it runs, and the reach of a user's key.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/integration/route_walk.hpp"

namespace keys_test {

using namespace atl::test;
using namespace atl::test::routes;

TEST_CASE("A key is added and revoked while the server runs, and counts at once") {
    const ServerProcess server;
    ApiClient api(server);
    const NewKey key = add_key(server, {"web"});
    HttpClient client = client_with(server, key.secret);
    CHECK(client.request("GET", "/v1/conversations").status == 200);
    CHECK(client.request("GET", "/v1/sandboxes").status == 200);
    const RunResult listed = keys(server.data_dir(), {"list"});
    CHECK(listed.output.find(key.id) != std::string::npos);
    CHECK(listed.output.find("web") != std::string::npos);
    CHECK(listed.output.find(key.secret) == std::string::npos);
    struct stat status {};
    REQUIRE(::stat((server.data_dir() / "keys.json").c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);

    CHECK(keys(server.data_dir(), {"revoke", key.id}).status == 0);
    // The same connection: each request is checked anew.
    const auto refused = client.request("GET", "/v1/conversations");
    CHECK(refused.status == 401);
    HttpClient unknown = client_with(server, "atoll_" + std::string(60, 'a'));
    CHECK(without_request(refused) == without_request(unknown.request("GET", "/v1/conversations")));
    CHECK(keys(server.data_dir(), {"revoke", key.id}).status == 1);
    CHECK(api.http().request("GET", "/v1/conversations").status == 200);
    CHECK(server.log().find(key.secret) == std::string::npos);
}

TEST_CASE("The keys of a server that is no root are still its own after root has changed them") {
    if (!is_root())
        SKIP("needs root to start a server as another user");
    ServerOptions options;
    options.privilege = Privilege::rootless;
    const ServerProcess server(options);
    const NewKey key = add_key(server, {"web"});
    CHECK(client_with(server, key.secret).request("GET", "/v1/conversations").status == 200);
}

TEST_CASE("A wrong keys command is refused and says what is right") {
    const TempDir dir;
    CHECK(keys(dir.path(), {}).status == 2);
    CHECK(keys(dir.path(), {"add"}).status == 2);
    CHECK(keys(dir.path(), {"revoke"}).status == 2);
    CHECK(keys(dir.path(), {"add", "bad\nlabel"}).status == 1);
    CHECK(keys(dir.path(), {"add", "web", "--user-id", ""}).status == 1);
    CHECK_FALSE(std::filesystem::exists(dir.path() / "keys.json"));
    const RunResult lost = keys(dir.path() / "no-such-folder", {"add", "web"});
    CHECK(lost.status == 1);
    CHECK(lost.output.find("--data-dir") != std::string::npos);
    const RunResult help = run_server({"keys", "add", "-h"});
    CHECK(help.status == 0);
    CHECK(help.output.find("--user-id") != std::string::npos);
    CHECK(help.output.find("--data-dir") != std::string::npos);
}

TEST_CASE("A server does not start with a broken key file and says which") {
    const TempDir dir;
    std::filesystem::create_directory(dir.path() / "data");
    const auto file = dir.path() / "data" / "keys.json";
    CHECK(keys(dir.path() / "data", {"add", "web"}).status == 0);
    std::filesystem::resize_file(file, 20);
    const RunResult refused =
        run_server({"--data-dir", (dir.path() / "data").string(), "--listen", "127.0.0.1:0"});
    CHECK(refused.status == 1);
    CHECK(refused.output.find(file.string()) != std::string::npos);
}

TEST_CASE("On every route of a conversation another user's looks exactly like none") {
    const ServerProcess server;
    ApiClient api(server);
    const NewKey alice = add_key(server, {"web", "--user-id", "alice"});
    const NewKey bob = add_key(server, {"web", "--user-id", "bob"});
    const Json hers =
        Json::parse(client_with(server, alice.secret).request("POST", "/v1/conversations", "{}").body);
    const std::string id = hers["id"];
    CHECK(hers["userId"] == "alice");
    const std::string nobodys = api.create()["id"];
    const std::string no_id(20, 'a');
    std::size_t walked = 0;
    for (const auto& [method, pattern] : operations(api)) {
        if (!pattern.starts_with("/v1/conversations/{id}"))
            continue;
        ++walked;
        INFO(method << ' ' << pattern);
        const auto none = ask(server, bob.secret, method, with_id(pattern, no_id));
        CHECK(none.status == 404);
        for (const auto& foreign : {id, nobodys}) {
            const auto refused = ask(server, bob.secret, method, with_id(pattern, foreign));
            CHECK(refused.status == 404);
            CHECK(without_request(refused) == without_request(none));
        }
    }
    CHECK(walked >= 8);
    // Nothing of that changed anything; and the owner has them all.
    CHECK(api.get(id)["status"] == "active");
    CHECK(api.get(id)["lastSeq"] == hers["lastSeq"]);
    CHECK(api.get(nobodys)["status"] == "active");
    for (const auto& [method, pattern] : operations(api)) {
        if (!pattern.starts_with("/v1/conversations/{id}") || method == "DELETE")
            continue;
        INFO(method << ' ' << pattern);
        const auto answered = ask(server, alice.secret, method, with_id(pattern, id));
        CHECK(answered.status != 401);
        CHECK(answered.status != 403);
        CHECK(answered.status != 404);
    }
    CHECK(ask(server, alice.secret, "DELETE", "/v1/conversations/" + id).status == 204);
}

TEST_CASE("A user's key lists and creates for that user alone") {
    const ServerProcess server;
    ApiClient api(server);
    const NewKey key = add_key(server, {"web", "--user-id", "alice"});
    HttpClient alice = client_with(server, key.secret);
    api.create({{"agent", "echo"}, {"userId", "bob"}});
    api.create({{"agent", "echo"}});
    const auto refused = alice.request("POST", "/v1/conversations", R"({"agent":"echo","userId":"bob"})");
    CHECK(refused.status == 403);
    CHECK(code_of(refused) == "user_not_allowed");
    const auto made = alice.request("POST", "/v1/conversations", R"({"agent":"echo","userId":"alice"})");
    CHECK(made.status == 201);
    CHECK(Json::parse(alice.request("POST", "/v1/conversations", R"({"agent":"echo"})").body)["userId"] ==
          "alice");
    const Json page = Json::parse(alice.request("GET", "/v1/conversations").body);
    CHECK(page["conversations"].size() == 2);
    for (const Json& conversation : page["conversations"])
        CHECK(conversation["userId"] == "alice");
    CHECK(Json::parse(alice.request("GET", "/v1/conversations?userId=alice").body)["conversations"].size() ==
          2);
    CHECK(code_of(alice.request("GET", "/v1/conversations?userId=bob")) == "user_not_allowed");
    CHECK(api.call(200, "GET", "/v1/conversations")["conversations"].size() == 4);
}

}  // namespace keys_test
