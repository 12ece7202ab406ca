// A database that is missing, old, replaced or damaged: no workspace is ever removed for it, and the operator
// is told the remedy. ATOLL_TEST_FULL=1 makes the drill of kills as long as a release needs it.
#include <SQLiteCpp/Database.h>
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "tests/support/api_client.hpp"
#include "tests/support/paths.hpp"

namespace data_loss_test {

using namespace atl;
using namespace atl::test;
namespace fs = std::filesystem;

namespace {

ServerOptions in(const TempDir& dir, std::vector<std::string> arguments = {}) {
    ServerOptions options;
    options.data_dir = dir.path();
    options.arguments = std::move(arguments);
    return options;
}

RunResult run_in(const fs::path& data_dir, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data-dir", data_dir.string()});
    return run_server(arguments);
}

void check_refusal(const RunResult& result, const std::vector<std::string>& words) {
    INFO(result.output);
    CHECK(result.status == 1);
    for (const auto& word : words)
        CHECK(result.output.find(word) != std::string::npos);
}

/// DATE/ID of every orphan.
std::set<std::string> orphans(const fs::path& data_dir) {
    std::set<std::string> found;
    std::error_code none;
    for (const auto& date : fs::directory_iterator(data_dir / "orphaned", none)) {
        for (const auto& orphan : fs::directory_iterator(date.path()))
            found.insert(date.path().filename().string() + "/" + orphan.path().filename().string());
    }
    return found;
}

std::uint64_t orphans_told(ApiClient& api) {
    return api.call(200, "GET", "/v1/system")["orphans"];
}

/// A conversation with a file `note` in its workspace.
Json create_with_note(ApiClient& api, const std::string& text) {
    const Json made = api.create();
    REQUIRE(api.message(made["id"], "echo " + text + " > note && echo fine").output == "fine\n");
    return made;
}

void remove_database(const fs::path& data_dir) {
    for (const char* end : {"", "-wal", "-shm"})
        fs::remove(data_dir / ("atoll.db" + std::string(end)));
}

/// The last line that is an id.
std::string id_in(const std::string& output) {
    std::string id;
    const std::regex line("(^|\n)([a-z0-9]{20})\n");
    for (auto at = std::sregex_iterator(output.begin(), output.end(), line); at != std::sregex_iterator();
         ++at)
        id = (*at)[2];
    return id;
}

HttpResponse await_readiness(ApiClient& api, int status) {
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    HttpResponse now = api.http().request("GET", "/readyz");
    while (now.status != status && std::chrono::steady_clock::now() < until)
        now = api.http().request("GET", "/readyz");
    return now;
}

/// The commands of the section of docs/operations/backup.md, with these names put in.
std::vector<std::string> commands_of(const std::string& section,
                                     const std::vector<std::pair<std::string, std::string>>& names) {
    std::ifstream file(test::source_path("docs/operations/backup.md"));
    std::vector<std::string> commands;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## "))
            inside = line == "## " + section;
        if (!inside || !line.starts_with("    "))
            continue;
        std::string command = line.substr(4);
        for (const auto& [name, value] : names) {
            for (auto at = command.find(name); at != std::string::npos;
                 at = command.find(name, at + value.size()))
                command.replace(at, name.size(), value);
        }
        commands.push_back(std::move(command));
    }
    return commands;
}

}  // namespace

// Over 5 s: nine servers are started.
TEST_CASE("Killed servers with a pool leave no orphan, and no workspace of a conversation is lost") {
    const bool full = std::getenv("ATOLL_TEST_FULL") != nullptr;
    const std::size_t kills = full ? 200 : 8;
    const TempDir dir;
    std::mt19937 random(13);
    std::set<std::string> created;
    for (std::size_t round = 0; round < kills; ++round) {
        ServerProcess server(in(dir, {"--pool", "shell=3"}));
        ApiClient api(server);
        std::atomic<bool> has_created = false;
        std::thread client([&] {
            try {
                while (true) {
                    created.insert(api.create()["sandboxId"]);
                    has_created = true;
                }
            } catch (const std::runtime_error&) {
                // The server was killed under it.
            }
        });
        ApiClient clock(server);
        // Every other one is killed while the pool is made, the others at some create.
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (round % 2 == 1 && !has_created && std::chrono::steady_clock::now() < until)
            clock.http().request("GET", "/healthz");
        for (std::size_t left = random() % 150; left > 0; --left)
            clock.http().request("GET", "/healthz");
        server.kill_hard();
        client.join();
        INFO("round " << round);
        REQUIRE(orphans(dir.path()).empty());
    }
    ServerProcess server(in(dir));
    ApiClient api(server);
    CHECK(orphans(dir.path()).empty());
    CHECK(orphans_told(api) == 0);
    CHECK(fs::is_empty(dir.path() / "unclaimed"));
    CHECK(created.size() >= kills / 2);
    for (const auto& id : created)
        CHECK(fs::is_directory(dir.path() / "workspaces" / id));
    // A start finds exactly the workspaces that the store knows.
    std::set<std::string> known;
    // A page is bounded by its bytes: there are more of them.
    Json next = "";
    while (!next.is_null()) {
        const Json page = api.call(200, "GET", "/v1/sandboxes?limit=10000&cursor=" + next.get<std::string>());
        for (const auto& box : page["sandboxes"])
            known.insert(box["id"]);
        next = page["next"];
    }
    for (const auto& entry : fs::directory_iterator(dir.path() / "workspaces"))
        CHECK(known.contains(entry.path().filename()));
}

TEST_CASE(
    "Workspaces without a database: the server refuses to start, and keeps them if told to begin anew") {
    const TempDir dir;
    Json made;
    {
        const ServerProcess server(in(dir));
        ApiClient api(server);
        made = create_with_note(api, "precious");
        CHECK(orphans_told(api) == 0);
    }
    const std::string box = made["sandboxId"];
    struct stat before {};
    REQUIRE(::stat((dir.path() / "workspaces" / box).c_str(), &before) == 0);
    remove_database(dir.path());
    for (int again = 0; again < 2; ++again) {
        check_refusal(
            run_in(dir.path(), {"--listen", "127.0.0.1:0"}),
            {"atoll.db is missing", "1 workspaces", "restore the database from a backup", "--adopt-orphans"});
        CHECK(fs::exists(dir.path() / "workspaces" / box / "note"));
        CHECK_FALSE(fs::exists(dir.path() / "atoll.db"));
    }
    std::string orphan;
    {
        const ServerProcess server(in(dir, {"--adopt-orphans"}));
        ApiClient api(server);
        REQUIRE(orphans(dir.path()).size() == 1);
        orphan = *orphans(dir.path()).begin();
        CHECK(orphan.ends_with("/" + box));
        CHECK(orphans_told(api) == 1);
        CHECK(server.log().find("evt=workspaces_swept") != std::string::npos);
        CHECK(server.log().find(" orphans=1 new_orphans=1 ") != std::string::npos);
        const std::string metrics = api.http().request("GET", "/metrics").body;
        CHECK(metrics.find("atoll_orphaned_workspaces 1") != std::string::npos);
        CHECK(fs::exists(dir.path() / "orphaned" / orphan / "note"));
        // No other sandbox gets its owner's uid.
        struct stat status {};
        for (int i = 0; i < 3; ++i) {
            const std::string other = api.create()["sandboxId"];
            REQUIRE(::stat((dir.path() / "workspaces" / other).c_str(), &status) == 0);
            CHECK((!is_root() || status.st_uid != before.st_uid));
        }
        const RunResult listed = run_in(dir.path(), {"orphans", "list"});
        INFO(listed.output);
        CHECK(listed.status == 0);
        CHECK(listed.output.find("  " + box + "  uid " + std::to_string(before.st_uid)) != std::string::npos);
        check_refusal(run_in(dir.path(), {"orphans", "adopt", box}), {"in use by another server"});
        check_refusal(run_in(dir.path(), {"orphans", "remove", box}), {"in use by another server"});
    }
    check_refusal(run_in(dir.path(), {"orphans", "adopt", "aaaaaaaaaaaaaaaaaaaa"}),
                  {"no orphaned workspace"});
    const RunResult adopted = run_in(dir.path(), {"orphans", "adopt", box, "--user-id", "alice"});
    INFO(adopted.output);
    REQUIRE(adopted.status == 0);
    const std::string id = id_in(adopted.output);
    CHECK(orphans(dir.path()).empty());
    const ServerProcess server(in(dir));
    ApiClient api(server);
    CHECK(orphans_told(api) == 0);
    const Json back = api.get(id);
    CHECK(back["status"] == "paused");
    CHECK(back["userId"] == "alice");
    CHECK(back["sandboxId"] == box);
    CHECK(types(api.events(id)) == "session_start sandbox_paused");
    CHECK(api.message(id, "cat note && echo more >> note && cat note").output ==
          "precious\nprecious\nmore\n");
    struct stat after {};
    REQUIRE(::stat((dir.path() / "workspaces" / box).c_str(), &after) == 0);
    CHECK(after.st_uid == before.st_uid);
}

TEST_CASE("An orphan that is removed goes with the next start, and one that a database knows comes back") {
    const TempDir dir;
    const TempDir aside;
    std::string kept;
    std::string unwanted;
    std::string conversation;
    {
        const ServerProcess server(in(dir));
        ApiClient api(server);
        const Json made = create_with_note(api, "kept");
        kept = made["sandboxId"];
        conversation = made["id"];
        unwanted = create_with_note(api, "unwanted")["sandboxId"];
    }
    fs::copy_file(dir.path() / "atoll.db", aside.path() / "atoll.db");
    remove_database(dir.path());
    CHECK(ServerProcess(in(dir, {"--adopt-orphans"})).stop() == 0);
    REQUIRE(orphans(dir.path()).size() == 2);
    const RunResult removed = run_in(dir.path(), {"orphans", "remove", unwanted});
    INFO(removed.output);
    CHECK(removed.status == 0);
    CHECK(orphans(dir.path()).size() == 1);
    // The database of before, which knows both.
    remove_database(dir.path());
    fs::copy_file(aside.path() / "atoll.db", dir.path() / "atoll.db");
    const ServerProcess server(in(dir));
    ApiClient api(server);
    CHECK(orphans(dir.path()).empty());
    CHECK(server.log().find(" returned=1 missing=1") != std::string::npos);
    CHECK(api.message(conversation, "cat note").output == "kept\n");
    api.remove(api.create()["id"]);  // removed by the same helper after the trash
    CHECK(eventually([&] { return fs::is_empty(dir.path() / "trash"); }));
}

TEST_CASE("A backup made while the server works is restored as README.md says, and no workspace is lost") {
    const TempDir dir;
    const TempDir aside;
    const auto commands =
        commands_of("Backup and restore", {{"atolld", (binaries(Privilege::as_started) / "atolld").string()},
                                           {"/var/lib/atoll/data", dir.path().string()},
                                           {"/var/backups", aside.path().string()},
                                           {"/var/lib/atoll/old", (aside.path() / "old").string()}});
    REQUIRE(commands.size() == 8);
    const std::string restore = commands[1] + '\n' + commands[2] + '\n' + commands[3];
    const auto run = [](const std::string& command) {
        INFO(command);
        REQUIRE(std::system((command + " 2>/dev/null").c_str()) == 0);
    };
    std::string early;
    std::string deleted;
    std::string late_box;
    {
        ServerProcess server(in(dir, {"--pool", "shell=2"}));
        ApiClient api(server);
        early = create_with_note(api, "early")["id"];
        deleted = create_with_note(api, "deleted")["id"];
        REQUIRE(commands[0].find(" backup ") != std::string::npos);
        run(commands[0]);
        CHECK(await_readiness(api, 200).status == 200);
        // The backup held a pool that is claimed now.
        for (int i = 0; i < 4; ++i)
            late_box = create_with_note(api, "late")["sandboxId"];
        CHECK(api.message(early, "echo later > note && echo fine").output == "fine\n");
        api.remove(deleted);
        server.kill_hard();
    }
    // More than once, and also where no database is left: no log of the former one stays beside the backup.
    for (int again = 0; again < 3; ++again) {
        run(restore);
        CHECK_FALSE(fs::exists(dir.path() / "atoll.db-wal"));
        struct stat status {};
        REQUIRE(::stat((dir.path() / "atoll.db").c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
        if (again == 0)
            std::ofstream(dir.path() / "atoll.db-wal") << "of the former one";
        else if (again == 1)
            fs::remove(dir.path() / "atoll.db");
    }
    ServerProcess server(in(dir));
    ApiClient api(server);
    CHECK(orphans(dir.path()).size() == 4);
    CHECK(orphans_told(api) == 4);
    bool found = false;
    for (const auto& orphan : orphans(dir.path())) {
        found = found || orphan.ends_with("/" + late_box);
        CHECK(fs::exists(dir.path() / "orphaned" / orphan / "note"));
    }
    CHECK(found);
    // Conversations of then are there; files are as they were last.
    CHECK(types(api.events(early)).find("turn_complete") != std::string::npos);
    CHECK(api.message(early, "cat note").output == "later\n");
    // A conversation that was deleted since the backup is back without its files, and the API says so.
    const Turn turn = api.message(deleted, "cat note");
    REQUIRE_FALSE(turn.errors.empty());
    CHECK(Json(turn.events).dump().find("its workspace is gone") != std::string::npos);
    CHECK(api.get(early)["status"] == "active");
    api.remove(deleted);
    CHECK(server.stop() == 0);
    std::ofstream(aside.path() / "orphans") << "set -eu\n"
                                            << commands[4] << '\n'
                                            << commands[5] << '\n'
                                            << commands[6] << '\n'
                                            << commands[7];
    run("bash " + (aside.path() / "orphans").string());
    CHECK(orphans(dir.path()).size() == 2);
}

TEST_CASE(
    "A database of an older server and its backup are refused, and the page says how to keep the files") {
    const TempDir dir;
    const TempDir aside;
    const std::vector<std::pair<std::string, std::string>> names{
        {"atolld", (binaries(Privilege::as_started) / "atolld").string()},
        {"/var/lib/atoll/data", dir.path().string()},
        {"/var/backups", aside.path().string()},
        {"/var/lib/atoll/old", (aside.path() / "old").string()}};
    const auto run = [](const std::vector<std::string>& lines) {
        std::string command;
        for (const std::string& line : lines)
            command += line + '\n';
        INFO(command);
        REQUIRE(std::system((command + " 2>/dev/null").c_str()) == 0);
    };
    const auto restore = commands_of("Backup and restore", names);
    {
        ServerProcess server(in(dir));
        ApiClient api(server);
        create_with_note(api, "kept");
        run({restore[0]});
        CHECK(server.stop() == 0);
    }
    for (const fs::path& file : {dir.path() / "atoll.db", aside.path() / "atoll.db"})
        SQLite::Database(file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 12");
    for (int again = 0; again < 2; ++again) {
        check_refusal(run_in(dir.path(), {"--listen", "127.0.0.1:0"}),
                      {"older server (schema 12, this one knows 13)", "atoll.db* away", "--adopt-orphans",
                       "docs/operations/backup.md"});
        CHECK(orphans(dir.path()).empty());
        run({restore[1], restore[2], restore[3]});
    }
    run(commands_of("Upgrade", names));
    CHECK_FALSE(fs::exists(dir.path() / "atoll.db"));
    check_refusal(run_in(dir.path(), {"--listen", "127.0.0.1:0"}), {"atoll.db is missing", "1 workspaces"});
    CHECK(ServerProcess(in(dir, {"--adopt-orphans"})).stop() == 0);
    REQUIRE(orphans(dir.path()).size() == 1);
    const RunResult adopted = run_in(dir.path(), {"orphans", "adopt", *orphans(dir.path()).begin()});
    INFO(adopted.output);
    REQUIRE(adopted.status == 0);
    const ServerProcess server(in(dir));
    ApiClient api(server);
    CHECK(api.message(id_in(adopted.output), "cat note").output == "kept\n");
}

// Over 5 s: four servers are started.
TEST_CASE("Facts of the host that are lost are made anew from the owners of the workspaces") {
    const TempDir dir;
    const auto owner = [&](const Json& made) {
        struct stat status {};
        REQUIRE(::stat((dir.path() / "workspaces" / made["sandboxId"]).c_str(), &status) == 0);
        return status.st_uid;
    };
    Json made;
    {
        const ServerProcess server(in(dir));
        ApiClient api(server);
        made = create_with_note(api, "kept");
    }
    const auto before = owner(made);
    for (const std::string lost : {"removed", "damaged", "not lost"}) {
        INFO(lost);
        for (const char* end : {"", "-wal", "-shm"}) {
            if (lost != "not lost")
                fs::remove(dir.path() / ("node.db" + std::string(end)));
        }
        if (lost == "damaged") {
            std::ofstream(dir.path() / "node.db") << std::string(10'000, 'x');
            check_refusal(run_in(dir.path(), {"--listen", "127.0.0.1:0"}),
                          {"node.db is damaged", "remove the file"});
            fs::remove(dir.path() / "node.db");
        }
        ServerProcess server(in(dir));
        ApiClient api(server);
        CHECK(api.message(made["id"], "cat note && echo kept > note").output == "kept\n");
        CHECK(owner(made) == before);
        CHECK((!is_root() || owner(api.create()) != before));
        CHECK(orphans_told(api) == 0);
        server.kill_hard();
    }
}

TEST_CASE("A database that is removed or replaced under the server makes it unready, until it is back") {
    const TempDir dir;
    const ServerProcess server(in(dir));
    ApiClient api(server);
    const std::string id = create_with_note(api, "x")["id"];
    const fs::path file = dir.path() / "atoll.db";
    const fs::path aside = dir.path() / "atoll.db.aside";
    REQUIRE(await_readiness(api, 200).status == 200);
    for (const char* how : {"removed", "replaced"}) {
        INFO(how);
        fs::rename(file, aside);
        if (std::string(how) == "replaced")
            fs::copy_file(aside, file);
        const HttpResponse told = await_readiness(api, 503);
        CHECK(told.status == 503);
        CHECK(told.body.find("storage_failed") != std::string::npos);
        CHECK(told.body.find("removed or replaced") != std::string::npos);
        CHECK(api.http().request("POST", "/v1/conversations", "{}").status == 503);
        CHECK(api.http().request("GET", "/v1/conversations/" + id).status == 200);
        CHECK(server.log().find("evt=store_failed") != std::string::npos);
        fs::rename(aside, file);
        CHECK(await_readiness(api, 200).status == 200);
        CHECK(server.log().find("evt=store_recovered") != std::string::npos);
    }
    CHECK(api.message(id, "cat note").output == "x\n");
}

TEST_CASE("A backup tells what is wrong, and leaves the last good one") {
    const TempDir dir;
    const TempDir aside;
    const fs::path target = aside.path() / "backup.db";
    check_refusal(run_in(dir.path(), {"backup", target.string()}), {"there is no database", "--data-dir"});
    CHECK(ServerProcess(in(dir)).stop() == 0);
    REQUIRE(run_in(dir.path(), {"backup", target.string()}).status == 0);
    const auto size = fs::file_size(target);
    std::ofstream(dir.path() / "atoll.db", std::ios::trunc) << std::string(10'000, 'x');
    check_refusal(run_in(dir.path(), {"backup", target.string()}), {"cannot copy"});
    CHECK(fs::file_size(target) == size);
    CHECK_FALSE(fs::exists(target.string() + ".partial"));
    check_refusal(run_in(dir.path(), {"--listen", "127.0.0.1:0"}),
                  {"is damaged", "restore the database from a backup"});
    check_refusal(run_in(dir.path(), {"backup", "/proc/no/such"}), {"cannot copy"});
}

}  // namespace data_loss_test
