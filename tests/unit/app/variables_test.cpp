// Values of flags that come from the environment: refused as those of the command line, never passed over.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "app/config.hpp"
#include "tests/support/server_process.hpp"

namespace variables_test {

using namespace atl::app;
using atl::test::TempDir;
using Variables = std::vector<std::pair<std::string, std::string>>;

namespace {

/// Parses `arguments` with these variables set, and no others of theirs.
ParsedConfig parse(const Variables& variables, std::vector<const char*> arguments = {}) {
    arguments.insert(arguments.begin(), "atolld");
    for (const auto& [name, value] : variables)
        ::setenv(name.c_str(), value.c_str(), 1);
    auto parsed = parse_config(static_cast<int>(arguments.size()), arguments.data());
    for (const auto& [name, value] : variables)
        ::unsetenv(name.c_str());
    return parsed;
}

}  // namespace

TEST_CASE("A variable with a value that its flag refuses refuses the start, and is named") {
    for (const auto& [name, value] : Variables{{"ATOLL_REQUIRE", "memory,cpus"},
                                               {"ATOLL_REQUIRE", "memroy"},
                                               {"ATOLL_REQUIRE", "memory, cpu"},
                                               {"ATOLL_REQUIRE", ","},
                                               {"ATOLL_MAX_SANDBOXES", "5o"},
                                               {"ATOLL_MAX_SANDBOXES", "0"},
                                               {"ATOLL_MAX_MEMORY_MB", "64G"},
                                               {"ATOLL_MAX_MEMORY_MB_PER_SANDBOX", "15"},
                                               {"ATOLL_MEMORY_RESERVE", "91"},
                                               {"ATOLL_NICE", "1"},
                                               {"ATOLL_AGENTS_FILE", "/no/such/file"},
                                               {"ATOLL_LOG_LEVEL", "loud"},
                                               {"ATOLL_ALLOWED_HOSTS", "https://a.example"},
                                               {"ATOLL_ALLOWED_HOSTS", "a.example,b.example:80"},
                                               {"ATOLL_ALLOWED_ORIGINS", "a.example"},
                                               {"ATOLL_TRUSTED_PROXIES", "10.0.0.0/8,proxy.example"},
                                               {"ATOLL_POOL", "shell=1,shell=2"},
                                               {"ATOLL_EXECUTOR_POOL", "auto"},
                                               {"ATOLL_UNIX_SOCKET_GROUP", "no-such-group"},
                                               {"ATOLL_LIMIT_LOOPBACK", "perhaps"},
                                               {"ATOLL_ALLOW_HOST_NETWORK", "perhaps"}}) {
        const auto parsed = parse({{name, value}});
        INFO(name << '=' << value << ": " << parsed.text);
        CHECK_FALSE(parsed.config);
        CHECK(parsed.exit_code == 2);
        CHECK(parsed.text.starts_with("atolld: " + name + ": "));
        // Help is there all the same.
        CHECK(parse({{name, value}}, {"--help"}).exit_code == 0);
    }
    CHECK(parse({{"ATOLL_MAX_SANDBOXES", "5o"}}).text.find("5o") != std::string::npos);
}

TEST_CASE("A variable sets its flag, alone or as a list, and an empty one sets nothing") {
    const auto parsed = parse({{"ATOLL_REQUIRE", "memory,cpu"},
                               {"ATOLL_MAX_SANDBOXES", "5"},
                               {"ATOLL_NICE", "-3"},
                               {"ATOLL_MEMORY_RESERVE", "7.5"},
                               {"ATOLL_MAX_DISK_MB_PER_SANDBOX", "99"},
                               {"ATOLL_POOL", "shell=1,echo=2"},
                               {"ATOLL_SHARED_UID", "1"},
                               {"ATOLL_MEASURE_LOOP", "false"},
                               {"ATOLL_LIMIT_LOOPBACK", "off"},
                               {"ATOLL_DATA_DIR", "/d/a,b"},
                               {"ATOLL_TURN_LIMIT", ""},
                               {"PREVIEW_DOMAIN", "localhost"}});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(parsed.config->required == std::vector<std::string>{"memory", "cpu"});
    CHECK(parsed.config->max_sandboxes == 5);
    CHECK(parsed.config->nice == -3);
    CHECK(parsed.config->memory_reserve_percent == 7.5);
    CHECK(parsed.config->ceilings.disk_mb == 99U);
    REQUIRE(parsed.config->pool.size() == 2);
    CHECK(parsed.config->pool[1].agent == "echo");
    CHECK(parsed.config->shared_uid);
    CHECK_FALSE(parsed.config->measure_loop);
    CHECK(parsed.config->limits.loopback == atl::http::LoopbackLimits::none);
    CHECK(parsed.config->data_dir == "/d/a,b");
    CHECK(parsed.config->turn_limit_seconds == Config().turn_limit_seconds);
    CHECK(parsed.config->previews);
    CHECK(parse({{"ATOLL_REQUIRE", "uid"}}).config->required == std::vector<std::string>{"uid"});
}

TEST_CASE("Every repeatable flag takes several values from its variable, with commas between them") {
    const auto parsed = parse({{"ATOLL_LISTEN", "127.0.0.1:1,[::1]:1,unix:/tmp/s"},
                               {"ATOLL_ALLOWED_HOSTS", "a.example,[2001:db8::5],2001:db8::6"},
                               {"ATOLL_ALLOWED_ORIGINS", "https://a.example,http://[::1]:5173"},
                               {"ATOLL_TRUSTED_PROXIES", "10.0.0.0/8,unix"},
                               {"ATOLL_HIDE", "/usr/local,/usr/games"},
                               {"ATOLL_SHOW_ETC", "/etc/a,/etc/b"},
                               {"ATOLL_EXECUTOR_POOL", "auto=0,quickjs=1"}});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    using Texts = std::vector<std::string>;
    CHECK(parsed.config->listen == Texts{"127.0.0.1:1", "[::1]:1", "unix:/tmp/s"});
    CHECK(parsed.config->allowed_hosts == Texts{"a.example", "[2001:db8::5]", "[2001:db8::6]"});
    CHECK(parsed.config->allowed_origins == Texts{"https://a.example", "http://[::1]:5173"});
    CHECK(parsed.config->trusted_proxies.contains(atl::http::parse_address("10.1.2.3")));
    CHECK(parsed.config->trusted_proxies.contains(std::nullopt));
    CHECK(parsed.config->hidden_paths == Texts{"/usr/local", "/usr/games"});
    CHECK(parsed.config->shown_etc == Texts{"/etc/a", "/etc/b"});
    CHECK(parsed.config->executor_pools->size() == 2);
}

TEST_CASE("A flag splits what cannot hold a comma, and a path with one stays whole") {
    const auto parsed =
        parse({}, {"--allowed-host", "a.example,b.example", "--allowed-host", "c.example", "--allowed-origin",
                   "https://a.example,https://b.example", "--trusted-proxy", "10.0.0.1,unix", "--hide",
                   "/usr/a,b", "--show-etc", "/etc/a,b", "--listen", "unix:/tmp/a,b"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    using Texts = std::vector<std::string>;
    CHECK(parsed.config->allowed_hosts == Texts{"a.example", "b.example", "c.example"});
    CHECK(parsed.config->allowed_origins == Texts{"https://a.example", "https://b.example"});
    CHECK(parsed.config->trusted_proxies.contains(std::nullopt));
    CHECK(parsed.config->hidden_paths == Texts{"/usr/a,b"});
    CHECK(parsed.config->shown_etc == Texts{"/etc/a,b"});
    CHECK(parsed.config->listen == Texts{"unix:/tmp/a,b"});
}

TEST_CASE("The command line wins over the environment, the environment over the file") {
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.toml").string();
    std::ofstream(file) << "max-sandboxes = 9\nturn-limit = 7\nnice = -1\nrequire = [\"uid\"]\n"
                        << "limit-loopback = true\nhide = [\"/usr/a,b\"]\n";
    const auto parsed = parse({{"ATOLL_MAX_SANDBOXES", "11"},
                               {"ATOLL_TURN_LIMIT", "8"},
                               {"ATOLL_REQUIRE", "memory,cpu"},
                               {"ATOLL_LIMIT_LOOPBACK", "false"}},
                              {"--config", file.c_str(), "--turn-limit", "5"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(parsed.config->max_sandboxes == 11);
    CHECK(parsed.config->turn_limit_seconds == 5);
    CHECK(parsed.config->nice == -1);
    CHECK(parsed.config->required == std::vector<std::string>{"memory", "cpu"});
    CHECK(parsed.config->limits.loopback == atl::http::LoopbackLimits::none);
    CHECK(parsed.config->hidden_paths == std::vector<std::string>{"/usr/a,b"});
    // Lists without a value, which would set nothing.
    for (const char* flag :
         {"--require", "--allowed-host", "--allowed-origin", "--trusted-proxy", "--pool"}) {
        CHECK(parse({}, {flag, ","}).exit_code == 2);
        CHECK(parse({}, {flag, ""}).exit_code == 2);
    }
    // A value that is not used is not looked at.
    CHECK(parse({{"ATOLL_TURN_LIMIT", "x"}}, {"--turn-limit", "5"}).config);
}

TEST_CASE("A command's own data directory wins over the variable") {
    const Variables variable{{"ATOLL_DATA_DIR", "/of/variable"}};
    CHECK(parse(variable, {"keys", "list"}).config->data_dir == "/of/variable");
    for (const auto& command :
         std::vector<std::vector<const char*>>{{"keys", "list"}, {"orphans", "list"}, {"backup", "/b"}}) {
        auto arguments = command;
        arguments.insert(arguments.end(), {"--data-dir", "/of/command"});
        const auto parsed = parse(variable, arguments);
        INFO(parsed.text);
        CHECK(parsed.config.value().data_dir == "/of/command");
        arguments.insert(arguments.begin(), {"--data-dir", "/of/server"});
        CHECK(parse(variable, arguments).config.value().data_dir == "/of/command");
    }
}

TEST_CASE("A host is a name or an address, of version 6 with or without brackets") {
    const auto hosts = [](std::vector<const char*> texts) {
        std::vector<const char*> arguments;
        for (const char* text : texts)
            arguments.insert(arguments.end(), {"--allowed-host", text});
        const auto parsed = parse({}, arguments);
        INFO(parsed.text);
        REQUIRE(parsed.config);
        return parsed.config->allowed_hosts;
    };
    using Texts = std::vector<std::string>;
    CHECK(hosts({"[2001:db8::5]"}) == Texts{"[2001:db8::5]"});
    CHECK(hosts({"2001:DB8:0::5"}) == Texts{"[2001:db8::5]"});
    CHECK(hosts({"[2001:db8::5],[2001:db8::6]"}) == Texts{"[2001:db8::5]", "[2001:db8::6]"});
    CHECK(hosts({"[2001:db8::5],a.example", "192.0.2.1"}) ==
          Texts{"[2001:db8::5]", "a.example", "192.0.2.1"});
    CHECK(hosts({"::ffff:192.0.2.1"}) == Texts{"192.0.2.1"});
    for (const char* text : {"", "a.example:80", "[2001:db8::5]:80", "2001:db8::5:x", "fe80::1%eth0", "a b",
                             "https://a.example", "a.example/", "[a.example"}) {
        const auto refused = parse({}, {"--allowed-host", text});
        INFO(text << ": " << refused.text);
        CHECK(refused.exit_code == 2);
        CHECK(refused.text.find("--allowed-host: ") != std::string::npos);
    }
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.toml").string();
    std::ofstream(file) << "allowed-host = [\"2001:db8::5\", \"a.example\"]\n";
    CHECK(parse({}, {"--config", file.c_str()}).config.value().allowed_hosts ==
          Texts{"[2001:db8::5]", "a.example"});
}

}  // namespace variables_test
