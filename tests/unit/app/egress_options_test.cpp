#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "app/config.hpp"
#include "app/sandbox_egress.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace egress_options_test {

using namespace atl::app;
using namespace atl::egress;
using atl::test::TempDir;

namespace {

ParsedConfig parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "atolld");
    return parse_config(static_cast<int>(arguments.size()), arguments.data());
}

bool may_user_list(const ParsedConfig& parsed, const std::string& rule) {
    const std::vector<std::string> texts{rule};
    return parsed.config.value().egress.check(AllowList::parse(texts, SetBy::user_key).value()).has_value();
}

}  // namespace

TEST_CASE("The network egress is off without a flag") {
    const auto parsed = parse({});
    REQUIRE(parsed.config);
    CHECK_FALSE(parsed.config->egress.is_on());
    // The routes of an agent are reason enough for the proxies.
    std::vector<atl::sandbox::AgentSpec> agents(1);
    CHECK_FALSE(needs_egress(*parsed.config, agents));
    agents[0].routes.emplace_back();
    CHECK(needs_egress(*parsed.config, agents));
}

TEST_CASE("Hosts, groups and ranges of egress are read from flags") {
    const auto parsed = parse({"--egress-allow", "*.example.org:443", "--egress-allow", "@npm,b.example",
                               "--egress-group", "npm=registry.example:443,*.cdn.example", "--egress-group",
                               "lan=[fd00::1]:443", "--egress-private", "127.0.0.1/32:8080",
                               "--egress-private", "[fd00::/8]:443", "--egress-allow", "[2001:db8::1]"});
    INFO(parsed.text);
    REQUIRE(parsed.config);
    CHECK(parsed.config->egress.group_names() == std::vector<std::string>{"lan", "npm"});
    CHECK(may_user_list(parsed, "x.example.org:443"));
    CHECK(may_user_list(parsed, "b.example"));
    CHECK(may_user_list(parsed, "@npm"));
    CHECK_FALSE(may_user_list(parsed, "x.example.net"));
    const auto refusal = [&](const char* address, std::uint16_t port) {
        return parsed.config->egress.refusal(boost::asio::ip::make_address(address), port, Reach::ranges, {})
            .has_value();
    };
    CHECK_FALSE(refusal("127.0.0.1", 8080));
    CHECK(refusal("127.0.0.1", 8081));
    CHECK_FALSE(refusal("fd00::1", 443));
}

TEST_CASE("The file of requests of egress is read from a flag") {
    CHECK(parse({}).config.value().egress_log.empty());
    CHECK(parse({"--egress-log", "/var/log/egress.jsonl"}).config.value().egress_log ==
          "/var/log/egress.jsonl");
}

TEST_CASE("Groups of egress are read from the environment and from the file, where commas separate, too") {
    ::setenv("ATOLL_EGRESS_GROUP", "npm=registry.example:443,*.cdn.example,pip=index.example:443", 1);
    ::setenv("ATOLL_EGRESS_ALLOW", "@npm,@pip", 1);
    const auto variables = parse({});
    ::unsetenv("ATOLL_EGRESS_GROUP");
    ::unsetenv("ATOLL_EGRESS_ALLOW");
    INFO(variables.text);
    REQUIRE(variables.config);
    CHECK(may_user_list(variables, "x.cdn.example"));
    CHECK(may_user_list(variables, "index.example:443"));

    const TempDir dir;
    const std::string file = (dir.path() / "atoll.ini").string();
    std::ofstream(file)
        << "egress-group=[\"npm=registry.example:443,*.cdn.example\", \"pip=index.example:443\"]\n"
           "egress-allow=[\"@npm\", \"@pip\"]\n";
    const auto read = parse({"--config", file.c_str()});
    INFO(read.text);
    REQUIRE(read.config);
    CHECK(may_user_list(read, "x.cdn.example"));
    CHECK(may_user_list(read, "index.example:443"));
}

TEST_CASE("A value of egress that is none refuses the start and names its flag") {
    for (const auto& [flag, value] : {std::pair{"--egress-allow", "https://a.example"},
                                      {"--egress-allow", "*.com"},
                                      {"--egress-allow", "@nowhere"},
                                      {"--egress-group", "npm"},
                                      {"--egress-group", "npm=127.1"},
                                      {"--egress-private", "10.0.0.0/8"},
                                      {"--egress-private", "10.0.0.1/8:443"}}) {
        const auto parsed = parse({flag, value});
        INFO(flag << ' ' << value << ": " << parsed.text);
        CHECK_FALSE(parsed.config);
        CHECK(parsed.exit_code == 2);
        CHECK(parsed.text.find(flag) != std::string::npos);
    }
}

}  // namespace egress_options_test
