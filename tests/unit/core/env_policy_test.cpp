#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>

#include "core/sandbox/env_policy.hpp"
#include "tests/support/result_printer.hpp"

namespace env_policy_test {

using namespace atl::sandbox;

TEST_CASE("Only the allow-list of the server's environment is passed on") {
    const std::array<const char*, 6> block = {"AWS_SECRET_ACCESS_KEY=s", "PATH=/bin:/usr/bin", "LD_PRELOAD=x",
                                              "ANTHROPIC_API_KEY=k=v",   "NOEQUALS",           nullptr};
    const Environment picked = pick_host_env(block.data());
    CHECK(picked == Environment{{"PATH", "/bin:/usr/bin"}, {"ANTHROPIC_API_KEY", "k=v"}});
}

TEST_CASE("A request cannot override what the server sets, nor change how programs load") {
    for (const char* name :
         {"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "ASH_SANDBOX_ID", "ATOLL_SANDBOX_ID",
          "ANTHROPIC_API_KEY", "", "1X", "A=B", "A B", "A-B", "\xc3\xa4"}) {
        INFO(name);
        const auto checked = check_env({{name, "x"}});
        REQUIRE_FALSE(checked);
        CHECK(checked.error().code() == atl::base::Errc::invalid_env);
    }
    CHECK(check_env({{"_OK1", "any value = fine\n"}}));
    CHECK(check_env({{"LANG", "de_DE.UTF-8"}}));
    CHECK_FALSE(check_env({{"A", "1"}, {"A", "2"}}));
    CHECK_FALSE(check_env({{"A", std::string("x\0y", 3)}}));
    CHECK_FALSE(check_env({{"A", std::string(40'000, 'x')}}));
    CHECK_FALSE(check_env(Environment(129, {"A", "x"})));
}

TEST_CASE("A sandbox gets the allow-list, the injected variables and its own, and nothing else") {
    Record record;
    record.id = "box";
    record.conversation_id = "conv";
    record.env = {{"MINE", "1"}};
    const Environment env = compose_env({{"PATH", "/bin"}}, record);
    CHECK(env == Environment{{"PATH", "/bin"},
                             {"HOME", "/workspace"},
                             {"ASH_BRIDGE_SOCKET", "/run/atoll/bridge.sock"},
                             {"ASH_AGENT_DIR", "/agent"},
                             {"ASH_WORKSPACE_DIR", "/workspace"},
                             {"ASH_SANDBOX_ID", "box"},
                             {"ASH_SESSION_ID", "conv"},
                             {"ATOLL_BRIDGE_SOCKET", "/run/atoll/bridge.sock"},
                             {"ATOLL_AGENT_DIR", "/agent"},
                             {"ATOLL_WORKSPACE_DIR", "/workspace"},
                             {"ATOLL_SANDBOX_ID", "box"},
                             {"ATOLL_SESSION_ID", "conv"},
                             {"MINE", "1"}});
}

TEST_CASE("The LANG of a request goes before the host's, once") {
    Record record;
    record.env = {{"LANG", "de_DE.UTF-8"}};
    const Environment env = compose_env({{"PATH", "/bin"}, {"LANG", "C.UTF-8"}}, record);
    CHECK(std::ranges::count(env, std::pair<std::string, std::string>("LANG", "de_DE.UTF-8")) == 1);
    CHECK(std::ranges::count(env, std::pair<std::string, std::string>("LANG", "C.UTF-8")) == 0);
}

TEST_CASE("Programs of a sandbox with a way out are told of its proxy, unless the request says else") {
    const auto value_of = [](const Environment& env, std::string_view name) {
        const auto found = std::ranges::find(env, name, &Environment::value_type::first);
        return found == env.end() ? std::string() : found->second;
    };
    Record record;
    CHECK(value_of(compose_env({}, record), "https_proxy").empty());
    record.network = NetworkMode::egress;
    record.env = {{"NO_PROXY", "mine"}};
    const Environment env = compose_env({}, record);
    for (const char* name :
         {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"})
        CHECK(value_of(env, name) == "http://127.0.0.1:3128");
    CHECK(value_of(env, "no_proxy") == "localhost,127.0.0.1,::1");
    CHECK(value_of(env, "NODE_USE_ENV_PROXY") == "1");
    CHECK(std::ranges::count(env, "NO_PROXY", &Environment::value_type::first) == 1);
    CHECK(value_of(env, "NO_PROXY") == "mine");
}

TEST_CASE("A route with the name of an API is found by its clients, and the host's key is not there") {
    const auto value_of = [](const Environment& env, std::string_view name) {
        const auto found = std::ranges::find(env, name, &Environment::value_type::first);
        return found == env.end() ? std::string() : found->second;
    };
    const Environment host{{"ANTHROPIC_API_KEY", "real"}};
    const auto named = [](const std::string& name, const std::string& upstream, bool git = false) {
        EgressRoute route;
        route.name = name;
        route.upstream = upstream;
        route.git = git;
        return route;
    };
    Record record;
    record.network = NetworkMode::egress;
    // Control: without a route the key passes.
    CHECK(value_of(compose_env(host, record), "ANTHROPIC_API_KEY") == "real");
    record.egress.routes = {named("anthropic", "https://api.a.example"),
                            named("code", "https://git.example/x", true)};
    const std::vector<EgressRoute> defaults{named("openai", "https://api.o.example"),
                                            named("gemini", "https://g.example"),
                                            named("code", "https://no.example", true)};
    const Environment env = compose_env(host, record, defaults);
    CHECK(value_of(env, "ANTHROPIC_BASE_URL") == "http://127.0.0.1:3129/anthropic");
    CHECK(value_of(env, "ANTHROPIC_API_KEY") == "set-outside-the-sandbox");
    CHECK(std::ranges::count(env, "ANTHROPIC_API_KEY", &Environment::value_type::first) == 1);
    CHECK(value_of(env, "OPENAI_BASE_URL") == "http://127.0.0.1:3129/openai/v1");
    CHECK(value_of(env, "GOOGLE_GEMINI_BASE_URL") == "http://127.0.0.1:3129/gemini");
    CHECK_FALSE(value_of(env, "GEMINI_API_KEY").empty());
    CHECK(value_of(env, "GIT_CONFIG_COUNT") == "1");
    CHECK(value_of(env, "GIT_CONFIG_KEY_0") == "url.http://127.0.0.1:3129/code/.insteadOf");
    CHECK(value_of(env, "GIT_CONFIG_VALUE_0") == "https://git.example/x/");
    record.egress.routes = {named("openai", "https://api.o.example/v1")};
    CHECK(value_of(compose_env(host, record), "OPENAI_BASE_URL") == "http://127.0.0.1:3129/openai");
    record.env = {{"OPENAI_BASE_URL", "mine"}};
    const Environment asked = compose_env(host, record);
    CHECK(value_of(asked, "OPENAI_BASE_URL") == "mine");
    CHECK(std::ranges::count(asked, "OPENAI_BASE_URL", &Environment::value_type::first) == 1);
    record.network = NetworkMode::none;
    CHECK(value_of(compose_env(host, record), "ANTHROPIC_API_KEY") == "real");
}

TEST_CASE("What programs of a sandbox with a way out install is kept with its workspace, and on their PATH") {
    const Environment host{{"PATH", "/usr/bin:/bin"}};
    Record record;
    CHECK(std::ranges::count(compose_env(host, record), host.front()) == 1);
    record.network = NetworkMode::egress;
    record.env = {{"PIP_BREAK_SYSTEM_PACKAGES", "0"}};
    const Environment env = compose_env(host, record);
    const auto holds = [&](const char* name, const char* value) {
        return std::ranges::count(env, name, &Environment::value_type::first) == 1 &&
               std::ranges::count(env, Environment::value_type(name, value)) == 1;
    };
    CHECK(holds("PATH", "/workspace/.local/bin:/usr/bin:/bin"));
    CHECK(holds("NPM_CONFIG_PREFIX", "/workspace/.local"));
    CHECK(holds("PIP_BREAK_SYSTEM_PACKAGES", "0"));
    for (const char* name : {"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                             "PIP_CERT", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT"})
        CHECK(holds(name, "/atoll/certificates.crt"));
}

TEST_CASE("A sandbox for one program gets none of the host's secrets") {
    const Environment host{{"PATH", "/bin"}, {"ANTHROPIC_API_KEY", "k"}, {"NODE_PATH", "/x"}, {"LANG", "C"}};
    CHECK(compose_bare_env(host) == Environment{{"PATH", "/bin"}, {"LANG", "C"}, {"HOME", "/tmp"}});
}

}  // namespace env_policy_test
