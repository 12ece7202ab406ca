// The operator's view: a server that starts, a server that cannot start and says why, a server that ends in
// order.
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <optional>
#include <set>

#include "tests/support/api_client.hpp"

namespace startup_test {

using namespace atl::test;

namespace {

void check_refusal(const RunResult& result, const std::vector<std::string>& words) {
    INFO(result.output);
    CHECK(result.status == 1);
    for (const auto& word : words)
        CHECK(result.output.find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("A data directory of another server is refused, naming that server") {
    const ServerProcess server;
    check_refusal(run_server({"--data-dir", server.data_dir().string(), "--listen", "127.0.0.1:0"}),
                  {"in use by another server", std::to_string(server.pid()), "--data-dir"});
}

TEST_CASE("A port that is taken is refused, naming it") {
    const ServerProcess server;
    const TempDir dir;
    const std::string address = "127.0.0.1:" + std::to_string(server.port());
    check_refusal(run_server({"--data-dir", (dir.path() / "data").string(), "--listen", address}),
                  {address, "--listen"});
}

TEST_CASE("A server that listens at a name answers at each of its addresses, at one port") {
    const ServerProcess server(
        {.privilege = Privilege::as_started, .arguments = {"--listen", "localhost:0"}});
    std::vector<std::string> addresses;
    const std::string log = server.log();
    constexpr std::string_view k_mark = "evt=server_listening addr=";
    for (auto at = log.find(k_mark); at != std::string::npos; at = log.find(k_mark, at + 1)) {
        const auto from = at + k_mark.size();
        addresses.push_back(log.substr(from, log.find_first_of(" \n", from) - from));
    }
    INFO(log);
    REQUIRE(addresses.size() >= 2);
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    REQUIRE(::getaddrinfo("localhost", nullptr, &hints, &found) == 0);
    // An address that this host lacks cannot be bound.
    std::set<std::string> names;
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
        const atl::base::UniqueFd probe(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        std::array<char, NI_MAXHOST> host{};
        if (probe && ::bind(probe.get(), at->ai_addr, at->ai_addrlen) == 0 &&
            ::getnameinfo(at->ai_addr, at->ai_addrlen, host.data(), host.size(), nullptr, 0,
                          NI_NUMERICHOST) == 0)
            names.insert(at->ai_family == AF_INET6 ? '[' + std::string(host.data()) + ']' : host.data());
    }
    ::freeaddrinfo(found);
    const std::string port = addresses.back().substr(addresses.back().rfind(':'));
    CHECK(addresses.size() == 1 + names.size());
    for (const std::string& name : names) {
        INFO(name);
        CHECK(std::ranges::find(addresses, name + port) != addresses.end());
        CHECK(HttpClient(name + port).request("GET", "/healthz").status == 200);
    }
}

TEST_CASE("A data directory that cannot be written is refused") {
    check_refusal(run_server({"--data-dir", "/proc/atoll", "--listen", "127.0.0.1:0"}),
                  {"/proc/atoll", "--data-dir"});
}

TEST_CASE("A host without bubblewrap is told what to install") {
    const TempDir dir;
    check_refusal(run_server({"--data-dir", (dir.path() / "data").string(), "--listen", "127.0.0.1:0",
                              "--bwrap", "/no/such/bwrap"}),
                  {"/no/such/bwrap", "bubblewrap"});
}

TEST_CASE("A wrong command line is refused and --help tells the right one") {
    CHECK(run_server({"--no-such-flag"}).status == 2);
    CHECK(run_server({"--max-sandboxes", "-5"}).status == 2);
    const RunResult help = run_server({"--help"});
    CHECK(help.status == 0);
    CHECK(help.output.find("--listen") != std::string::npos);
    CHECK(run_server({"--version"}).output.starts_with("atolld "));
}

TEST_CASE("A server tells how late its loop is when it is asked to measure, and ends as ever") {
    ServerProcess plain;
    CHECK(ApiClient(plain).call(200, "GET", "/v1/system")["loop"] == nullptr);
    ServerProcess measured({.privilege = Privilege::as_started, .arguments = {"--measure-loop"}});
    ApiClient client(measured);
    client.message(client.create()["id"], "echo hello");
    const auto loop = client.call(200, "GET", "/v1/system")["loop"];
    CHECK(loop["latenessUs"]["count"] > 0);
    CHECK(loop["handlerCpuUs"]["count"] > 10);
    CHECK(loop["handlerCpuUs"]["max"] >= loop["handlerCpuUs"]["p50"]);
    CHECK(measured.stop() == 0);
}

TEST_CASE("A wrong agents file is refused, naming what is wrong") {
    const TempDir dir;
    const auto refused = [&](const std::string& content, const std::string& word) {
        std::ofstream(dir.path() / "agents.json") << content;
        const auto file = (dir.path() / "agents.json").string();
        check_refusal(run_server({"--data-dir", (dir.path() / "data").string(), "--listen", "127.0.0.1:0",
                                  "--agents-file", file}),
                      {word});
    };
    refused("not json", "not a JSON object");
    refused(R"({"agents":[{"name":"shell","argv":["x"]}]})", "taken");
    refused(R"({"agents":[{"name":"a b","argv":["x"]}]})", "name");
    refused(R"({"agents":[{"name":"a","argv":[]}]})", "argv");
    refused(R"({"agents":[{"name":"a","argv":["x"],"dir":"/no/such"}]})", "/no/such");
    refused(R"({"agents":[{"name":"a","argv":["x"],"other":1}]})", "other");
}

TEST_CASE(
    "The profile is printed without touching a data directory, with nothing of the environment's values") {
    const RunResult printed = run_server({"--print-profile"}, {{"ANTHROPIC_API_KEY", "sk-secret"}});
    INFO(printed.output);
    CHECK(printed.status == 0);
    for (const char* word :
         {"--unshare-net", "--disable-userns", "--cap-drop", "--die-with-parent", "--remount-ro"})
        CHECK(printed.output.find(word) != std::string::npos);
    CHECK(printed.output.find("sk-secret") == std::string::npos);
}

TEST_CASE("A key from the environment is printed nowhere, not even in the console's address") {
    const ServerProcess server;
    const std::string console = "http://127.0.0.1:" + std::to_string(server.port()) + "/\n";
    CHECK(server.printed().find(console) != std::string::npos);
    CHECK(server.printed().find(server.key()) == std::string::npos);
    CHECK(server.log().find(server.key()) == std::string::npos);
    HttpClient anyone("127.0.0.1:" + std::to_string(server.port()));
    CHECK(anyone.request("GET", "/").header("content-type") == "text/html; charset=utf-8");
}

TEST_CASE("The key is made at the first start, kept, and readable by its owner alone") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    {
        const ServerProcess server(options);
        HttpClient client("127.0.0.1:" + std::to_string(server.port()));
        CHECK(client.request("GET", "/healthz").status == 200);
        CHECK(client.request("GET", "/v1/system").status == 401);
    }
    for (const char* name : {"atoll.db", "node.db", "instance-id", "lock"}) {
        struct stat status {};
        REQUIRE(::stat((dir.path() / name).c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
    }
}

TEST_CASE("A server under a strict umask serves, and its secrets stay its own") {
    const mode_t before = ::umask(0077);
    const ServerProcess server;
    ::umask(before);
    ApiClient api(server);
    CHECK(api.message(api.create()["id"], "echo works").output == "works\n");
}

TEST_CASE("SIGTERM ends open turns, sandboxes and the server, and a restart goes on from there") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create()["id"];
        HttpClient client = api.connect();
        client.open_stream("POST", "/v1/conversations/" + id + "/messages",
                           R"({"content":"echo on; sleep 1000"})", {{"Accept", "text/event-stream"}});
        REQUIRE(client.next_event().has_value());
        const auto processes = open_pidfds(descendants(server.pid()));
        CHECK(server.stop() == 0);
        CHECK(await_gone(processes, k_client_deadline));
        const Turn turn = summarise(read_until(client, "done"));
        CHECK(turn.errors == std::vector<std::string>{"server_shutdown"});
        CHECK(std::filesystem::is_empty(dir.path() / "run"));
        CHECK(server.log().find("evt=server_stopped") != std::string::npos);
    }
    const ServerProcess server(options);
    ApiClient api(server);
    const Json back = api.get(id);
    CHECK(back["status"] == "paused");
    CHECK(back["statusReason"] == "server_restart");
    CHECK(api.message(id, "echo back").output == "back\n");
}

TEST_CASE("A rootless server runs sandboxes too and says that they share a uid", "[full]") {
    if (!is_root())
        SKIP("needs root to start a server as another user; every other test here is rootless then");
    ServerOptions options;
    options.privilege = Privilege::rootless;
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.create();
    CHECK(made["enforcement"]["uid"] == "shared");
    CHECK(made["enforcement"]["filesystem"] == "bubblewrap");
    // Memory is limited if this host lets the user make cgroups; the server tells it either way.
    const Json system = api.call(200, "GET", "/v1/system");
    REQUIRE(system["notEnforced"].contains("uid"));
    CHECK(system["notEnforced"]["uid"].get<std::string>().find("registrations with epoll") !=
          std::string::npos);
    CHECK(system["notEnforced"].contains("memory") == (made["enforcement"]["memory"] == "none"));
    CHECK(api.message(made["id"], "id -u").output == "1000\n");
    api.remove(made["id"]);
}

// [serial]: the processes of one uid count together.
TEST_CASE("Without a group a rootless sandbox is held to its processes by an rlimit, each to its own",
          "[full][serial]") {
    if (!is_root())
        SKIP("needs root to start a server as another user");
    ServerOptions options;
    options.privilege = Privilege::rootless;
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.call(201, "POST", "/v1/conversations", R"({"limits":{"maxProcesses":12}})");
    if (made["enforcement"]["processes"] != "rlimit")
        SKIP("processes are limited by " + made["enforcement"]["processes"].get<std::string>() + " here");
    CHECK_FALSE(api.call(200, "GET", "/v1/system")["notEnforced"].contains("processes"));
    // How many children one process can have, of 30 that it tries: bash would try each again and again.
    const auto children = [&](const Json& conversation) {
        return api
            .message(conversation["id"], R"(exec python3 -c '
import os, time
count = 0
try:
    while count < 30:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError:
    pass
os.write(1, b"%d\n" % count)
os._exit(os.killpg(0, 9))')")
            .output;
    };
    // Beside the process itself, and nothing else: bash became it.
    CHECK(children(made) == "11\n");
    // Processes of other sandboxes of the same user do not count, and a sandbox cannot raise the limit.
    const Json other = api.call(201, "POST", "/v1/conversations", R"({"limits":{"maxProcesses":40}})");
    CHECK(children(other) == "30\n");
    CHECK(api.message(made["id"],
                      "ulimit -u; ulimit -u 100 2>&1 | grep -c 'not permitted'; env | grep -c ASH_MAX")
              .output == "13\n1\n0\n");
    api.remove(made["id"]);
    api.remove(other["id"]);
}

TEST_CASE("The server goes before what it starts, where it may") {
    const auto nice_of = [](pid_t pid) { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)); };
    const int own = nice_of(0);
    ServerOptions options;
    for (const int wanted : {-10, 0}) {
        INFO(wanted);
        options.arguments = {"--nice", std::to_string(wanted)};
        const ServerProcess server(options);
        ApiClient api(server);
        api.create();
        CHECK(nice_of(server.pid()) == (is_root() && wanted < 0 ? wanted : own));
        const auto below = descendants(server.pid());
        CHECK(below.size() >= 4);
        for (const pid_t pid : below)
            CHECK(nice_of(pid) >= own);
    }
}

// [serial]: a server of low priority starts within its deadline.
TEST_CASE("A server that was started at a lower priority than its helpers have starts and works",
          "[serial]") {
    if (!is_root())
        SKIP("needs root to give itself back the priority that it had");
    const int own = ::getpriority(PRIO_PROCESS, 0);
    REQUIRE(::setpriority(PRIO_PROCESS, 0, 10) == 0);
    ServerOptions options;
    options.privilege = Privilege::rootless;
    std::optional<ServerProcess> server;
    try {
        server.emplace(options);
    } catch (...) {
        ::setpriority(PRIO_PROCESS, 0, own);
        throw;
    }
    REQUIRE(::setpriority(PRIO_PROCESS, 0, own) == 0);
    ApiClient api(*server);
    const Json made = api.create();
    CHECK(api.message(made["id"], "echo here").output == "here\n");
}

TEST_CASE("The server that runs in a data directory below /root serves sandboxes from there") {
    if (!is_root())
        SKIP("needs root");
    const TempDir outer;
    std::filesystem::create_directories(outer.path() / "closed");
    std::filesystem::permissions(outer.path() / "closed", std::filesystem::perms::owner_all);
    ServerOptions options;
    options.data_dir = outer.path() / "closed" / "data";
    std::filesystem::create_directory(options.data_dir);
    const ServerProcess server(options);
    ApiClient api(server);
    CHECK(api.message(api.create()["id"], "echo fine > f && cat f").output == "fine\n");
}

TEST_CASE(
    "Half-made and half-removed workspaces are gone after the next start, unknown ones are kept apart") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    std::string kept;
    {
        const ServerProcess server(options);
        kept = ApiClient(server).create()["sandboxId"];
    }
    const auto orphan = dir.path() / "workspaces" / "abcdefghijkmnpqrstuv";
    std::filesystem::create_directories(orphan / "deep" / "er");
    const auto half_made = dir.path() / "workspaces" / "bbcdefghijkmnpqrstuv";
    std::filesystem::create_directories(half_made / "deep");
    std::ofstream(dir.path() / "unclaimed" / "bbcdefghijkmnpqrstuv") << "";
    std::filesystem::create_directories(dir.path() / "trash" / "left" / "over");
    const ServerProcess server(options);
    ApiClient api(server);
    // A removal that goes through the same helper comes after the sweep; one that takes long is answered
    // before it is done.
    api.remove(api.create()["id"]);
    CHECK(eventually([&] { return std::filesystem::is_empty(dir.path() / "trash"); }));
    CHECK_FALSE(std::filesystem::exists(orphan));
    CHECK_FALSE(std::filesystem::exists(half_made));
    const std::filesystem::directory_iterator dates(dir.path() / "orphaned");
    CHECK(std::filesystem::is_directory(dates->path() / "abcdefghijkmnpqrstuv" / "deep" / "er"));
    CHECK(std::distance(std::filesystem::directory_iterator(dates->path()), {}) == 1);
    CHECK(std::filesystem::exists(dir.path() / "workspaces" / kept));
}

TEST_CASE("A server that cannot enforce what is required does not start, and says why") {
    if (!is_root())
        SKIP("needs root to start a server as another user");
    ServerOptions rootless;
    rootless.privilege = Privilege::rootless;
    rootless.arguments = {"--require", "filesystem,network,syscalls"};
    CHECK(ServerProcess(rootless).port() != 0);
    rootless.arguments = {"--require", "filesystem,uid"};
    try {
        const ServerProcess server(rootless);
        FAIL("it started");
    } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("--require asks for: uid (") != std::string::npos);
    }
}

}  // namespace startup_test
