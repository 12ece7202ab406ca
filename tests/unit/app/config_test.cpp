#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>

#include "app/agents_file.hpp"
#include "app/config.hpp"
#include "app/data_dir.hpp"
#include "app/part_settings.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace config_test {

using namespace atl::app;
using atl::test::TempDir;

namespace {

ParsedConfig parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "atolld");
    return parse_config(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("Flags win over the environment, the environment over the config file") {
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.ini").string();
    std::ofstream(file) << "default-agent=\"from-file\"\nturn-limit=7\nmax-sandboxes=9\n";
    ::setenv("ATOLL_MAX_SANDBOXES", "11", 1);
    ::setenv("ATOLL_TURN_LIMIT", "8", 1);
    const auto parsed = parse({"--config", file.c_str(), "--turn-limit", "5"});
    ::unsetenv("ATOLL_MAX_SANDBOXES");
    ::unsetenv("ATOLL_TURN_LIMIT");
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(parsed.config->default_agent == "from-file");
    CHECK(parsed.config->turn_limit_seconds == 5);
}

TEST_CASE("A variable that no flag reads is told, and refuses the start if it is close to one that is read") {
    const auto unread = [](const char* name) {
        ::setenv(name, "1", 1);
        const auto parsed = parse({});
        ::unsetenv(name);
        INFO(name << ": " << parsed.text);
        REQUIRE(parsed.config);
        const auto& all = parsed.config->unread_variables;
        return std::ranges::count(all, "nothing reads the variable " + std::string(name) +
                                           "; atolld --help lists those that are read");
    };
    CHECK(unread("ATOLL_KEY") == 1);
    CHECK(unread("ATOLL_FROBNICATE") == 1);
    // Variables of the clients, of the scripts and of other programs give no warning.
    for (const char* name : {"ATOLL_URL", "ATOLL_BUILD_DIR", "ATOLL_TEST_SEED", "MY_ATOLL_KEY"})
        CHECK(unread(name) == 0);
    ::setenv("ATOLL_LSITEN", "127.0.0.1:1", 1);
    const auto refused = parse({});
    ::unsetenv("ATOLL_LSITEN");
    CHECK(refused.exit_code == 2);
    CHECK(refused.text.find("did you mean ATOLL_LISTEN?") != std::string::npos);
}

TEST_CASE("Every key of a config file is one of a flag, or the start is refused with all that are not") {
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.toml").string();
    const auto with = [&](const std::string& text) {
        std::ofstream(file) << text;
        return parse({"--config", file.c_str()});
    };
    const auto good = with("listen = [\"127.0.0.1:1\", \"unix:/tmp/s\"]\nlimit-loopback = true\n");
    INFO(good.text);
    REQUIRE(good.config);
    CHECK(good.config->listen.size() == 2);
    CHECK(good.config->limits.loopback == atl::http::LoopbackLimits::as_others);
    const auto bad = with("turn-limit = 7\n\nmax_sandboxes = 9\n'lisen' = \"x\"\nzzz = 1\n");
    INFO(bad.text);
    CHECK_FALSE(bad.config);
    CHECK(bad.exit_code == 2);
    CHECK(bad.text.find(file + ":3: there is no key `max_sandboxes`; did you mean `max-sandboxes`?") !=
          std::string::npos);
    CHECK(bad.text.find(file + ":4: there is no key `lisen`; did you mean `listen`?") != std::string::npos);
    CHECK(bad.text.find(file + ":5: there is no key `zzz`\n") != std::string::npos);
    for (const char* text :
         {"[server]\nmax-sandboxes = 9\n", "[keys]\nlabel = \"x\"\n", "[server]\n", "help = true\n",
          "config = \"other\"\n", "max-sandboxes 9\n", "a.max-sandboxes = 9\n"}) {
        const auto refused = with(text);
        INFO(text << refused.text);
        CHECK(refused.exit_code == 2);
        CHECK(refused.text.find(file) != std::string::npos);
    }
    CHECK(parse({"--config", "/no/such/file"}).exit_code == 2);
}

TEST_CASE("A flag with a typing error is refused with the flag that was meant") {
    CHECK(parse({"--max-sandboxs", "3"}).text.find("did you mean --max-sandboxes?") != std::string::npos);
    CHECK(parse({"--lissten=127.0.0.1:1"}).text.find("did you mean --listen?") != std::string::npos);
    CHECK(parse({"--frobnicate"}).text.find("did you mean") == std::string::npos);
    CHECK(parse({"--port", "4999"}).text.find("--listen 127.0.0.1:4100") != std::string::npos);
}

TEST_CASE("A command that lacks something is told with what it takes, and with a command that helps") {
    const std::string keys = parse({"keys"}).text;
    CHECK(keys.find("`atolld keys`") != std::string::npos);
    CHECK(keys.find("(add, list, revoke)") != std::string::npos);
    CHECK(keys.ends_with("\nFIX: atolld keys --help\n"));
    CHECK(parse({"backup"}).text.ends_with("\nFIX: atolld backup --help\n"));
    CHECK(parse({"--pool", "shel"}).text.ends_with("\nFIX: atolld --help\n"));
    const auto config = parse({"--pool", "shel=1"}).config.value();
    CHECK(configured_agents(config).error().detail().starts_with(
        "--pool names shel, which is not configured; did you mean shell? The agents are `shell`, `echo`, "
        "`demo`"));
}

TEST_CASE("A value outside its range is refused with the flag's name") {
    for (const auto& arguments :
         std::vector<std::vector<const char*>>{{"--max-sandboxes", "0"},
                                               {"--turn-limit", "x"},
                                               {"--warm-limit", "-1"},
                                               {"--evict-idle", "soon"},
                                               {"--max-memory-mb", "-1"},
                                               {"--max-memory-mb", "15"},
                                               {"--memory-reserve", "91"},
                                               {"--log-level", "loud"},
                                               {"--max-sockets-per-sandbox", "15"},
                                               {"--default-max-sockets", "15"},
                                               {"--default-max-sockets", "20000"},
                                               {"--max-open-files-per-sandbox", "63"},
                                               {"--default-max-open-files", "63"},
                                               {"--default-memory-mb", "15"},
                                               {"--default-idle-seconds", "-1"},
                                               {"--default-preview-ports", "0"},
                                               {"--default-preview-ports", "3000,3000"},
                                               {"--default-preview-ports", "3128"},
                                               {"--agents-file", "/no/such/file"},
                                               {"--unix-socket-group", "no-such-group"},
                                               {"--preview-domain", "a b"},
                                               {"--preview-domain", "https://preview.example"},
                                               {"--preview-domain", "preview.example."},
                                               {"--preview-pattern", "preview"},
                                               {"--preview-listen", "127.0.0.1:0"},
                                               {"--preview-url", "https://{host}"},
                                               {"--preview-connections", "0"},
                                               {"--preview-connections", "4097"},
                                               {"--heartbeat", "0"},
                                               {"--heartbeat", "30"},
                                               {"--turn-log-bytes", "1"}}) {
        const auto parsed = parse(arguments);
        CHECK_FALSE(parsed.config);
        CHECK(parsed.exit_code == 2);
        CHECK(parsed.text.find(arguments[0]) != std::string::npos);
    }
    for (const char* origin : {"*", "null", "app.example", "https://", "https://app.example/",
                               "https://app.example/path", "https://a.example,b.example", "://x",
                               "ftp://app.example", "chrome-extension://abc", "https://app.example:"}) {
        INFO(origin);
        CHECK(parse({"--allowed-origin", origin}).exit_code == 2);
    }
    CHECK(parse({"--allowed-origin", "https://app.example", "--allowed-origin", "http://[::1]:5173"}).config);
    CHECK(parse({"--preview-domain", "a.example", "--preview-pattern", "{port}-{id}"}).config->previews);
    CHECK_FALSE(parse({"--preview-pattern", "{id}"}).config.value().previews);
    // A sandbox may have half of the connections to all sandboxes.
    CHECK(parse({"--preview-connections", "4096"}).config->preview_connections == 4096);
    CHECK(parse({"--preview-connections", "4097"}).text.find("4096") != std::string::npos);
    CHECK(parse({"--preview-domain", "a.example", "--preview-pattern", "{id}{port}"}).exit_code == 2);
    for (const char* url : {"https://{host}", "http://{host}/", "https://{host}:8443", "https://{host}:1/"}) {
        INFO(url);
        CHECK(parse({"--preview-domain", "a.example", "--preview-url", url}).config);
    }
    for (const char* url :
         {"{host}", "https://a.example", "ftp://{host}", "https://{host}{host}", "https://{host}:0",
          "https://{host}:65536", "https://{host}/path", "https://x.{host}", "https://{host}x"}) {
        INFO(url);
        CHECK(parse({"--preview-domain", "a.example", "--preview-url", url}).exit_code == 2);
    }
    CHECK(parse({"--turn-log-bytes", "100000", "--conversation-log-bytes", "50000"}).exit_code == 2);
    CHECK(parse({"stray"}).exit_code == 2);
}

TEST_CASE("A certificate and its key come together, from wherever they are named") {
    for (const char* alone : {"--tls-cert", "--tls-key"}) {
        const auto parsed = parse({alone, "x.pem"});
        CHECK(parsed.exit_code == 2);
        CHECK(parsed.text.find("--tls-cert") != std::string::npos);
        CHECK(parsed.text.find("--tls-key") != std::string::npos);
    }
    const TempDir dir;
    const std::string file = (dir.path() / "atoll.ini").string();
    std::ofstream(file) << "tls-cert=\"c.pem\"\n";
    ::setenv("ATOLL_TLS_KEY", "k.pem", 1);
    const auto parsed = parse({"--config", file.c_str()});
    ::unsetenv("ATOLL_TLS_KEY");
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(parsed.config->tls_cert == "c.pem");
    CHECK(parsed.config->tls_key == "k.pem");
}

TEST_CASE("Proxies and limits are checked, and the environment takes a list") {
    const auto trusts = [](const ParsedConfig& parsed, const char* address) {
        return parsed.config.value().trusted_proxies.contains(atl::http::parse_address(address));
    };
    const auto parsed =
        parse({"--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "unix", "--requests-per-second-per-key",
               "7", "--max-streams-per-key", "0", "--limit-loopback"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(trusts(parsed, "10.1.2.3"));
    CHECK(trusts(parsed, "unix"));
    CHECK_FALSE(trusts(parsed, "11.1.2.3"));
    CHECK(parsed.config->limits.requests_per_second_per_key == 7);
    CHECK(parsed.config->limits.streams_per_key == 0);
    CHECK(parsed.config->limits.connections_per_address == 256);
    CHECK(parsed.config->limits.loopback == atl::http::LoopbackLimits::as_others);
    CHECK_FALSE(trusts(parse({}), "127.0.0.1"));
    CHECK(parse({}).config->limits.loopback == atl::http::LoopbackLimits::none);

    ::setenv("ATOLL_TRUSTED_PROXIES", "192.0.2.1", 1);
    ::setenv("ATOLL_LIMIT_LOOPBACK", "true", 1);
    const auto from_environment = parse({});
    ::unsetenv("ATOLL_TRUSTED_PROXIES");
    ::unsetenv("ATOLL_LIMIT_LOOPBACK");
    INFO(from_environment.text);
    CHECK(trusts(from_environment, "192.0.2.1"));
    CHECK(from_environment.config->limits.loopback == atl::http::LoopbackLimits::as_others);

    for (const char* proxy : {"", "10.0.0.1/8", "proxy.example", "10.0.0.0/33", "*", "unix:/run/s"}) {
        const auto refused = parse({"--trusted-proxy", proxy});
        INFO(proxy << refused.text);
        CHECK(refused.exit_code == 2);
        CHECK(refused.text.find("--trusted-proxy") != std::string::npos);
    }
    for (const char* flag : {"--max-connections-per-address", "--requests-per-second-per-address",
                             "--failed-logins-per-minute", "--max-streams-per-conversation"}) {
        for (const char* value : {"-1", "x", "1000001"})
            CHECK(parse({flag, value}).exit_code == 2);
        CHECK(parse({flag, "0"}).config);
    }
}

TEST_CASE("Relative data directories are made absolute and --listen may be repeated") {
    const auto parsed =
        parse({"--data-dir", "some/../dir", "--listen", "127.0.0.1:1", "--listen", "unix:/tmp/s"});
    REQUIRE(parsed.config);
    CHECK(parsed.config->data_dir.is_absolute());
    CHECK(parsed.config->data_dir.filename() == "dir");
    CHECK(parsed.config->listen == std::vector<std::string>{"127.0.0.1:1", "unix:/tmp/s"});
}

TEST_CASE("Configured agents come after the built-in ones") {
    const TempDir dir;
    const auto file = dir.path() / "agents.json";
    std::ofstream(file) << R"({"agents":[{"name":"mine","argv":["node","/agent/x.js"],"dir":")"
                        << dir.path().string() << R"("}]})";
    const auto agents = read_agents(file);
    REQUIRE(agents);
    REQUIRE(agents->size() == 4);
    CHECK((*agents)[0].name == "shell");
    CHECK((*agents)[1].name == "echo");
    CHECK(agents->back().argv == std::vector<std::string>{"node", "/agent/x.js"});
    CHECK(agents->back().dir == dir.path());
}

TEST_CASE("Routes of the agents file are for its agents, and may have the value of a variable") {
    const TempDir dir;
    const auto file = dir.path() / "agents.json";
    const auto write = [&](const std::string& routes) {
        std::ofstream(file) << R"({"agents":[{"name":"mine","argv":["sh"],"routes":[)" << routes
                            << R"(]}],"routes":[{"name":"all","upstream":"https://b.example"}]})";
        return read_agents(file);
    };
    const std::string route =
        R"({"name":"m","upstream":"https://a.example","headers":{"x-key":{"env":"ATOLL_TEST_KEY","prefix":"Bearer "}}})";
    ::unsetenv("ATOLL_TEST_KEY");
    auto agents = write(route);
    REQUIRE(agents);
    CHECK(agents->back().routes.size() == 1);
    CHECK_FALSE(agents->back().needs_network);
    CHECK(agents->back().unset == "ATOLL_TEST_KEY");
    ::setenv("ATOLL_TEST_KEY", "k", 1);
    agents = write(route);
    ::unsetenv("ATOLL_TEST_KEY");
    REQUIRE(agents);
    CHECK(agents->at(0).routes.size() == 1);
    CHECK(agents->back().needs_network);
    CHECK(agents->back().unset.empty());
    REQUIRE(agents->back().routes.size() == 2);
    CHECK(agents->back().routes[0].headers.at(0).value == "Bearer k");
    CHECK(agents->back().routes[1].name == "all");
    CHECK_FALSE(write(R"({"name":"m","upstream":"a.example"})"));
}

TEST_CASE("A data directory keeps its identity and its key, and takes one server at a time") {
    const TempDir dir;
    const auto path = dir.path() / "data";
    std::string instance;
    std::string key;
    {
        auto data = DataDir::open(path);
        REQUIRE(data);
        instance = data->instance_id();
        key = data->api_key().value().text;
        CHECK(key.starts_with("atoll_"));
        CHECK(key.size() > 60);
        const auto second = DataDir::open(path);
        REQUIRE_FALSE(second);
        CHECK(second.error().detail().find("in use by another server") != std::string::npos);
        CHECK(second.error().detail().find("\nFIX: atolld --data-dir " + path.string() + "-2") !=
              std::string::npos);
    }
    auto again = DataDir::open(path);
    REQUIRE(again);
    CHECK(again->instance_id() == instance);
    CHECK(again->api_key().value().text == key);
    const auto mode = std::filesystem::status(path).permissions();
    CHECK((mode & (std::filesystem::perms::group_all | std::filesystem::perms::others_all)) ==
          std::filesystem::perms::none);
}

TEST_CASE("A copy of a data directory has an identity of its own, and one that was moved keeps it") {
    const TempDir dir;
    const auto path = dir.path() / "data";
    const auto id_of = [](const std::filesystem::path& folder) {
        return DataDir::open(folder).value().instance_id();
    };
    const std::string instance = id_of(path);
    std::filesystem::copy(path, dir.path() / "copy", std::filesystem::copy_options::recursive);
    const std::string copied = id_of(dir.path() / "copy");
    CHECK(copied != instance);
    CHECK(id_of(dir.path() / "copy") == copied);
    CHECK(id_of(path) == instance);
    std::filesystem::rename(path, dir.path() / "moved");
    CHECK(id_of(dir.path() / "moved") == instance);
    // Older servers wrote the id alone, without the place of the directory.
    std::ofstream(dir.path() / "moved/instance-id") << instance << "\n";
    CHECK(id_of(dir.path() / "moved") == instance);
    std::filesystem::copy(dir.path() / "moved", dir.path() / "later",
                          std::filesystem::copy_options::recursive);
    CHECK(id_of(dir.path() / "later") != instance);
}

TEST_CASE("A key is taken as a client can send it, or refused") {
    using atl::app::usable_key;
    const std::string key = "0123456789abcdef";
    for (const std::string& text : {key, key + "\n", key + "\r\n", " " + key + "\t", "\xef\xbb\xbf" + key})
        CHECK(usable_key(text, "it").value() == key);
    for (const std::string& text : {std::string("0123456789 abcdef"), std::string("0123456789\nabcdef"),
                                    key + "\xc3\xa4", std::string("0123456789abcd \n"), std::string()}) {
        INFO(text);
        const auto refused = usable_key(text, "ATOLL_API_KEY");
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == atl::base::Errc::invalid_field);
        CHECK(refused.error().detail().find("ATOLL_API_KEY") == 0);
    }
    const TempDir dir;
    std::ofstream(dir.path() / "api-key") << key << "\r\n";
    CHECK(DataDir::open(dir.path()).value().api_key().value().text == key);
}

TEST_CASE("LANG inside is the server's own where this host has it and it counts characters, else C.UTF-8") {
    using atl::app::lang_of_sandboxes;
    CHECK(lang_of_sandboxes(nullptr) == "C.UTF-8");
    CHECK(lang_of_sandboxes("") == "C.UTF-8");
    CHECK(lang_of_sandboxes("xx_XX.UTF-8") == "C.UTF-8");
    CHECK(lang_of_sandboxes("../../tmp/locale") == "C.UTF-8");
    CHECK(lang_of_sandboxes("C") == "C.UTF-8");
    CHECK(lang_of_sandboxes("POSIX") == "C.UTF-8");
    CHECK(lang_of_sandboxes("C.UTF-8") == "C.UTF-8");
}

TEST_CASE("The default memory of a sandbox fits into the bound of all and below its ceiling") {
    const auto default_mb = [](const std::vector<const char*>& arguments) {
        return sandbox_settings(parse(arguments).config.value(), "/bin", {}).default_limits.memory_mb;
    };
    CHECK(default_mb({}) == 2048);
    CHECK(default_mb({"--max-memory-mb", "16"}) == 16);
    CHECK(default_mb({"--max-memory-mb", "1024"}) == 1024);
    CHECK(default_mb({"--max-memory-mb", "1024", "--max-memory-mb-per-sandbox", "512"}) == 512);
    CHECK(default_mb({"--max-memory-mb", "1099511627776"}) == 2048);
}

TEST_CASE("A key of the server that a route of an agent sets outside is not inside of sandboxes") {
    ::setenv("ANTHROPIC_API_KEY", "sk-1", 1);
    const auto has_key = [](const std::string& header) {
        atl::sandbox::AgentSpec agent;
        agent.routes = {{"anthropic", "https://api.example.com", {{"x-api-key", header, ""}}, {}, {}, false}};
        const auto env = sandbox_settings({}, "/bin", {atl::sandbox::AgentSpec{}, agent}).host_env;
        return std::ranges::any_of(env, [](const auto& one) { return one.second == "sk-1"; });
    };
    CHECK(has_key("sk-2"));
    CHECK(has_key(""));
    CHECK_FALSE(has_key("sk-1"));
    CHECK_FALSE(has_key("Bearer sk-1"));
    ::unsetenv("ANTHROPIC_API_KEY");
}

TEST_CASE("Each default of a request has a flag, and a default above its ceiling is refused") {
    const auto parsed =
        parse({"--default-memory-mb", "512", "--default-max-processes", "32", "--default-idle-seconds", "900",
               "--default-ttl-seconds", "86400", "--default-preview-ports", "3000,8000"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(sandbox_settings(*parsed.config, "/bin", {}).default_limits.memory_mb == 512);
    CHECK(parsed.config->default_limits.max_processes == 32);
    const auto settings = conversation_settings(*parsed.config, {});
    CHECK(settings.default_idle_seconds == 900);
    CHECK(settings.default_ttl_seconds == 86'400);
    CHECK(settings.default_preview.ports == std::vector<std::uint16_t>{3000, 8000});
    const auto refused = parse({"--default-disk-mb", "512", "--max-disk-mb-per-sandbox", "256"});
    CHECK(refused.exit_code == 2);
    CHECK(refused.text.find("--default-disk-mb") != std::string::npos);
}

TEST_CASE("Ports that no request lists have names only on a server that this machine alone reaches") {
    const auto has_names = [](const std::vector<const char*>& arguments) {
        const auto config = parse(arguments).config.value();
        CHECK(conversation_settings(config, {}).default_preview.any_port == config.port_names.has_value());
        return config.port_names.has_value();
    };
    CHECK(has_names({}));
    // Below `preview.localhost` a page could set cookies for all of them.
    CHECK(parse({}).config->port_names->host_of_port("x", 8000) == "x-8000.localhost");
    CHECK(has_names({"--listen", "localhost:4100", "--listen", "[::1]:4101"}));
    CHECK_FALSE(has_names({"--listen", "0.0.0.0:4100"}));
    CHECK_FALSE(has_names({"--listen", "127.0.0.1:4100", "--listen", "unix:/run/x"}));
    CHECK_FALSE(has_names({"--listen", "127.corp.example:4100"}));
    CHECK(has_names({"--listen", "127.9.0.1:4100"}));
    CHECK_FALSE(has_names({"--preview-domain", "localhost"}));
    CHECK_FALSE(has_names({"--allowed-host", "atoll.example"}));
    CHECK_FALSE(has_names({"--trusted-proxy", "127.0.0.1"}));
}

TEST_CASE("A key that is too short to be one is refused") {
    const TempDir dir;
    std::ofstream(dir.path() / "api-key") << "short\n";
    auto data = DataDir::open(dir.path());
    REQUIRE(data);
    CHECK_FALSE(data->api_key());
    CHECK(data->api_key("0123456789abcde").error().code() == atl::base::Errc::invalid_field);
    const auto given = data->api_key("0123456789abcdef");
    REQUIRE(given);
    CHECK(given->text == "0123456789abcdef");
    CHECK(given->is_given);
    std::filesystem::remove(dir.path() / "api-key");
    const auto made = data->api_key("");
    REQUIRE(made);
    CHECK_FALSE(made->is_given);
}

TEST_CASE("The key that signs tokens is made once, and a broken one is refused") {
    const TempDir dir;
    std::string key;
    {
        auto data = DataDir::open(dir.path());
        REQUIRE(data);
        key = data->token_key().value();
        CHECK(key.size() == 60);
        CHECK(key != data->api_key().value().text);
    }
    auto again = DataDir::open(dir.path());
    REQUIRE(again);
    CHECK(again->token_key().value() == key);
    std::ofstream(dir.path() / "token-key", std::ios::trunc) << "short\n";
    CHECK_FALSE(again->token_key());
}

TEST_CASE("A keys command takes the data directory before or after its name") {
    for (const auto& arguments : std::vector<std::vector<const char*>>{
             {"--data-dir", "/d", "keys", "add", "web", "--user-id", "u"},
             {"keys", "add", "--data-dir", "/d", "--user-id", "u", "web"}}) {
        const auto parsed = parse(arguments);
        INFO(parsed.text);
        REQUIRE(parsed.config);
        REQUIRE(parsed.config->keys);
        CHECK(parsed.config->data_dir == "/d");
        CHECK(parsed.config->keys->action == KeysCommand::Action::add);
        CHECK(parsed.config->keys->label == "web");
        CHECK(parsed.config->keys->user_id == "u");
    }
    CHECK(parse({"keys", "revoke", "x"}).config->keys->id == "x");
    CHECK(parse({"keys", "list"}).config->keys->action == KeysCommand::Action::list);
    CHECK_FALSE(parse({}).config->keys);
    CHECK(parse({"keys"}).exit_code == 2);
    CHECK(parse({"keys", "drop"}).exit_code == 2);
}

TEST_CASE("Orphans and a backup are commands with a data directory, and orphans are never adopted unasked") {
    using Action = OrphansCommand::Action;
    const auto adopted =
        parse({"orphans", "adopt", "x", "--user-id", "u", "--agent", "echo", "--data-dir", "/d"});
    INFO(adopted.text);
    REQUIRE(adopted.config);
    REQUIRE(adopted.config->orphans);
    CHECK(adopted.config->data_dir == "/d");
    CHECK(adopted.config->orphans->action == Action::adopt);
    CHECK(adopted.config->orphans->name == "x");
    CHECK(adopted.config->orphans->user_id == "u");
    CHECK(adopted.config->orphans->agent == "echo");
    CHECK(parse({"orphans", "adopt", "x"}).config->orphans->agent == "shell");
    CHECK(parse({"orphans", "remove", "2026-01-02/x"}).config->orphans->name == "2026-01-02/x");
    CHECK(parse({"orphans", "list"}).config->orphans->action == Action::list);
    CHECK(parse({"backup", "/b", "--data-dir", "/d"}).config->backup->file == "/b");
    for (const auto& wrong : std::vector<std::vector<const char*>>{
             {"orphans"}, {"orphans", "adopt"}, {"orphans", "remove"}, {"backup"}})
        CHECK(parse(wrong).exit_code == 2);
    const auto plain = parse({});
    CHECK_FALSE(plain.config->orphans);
    CHECK_FALSE(plain.config->backup);
    CHECK_FALSE(plain.config->adopt_orphans);
    CHECK(parse({"--adopt-orphans"}).config->adopt_orphans);
    const std::string help = parse({"orphans", "--help"}).text;
    for (const char* word : {"list", "adopt", "remove", "Exit status"})
        CHECK(help.find(word) != std::string::npos);
}

TEST_CASE("Pools are read as AGENT=N, each agent once, and no more than may live") {
    const auto parsed = parse({"--pool", "shell=3", "--pool", "my=agent=0"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    REQUIRE(parsed.config->pool.size() == 2);
    CHECK(parsed.config->pool[0].agent == "shell");
    CHECK(parsed.config->pool[0].size == 3);
    CHECK(parsed.config->pool[1].agent == "my=agent");
    CHECK(parsed.config->pool[1].size == 0);
    for (const auto& arguments :
         std::vector<std::vector<const char*>>{{"--pool", "shell"},
                                               {"--pool", "=3"},
                                               {"--pool", "shell="},
                                               {"--pool", "shell=-1"},
                                               {"--pool", "shell=3x"},
                                               {"--pool", "shell=1025"},
                                               {"--pool", "shell=1,shell=2"},
                                               {"--pool", "shell=9", "--max-sandboxes", "8"}}) {
        const auto refused = parse(arguments);
        INFO(arguments[1]);
        CHECK(refused.exit_code == 2);
        CHECK(refused.text.find("--pool") != std::string::npos);
    }
}

TEST_CASE("Runs of code mode may have no more memory than all sandboxes together") {
    const auto most = [](std::vector<const char*> arguments) {
        const auto parsed = parse(std::move(arguments));
        REQUIRE(parsed.config);
        return execution_settings(*parsed.config).max_memory_mb;
    };
    CHECK(most({}) == atl::base::k_default_max_execution_memory_mb);
    CHECK(most({"--max-memory-mb", "100"}) == 100);
    CHECK(most({"--max-memory-mb", "100", "--execute-max-memory-mb", "96"}) == 96);
    CHECK(most({"--max-memory-mb", "8589934592"}) == atl::base::k_default_max_execution_memory_mb);
    CHECK(most({"--max-memory-mb", "32"}) == atl::base::k_least_execution_memory_mb);
    CHECK(why_no_executions(*parse({"--max-memory-mb", "32"}).config).find("--max-memory-mb is 32") == 0);
    CHECK(why_no_executions(*parse({"--max-memory-mb", "64"}).config).empty());
    CHECK(why_no_executions(*parse({}).config).empty());
}

TEST_CASE("An address of --listen at a port that previews have, too, is told") {
    const auto warned = [](std::vector<const char*> arguments) {
        const auto parsed = parse(std::move(arguments));
        REQUIRE(parsed.config);
        return listen_warning(*parsed.config);
    };
    for (const char* const address : {"127.0.0.1:30000", "[::1]:31234", "localhost:39999"}) {
        const std::string warning = warned({"--listen", "127.0.0.1:4100", "--listen", address});
        CHECK(warning.find("--listen " + std::string(address) + " is a port of the previews") == 0);
        CHECK(warned({"--listen", address, "--preview-domain", "localhost"}).empty());
        CHECK(warned({"--listen", address, "--tls-cert", "c.pem", "--tls-key", "k.pem"}).empty());
    }
    CHECK(warned({}).empty());
    for (const char* const address : {"127.0.0.1:29999", "[::1]:40000", "127.0.0.1:0", "unix:/run/a:30000"})
        CHECK(warned({"--listen", address}).empty());
}

TEST_CASE("The reserve of the disk is gone where it has no more than the cut of a log needs") {
    constexpr std::uint64_t k_mib = 1024UL * 1024;
    const auto left = [](std::uint64_t total_mb, std::uint64_t free_mb) {
        atl::fs_guard::FreeSpace space;
        space.total_bytes = total_mb * k_mib;
        space.free_bytes = free_mb * k_mib;
        return reserve_left(space, 0.0625);
    };
    CHECK(left(1024, 64) == 1);
    CHECK(left(1024, 48) == 0.75);
    CHECK(left(1024, 8) == 0.125);
    CHECK(left(1024, 7) == 0);
    // A small disk keeps half of its reserve.
    CHECK(left(64, 2) == 0.5);
    CHECK(left(64, 1) == 0);
    CHECK(reserve_left(std::nullopt, 0.0625) == 1);
    CHECK(reserve_left(atl::fs_guard::FreeSpace{}, 0) == 1);
}

}  // namespace config_test
