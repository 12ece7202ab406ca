// Bounds of the server that all users share: one user takes what there is, beside a neighbour. The control of
// each attack is a server on which one user may have all (`--user-share 100`).
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/execution_limits.hpp"
#include "tests/isolation/lab.hpp"
#include "tests/isolation/redteam/small_disk.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/resident_memory.hpp"

namespace shares_test {

using namespace atl::test;
namespace base = atl::base;

namespace {

constexpr std::uint64_t k_mib = 1024UL * 1024;

struct House {
    explicit House(const char* user_share, Words more = {}, std::filesystem::path data_dir = {})
        : lab(Privilege::as_started, with(std::move(more), user_share), std::move(data_dir)) {}

    static Words with(Words arguments, const char* user_share) {
        arguments.insert(arguments.end(), {"--user-share", user_share});
        return arguments;
    }

    Json budget(const std::string& name) {
        const Json system = lab.api.call(200, "GET", "/v1/system");
        const Json& all = system["budgets"];
        return *std::ranges::find_if(all, [&](const Json& one) { return one["name"] == name; });
    }
    std::uint64_t used(const std::string& name) { return budget(name)["used"]; }
    HttpResponse post(const std::string& path, const Json& body) {
        return lab.api.http().request("POST", path, body.dump());
    }
    /// Sends the request, and waits for no answer. Its client leaves with the house.
    HttpClient& begin(const std::string& path, const Json& body) {
        HttpClient& client = clients.emplace_back(lab.api.connect());
        const std::string text = body.dump();
        client.connect();
        client.send_raw("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + lab.server.key() +
                        "\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(text.size()) + "\r\n\r\n" + text);
        return client;
    }

    Lab lab;
    std::list<HttpClient> clients;
};

Json of_user(const std::string& user) {
    return {{"userId", user}};
}

/// A run of a program in Python, whose engine each host has.
Json program_of(const std::string& user, const std::string& code) {
    return {{"userId", user}, {"language", "python"}, {"code", code}};
}

std::string exec_path(const Sandbox& sandbox) {
    return "/v1/sandboxes/" + sandbox.sandbox_id() + "/exec";
}

/// Two streams that are kept to their ends, of a program that goes on.
void fill_exec(House& house, const Sandbox& greedy) {
    const Json body{{"command", "head -c 16777216 /dev/zero; head -c 16777216 /dev/zero >&2; sleep 300"},
                    {"maxOutputBytes", 16 * k_mib},
                    {"timeoutMs", 300'000}};
    for (int i = 0; i < 8; ++i)
        (void)house.begin(exec_path(greedy), body);
}

struct Filled {
    int taken = 0;  // requests
    HttpResponse refused;
};

/// Sends the request until it is refused, and calls `behind_each` after each that is not.
template <class BehindEach>
Filled send_until_refused(House& house, const std::string& path, const Json& body, BehindEach behind_each) {
    Filled filled;
    for (;; ++filled.taken) {
        filled.refused = house.post(path, body);
        if (filled.refused.status != 201 && filled.refused.status != 202)
            return filled;
        behind_each();
    }
}

/// Sends messages of 512 KiB, each of which the agent repeats, until one is refused: its answer.
/// `fills_disk`: the end of the last turn may find no room.
HttpResponse fill_log(House& house, const std::string& id, bool fills_disk = false) {
    const Json body{{"content", std::string(512 * 1024, 'x')}};
    const auto await_end = [&] {
        const bool has_ended = eventually([&] { return house.lab.api.get(id)["openTurn"].is_null(); });
        CHECK((has_ended || fills_disk));
    };
    return send_until_refused(house, "/v1/conversations/" + id + "/messages", body, await_end).refused;
}

/// Runs with 600,000 bytes of logs a line, 8 MiB at most: six bytes of JSON for each that the program writes.
void run_loudly(House& house, int runs, int lines = 14) {
    Json body =
        program_of("greedy", "for _ in range(" + std::to_string(lines) + "):\n    print('\\x01' * 100000)");
    body["maxOutputBytes"] = 4 * k_mib;
    for (int i = 0; i < runs; ++i)
        REQUIRE(house.post("/v1/execute", body).status == 200);
}

/// A detached run that waits for an answer that nobody gives, and so takes no processor time.
Json waiting_run(const std::string& user) {
    Json program = program_of(user, "await codemode.wait()");
    program["tools"] = Json::parse(R"([{"name":"wait"}])");
    program["timeoutMs"] = 60'000;
    program["detached"] = true;
    return program;
}

constexpr std::uint64_t k_long_tools_bytes = 16UL * 64'018;

/// A run with 16 schemas of so many bytes together, which the loop does not check.
Json long_tools(const std::string& user) {
    Json program = program_of(user, "return 8");
    program["detached"] = true;
    for (int i = 0; i < 16; ++i)
        program["tools"].push_back({{"name", "t" + std::to_string(i)},
                                    {"inputSchema", {{"description", std::string(64'000, 'x')}}}});
    return program;
}

/// To the process that checks.
void signal_checker(House& house, int signal) {
    for (const pid_t pid : descendants(house.lab.server.pid())) {
        if (read_host_file("/proc/" + std::to_string(pid) + "/comm") == "atoll-checker\n")
            ::kill(pid, signal);
    }
}

/// Resident memory of the server, and what the kernel holds for TCP (sockstat, in pages).
long taken_by_connections_kb(pid_t server) {
    const std::string text = read_host_file("/proc/net/sockstat");
    const auto at = text.find(" mem ", text.find("TCP:"));
    REQUIRE(at != std::string::npos);
    return resident_kb(server) + std::stol(text.substr(at + 5)) * (::sysconf(_SC_PAGESIZE) / 1024);
}

/// WebSockets of a token that read nothing of what the conversation says.
void follow_unread(House& house, const Sandbox& greedy, int followers) {
    const Json asked{{"scope", "read"}, {"ttlSeconds", 600}};
    const std::string token = house.lab.api.call(201, "POST", "/v1/conversations/" + greedy.id() + "/tokens",
                                                 asked.dump())["token"];
    for (int i = 0; i < followers; ++i) {
        HttpClient& client = house.clients.emplace_back(house.lab.server.address());
        client.connect();
        client.send_raw("GET /v1/conversations/" + greedy.id() + "/ws?token=" + token +
                        " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    }
    // Nobody follows the turn, which could be cut for the same share.
    const Json message{{"content", "head -c 4000000 /dev/zero | tr '\\0' x | fold -w 1000"}};
    CHECK(house.post("/v1/conversations/" + greedy.id() + "/messages", message).status == 202);
    CHECK(eventually([&] { return house.lab.api.get(greedy.id())["openTurn"].is_null(); }));
}

}  // namespace

TEST_CASE("Execs of one user that keep much output leave a neighbour its own", "[redteam]") {
    {
        House control("100");
        Sandbox greedy(control.lab, of_user("greedy"));
        Sandbox neighbour(control.lab, of_user("neighbour"));
        fill_exec(control, greedy);
        REQUIRE(eventually([&] { return control.used("exec") == 256 * k_mib; }));
        const HttpResponse refused = control.post(exec_path(neighbour), {{"command", "echo well"}});
        CHECK(refused.status == 503);
        CHECK(Json::parse(refused.body)["budget"] == "exec");
        control.clients.clear();
        CHECK(eventually([&] { return control.used("exec") == 0; }));
    }
    House house("50");
    Sandbox greedy(house.lab, of_user("greedy"));
    Sandbox neighbour(house.lab, of_user("neighbour"));
    fill_exec(house, greedy);
    REQUIRE(eventually([&] { return house.used("exec") == 128 * k_mib; }));
    const HttpResponse refused = house.post(exec_path(greedy), {{"command", "true"}});
    CHECK(refused.status == 429);
    CHECK(code_of(refused) == "user_share");
    const Json well =
        Json::parse(house
                        .post(exec_path(neighbour), {{"command", "echo well; head -c 9000000 /dev/zero >&2"},
                                                     {"maxOutputBytes", 16 * k_mib}})
                        .body);
    CHECK(well["stdout"] == "well\n");
    CHECK(well["truncated"] == Json{{"stdout", false}, {"stderr", false}});
    house.clients.clear();
    CHECK(eventually([&] { return house.used("exec") == 0; }));
}

// Two servers whose budget of 64 MiB a user fills by runs.
TEST_CASE("Results of one user's runs take no place of a neighbour's", "[redteam]") {
    Json next = program_of("neighbour", "return 7");
    next["detached"] = true;
    // A neighbour's result is there before them, and still there behind them. Then runs that wait reserve
    // what is left, until the user's own results would give way.
    const auto take = [&](House& house) {
        const Json begun = house.lab.api.call(202, "POST", "/v1/execute", next.dump());
        const std::string path = "/v1/executions/" + begun["executionId"].get<std::string>();
        run_loudly(house, 9);
        run_loudly(house, 1, 6);
        Json result;
        CHECK(eventually([&] {
            result = house.lab.api.call(200, "GET", path);
            return result["status"] == "ended";
        }));
        CHECK(result["outcome"]["result"] == 7);
        const auto has_room = [&] {
            return house.used("results") + base::k_execution_reserved_bytes <=
                   base::k_max_kept_execution_bytes;
        };
        for (int i = 0; i < 30 && has_room(); ++i)
            REQUIRE(house.post("/v1/execute", waiting_run("greedy")).status == 202);
    };
    {
        House control("100");
        take(control);
        const HttpResponse refused = control.post("/v1/execute", next);
        CHECK(refused.status == 503);
        CHECK(Json::parse(refused.body)["budget"] == "results");
    }
    House house("50");
    take(house);
    CHECK(house.used("results") <= 33 * k_mib);
    CHECK(house.post("/v1/execute", next).status == 202);
}

TEST_CASE("Sandboxes of one user leave a neighbour places", "[redteam][drawn]") {
    // There are 20 places. Returns how many were made before the first refusal.
    const auto make = [](House& house, const std::string& code) {
        const Filled filled = send_until_refused(house, "/v1/sandboxes", of_user("greedy"), [] {});
        CHECK(code_of(filled.refused) == code);
        CHECK(Json::parse(filled.refused.body)["budget"] == "places");
        return filled.taken;
    };
    {
        House control("100", {"--max-sandboxes", "20"});
        CHECK(make(control, "capacity") == 20);
        CHECK(control.post("/v1/conversations", of_user("neighbour")).status == 503);
    }
    House house("50", {"--max-sandboxes", "20"});
    const Json paused = house.lab.api.create(of_user("neighbour"));
    const std::string path = "/v1/conversations/" + paused["id"].get<std::string>();
    house.lab.api.call(200, "POST", path + "/pause", R"({"mode":"cold"})");
    CHECK(make(house, "user_share") == 10);
    CHECK(house.lab.api.message(paused["id"], "echo well").output == "well\n");
    CHECK(house.post("/v1/sandboxes", of_user("neighbour")).status == 201);
}

TEST_CASE("Previews of one user that a visitor wakes leave a neighbour's its wake", "[redteam][drawn]") {
    // Paused conversations whose previews wake, by the names of their previews.
    const auto sleepers = [](House& house, const char* user, std::size_t count) {
        std::vector<std::string> names;
        while (names.size() < count) {
            const Json made = house.lab.api.create({{"userId", user}, {"preview", {{"wake", true}}}});
            house.lab.api.call(200, "POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause",
                               R"({"mode":"cold"})");
            names.push_back("preview-" + made["sandboxId"].get<std::string>() + ".preview.localhost");
        }
        return names;
    };
    // There are 20 wakes a minute. Nothing listens in what was woken.
    const auto wake = [](House& house, const std::vector<std::string>& names) {
        HttpClient visitor(house.lab.server.address());
        std::map<std::string, int> answers;
        for (const std::string& name : names)
            ++answers[code_of(visitor.request("GET", "/", "", {{"Host", name}}))];
        return answers;
    };
    const Words few{"--preview-domain", "preview.localhost", "--preview-wakes-per-minute", "20"};
    {
        House control("100", few);
        const auto greedy = sleepers(control, "greedy", 22);
        const auto neighbour = sleepers(control, "neighbour", 1);
        CHECK(wake(control, greedy) == std::map<std::string, int>{{"no_listener", 20}, {"capacity", 2}});
        CHECK(wake(control, neighbour) == std::map<std::string, int>{{"capacity", 1}});
    }
    House house("50", few);
    const auto greedy = sleepers(house, "greedy", 22);
    const auto neighbour = sleepers(house, "neighbour", 1);
    CHECK(wake(house, greedy) == std::map<std::string, int>{{"no_listener", 10}, {"user_share", 12}});
    CHECK(wake(house, neighbour) == std::map<std::string, int>{{"no_listener", 1}});
}

TEST_CASE("Programs of four users that do not end leave a fifth one a place to run", "[redteam][drawn]") {
    const auto hold = [](House& house) {
        for (int i = 0; i < 16; ++i)
            REQUIRE(house.post("/v1/execute", waiting_run("greedy" + std::to_string(i % 4))).status == 202);
    };
    const Json quick = program_of("neighbour", "return 7");
    {
        House control("100");
        hold(control);
        CHECK(control.used("programs") == 16);
        Json waiting = quick;
        waiting["detached"] = true;
        const Json begun = control.lab.api.call(202, "POST", "/v1/execute", waiting.dump());
        const std::string path = "/v1/executions/" + begun["executionId"].get<std::string>();
        CHECK(control.lab.api.call(200, "GET", path)["status"] == "waiting");
    }
    House house("50");
    hold(house);
    CHECK(house.used("programs") == 12);
    const Json answer = house.lab.api.call(200, "POST", "/v1/execute", quick.dump());
    CHECK(answer["result"] == 7);
    // The place is free once the sandbox is gone.
    CHECK(eventually([&] { return house.used("programs") == 12; }));
}

TEST_CASE("Paused conversations of one user leave a neighbour a port for its preview", "[redteam][full]") {
    // To take all 10,000 ports takes too long: with a share of 1 % a user has the 100 of the floor. Returns
    // the address of the last of 101.
    const auto make = [](House& house) {
        std::string last;
        for (int i = 0; i < 101; ++i) {
            last = house.lab.api.create(of_user("greedy"))["id"];
            house.lab.api.call(200, "POST", "/v1/conversations/" + last + "/pause", R"({"mode":"cold"})");
        }
        return house.lab.api.get(last)["sandboxPublicUrl"];
    };
    {
        House control("100");
        CHECK(make(control).is_string());
        CHECK(control.used("preview_ports") == 101);
    }
    House house("1");
    CHECK(make(house).is_null());
    CHECK(house.used("preview_ports") == 100);
    const std::string neighbour = house.lab.api.create(of_user("neighbour"))["id"];
    CHECK(house.lab.api.get(neighbour)["sandboxPublicUrl"].is_string());
}

TEST_CASE("Tools of two users that wait to be checked leave a neighbour's their room", "[redteam][full]") {
    // There is room for 65 such. The process that checks stands still, for 10 s at most: then it is replaced.
    // Returns how many of 66 wait, once the others are refused.
    const auto begin = [](House& house) {
        REQUIRE(house.post("/v1/execute", long_tools("neighbour")).status == 202);
        signal_checker(house, SIGSTOP);
        for (int i = 0; i < 66; ++i)
            (void)house.begin("/v1/execute", long_tools("greedy" + std::to_string(i % 2)));
        const auto has_answer = [](const HttpClient& client) {
            pollfd one{client.fd(), POLLIN, 0};
            return ::poll(&one, 1, 0) > 0;
        };
        std::uint64_t waiting = 0;
        REQUIRE(eventually([&] {
            const auto answered = std::ranges::count_if(house.clients, has_answer);
            waiting = house.used("checks") / k_long_tools_bytes;
            return waiting + static_cast<std::uint64_t>(answered) == 66;
        }));
        return waiting;
    };
    {
        House control("100");
        CHECK(begin(control) == 65);
        const HttpResponse refused = control.post("/v1/execute", long_tools("neighbour"));
        CHECK(refused.status == 503);
        CHECK(Json::parse(refused.body)["budget"] == "checks");
    }
    House house("50");
    // A third each, or less where one was quicker.
    CHECK(begin(house) < 50);
    CHECK(code_of(house.post("/v1/execute", long_tools("greedy0"))) == "user_share");
    std::list<HttpClient> greedy;
    greedy.swap(house.clients);
    const std::uint64_t before = house.used("checks");
    HttpClient& neighbour = house.begin("/v1/execute", long_tools("neighbour"));
    CHECK(eventually([&] { return house.used("checks") > before; }));
    greedy.clear();
    signal_checker(house, SIGCONT);
    CHECK(neighbour.read_response().status == 202);
    CHECK(eventually([&] { return house.used("checks") == 0; }));
}

TEST_CASE("Followers of one user that never read take a share of the buffers of connections",
          "[redteam][full]") {
    constexpr int k_followers = 600;
    // The memory that they take of the server and of the kernel, whatever is charged for it.
    const auto take = [](House& house, Sandbox& greedy, std::uint64_t charged_bytes) {
        const long before = taken_by_connections_kb(house.lab.server.pid());
        follow_unread(house, greedy, k_followers);
        CHECK(eventually([&] { return house.used("connections") > charged_bytes; }));
        return taken_by_connections_kb(house.lab.server.pid()) - before;
    };
    long unbounded_kb = 0;
    {
        House control("100");
        Sandbox greedy(control.lab, of_user("greedy"));
        unbounded_kb = take(control, greedy, 140 * k_mib);
        CHECK(unbounded_kb > 140 * 1024);
    }
    // A tenth of the budget is 25.6 MiB.
    House house("10");
    Sandbox greedy(house.lab, of_user("greedy"));
    Sandbox neighbour(house.lab, of_user("neighbour"));
    const long taken_kb = take(house, greedy, 25 * k_mib);
    INFO(taken_kb << " KiB, and " << unbounded_kb << " KiB without a share");
    CHECK(taken_kb < unbounded_kb / 4 * 3);
    CHECK(neighbour.output("head -c 1000000 /dev/zero | tr '\\0' y | wc -c") == "1000000");
    house.clients.clear();
    CHECK(eventually([&] { return house.used("connections") == 0; }));
}

TEST_CASE("Messages of one user fill no disk under a neighbour's log", "[redteam]") {
    const auto make = [](House& house, const char* user) -> std::string {
        return house.lab.api.create({{"agent", "echo"}, {"userId", user}})["id"];
    };
    // Longer than all that the database may have free in its own files.
    const Json message{{"content", std::string(900 * 1024, 'y')}};
    const auto say = [&](House& house, const std::string& id) {
        return house.post("/v1/conversations/" + id + "/messages", message);
    };
    {
        const SmallDisk disk(64);
        House control("100", {"--log-mb", "1024", "--disk-reserve", "0"}, disk.data_dir());
        const std::string greedy = make(control, "greedy");
        const std::string neighbour = make(control, "neighbour");
        CHECK(fill_log(control, greedy, true).status == 503);
        // Nobody's writes are taken any more.
        CHECK(say(control, neighbour).status == 503);
    }
    const SmallDisk disk(64);
    House house("50", {}, disk.data_dir());
    const std::string greedy = make(house, "greedy");
    const std::string neighbour = make(house, "neighbour");
    const HttpResponse refused = fill_log(house, greedy);
    CHECK(refused.status == 429);
    CHECK(code_of(refused) == "user_share");
    CHECK(Json::parse(refused.body)["budget"] == "log");
    // More of the user's conversations are no way around it.
    CHECK(fill_log(house, make(house, "greedy")).status == 429);
    CHECK(say(house, neighbour).status == 202);
    CHECK(eventually([&] { return house.lab.api.get(neighbour)["openTurn"].is_null(); }));
    CHECK(disk.free_mb() > 16);
    const std::uint64_t before = house.used("log");
    CHECK(house.lab.api.http().request("DELETE", "/v1/conversations/" + greedy).status == 204);
    CHECK(eventually([&] { return house.used("log") + k_mib < before; }));
    CHECK(house.lab.api.message(make(house, "greedy"), "again").output == "again");
}

TEST_CASE("Files of one user's paused conversations leave a neighbour its part of the disk", "[redteam]") {
    constexpr std::size_t k_most = 10;
    // Pauses conversations with 30 MiB each, until no other is made: their ids.
    const auto fill = [](House& house) {
        std::vector<std::string> paused;
        while (paused.size() < k_most) {
            const HttpResponse answer = house.post("/v1/conversations", of_user("greedy"));
            if (answer.status != 201) {
                CHECK(code_of(answer) == "user_share");
                CHECK(Json::parse(answer.body)["budget"] == "files");
                break;
            }
            const Json made = Json::parse(answer.body);
            const std::filesystem::path file =
                house.lab.server.data_dir() / "workspaces" / made["sandboxId"].get<std::string>() / "f";
            REQUIRE(std::system(("fallocate -l 30M '" + file.string() + "'").c_str()) == 0);
            paused.push_back(made["id"]);
            house.lab.api.call(200, "POST", "/v1/conversations/" + paused.back() + "/pause",
                               R"({"mode":"cold"})");
            // They are measured at rest.
            REQUIRE(eventually([&] { return house.used("files") >= paused.size() * 30 * k_mib; }));
        }
        return paused;
    };
    {
        const SmallDisk disk(400);
        House control("100", {}, disk.data_dir());
        CHECK(fill(control).size() == k_most);
    }
    const SmallDisk disk(400);
    House house("50", {}, disk.data_dir());
    const auto paused = fill(house);
    CHECK(paused.size() >= 4);
    CHECK(paused.size() < k_most - 1);
    CHECK(house.post("/v1/conversations", of_user("neighbour")).status == 201);
    const std::string path = "/v1/conversations/" + paused.front();
    CHECK(code_of(house.post(path + "/resume", Json::object())) == "user_share");
    house.lab.api.call(204, "DELETE", path);
    CHECK(eventually([&] { return house.post("/v1/conversations", of_user("greedy")).status == 201; }));
}

}  // namespace shares_test
