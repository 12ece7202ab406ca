// The refusals of a start before it makes anything.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "app/check_command.hpp"
#include "app/part_settings.hpp"
#include "tests/support/server_process.hpp"

namespace check_start_test {

using atl::app::Config;

namespace {

Config good_config() {
    Config config;
    config.listen = {"127.0.0.1:0"};
    config.data_dir = "/nosuch/data";
    config.guest = config.helper = config.zygote = config.checker = "/bin/true";
    return config;
}

/// Why a start with this change is refused; empty: it is not.
template <class Change>
std::string refusal(Change change) {
    Config config = good_config();
    change(config);
    const auto checked = atl::app::check_start(config);
    return checked ? "" : checked.error().detail();
}

}  // namespace

TEST_CASE("A start refuses a flag that it could not keep, before it makes anything, and names a command") {
    CHECK(refusal([](Config&) {}).empty());
    const auto has = [](const std::string& text, const std::string& part) {
        INFO(text);
        CHECK(text.find(part) != std::string::npos);
    };
    for (auto program : {&Config::guest, &Config::helper, &Config::zygote, &Config::checker, &Config::bwrap})
        has(refusal([&](Config& config) { config.*program = "/nosuch/program"; }),
            "/nosuch/program cannot be run: No such file or directory (ENOENT)\nFIX: ");
    has(refusal([](Config& config) { config.helper = "/usr"; }), "EISDIR");
    has(refusal([](Config& config) { config.listen = {"4999"}; }),
        "HOST:PORT, [V6]:PORT or unix:PATH.\nFIX: atolld --listen 127.0.0.1:4999 ...");
    has(refusal([](Config& config) { config.preview_listen = "70000"; }),
        "\nFIX: atolld --preview-listen 127.0.0.1:4100 ...");
    has(refusal([](Config& config) { config.listen = {"unix:/nosuch/x"}; }), "\nFIX: mkdir -p /nosuch");
    CHECK(refusal([](Config& config) { config.listen = {"unix:/nosuch/data/x"}; }).empty());
    // No look-up leaves the host for a name with a label that is too long.
    has(refusal([](Config& config) { config.listen = {std::string(70, 'a') + ":4999"}; }),
        "\nFIX: atolld --listen 127.0.0.1:4999 ...");
    has(refusal([](Config& config) { config.pool = {{"shel", 2}}; }), "--pool names shel");
    has(refusal([](Config& config) { config.default_agent = "shel"; }), "--default-agent names shel");
    has(refusal([](Config& config) { config.hidden_paths = {"/home"}; }), "/home");
    has(refusal([](Config& config) { config.shown_etc = {"/root"}; }), "/root");
}

TEST_CASE("A default agent that is not installed is told with the command that installs it") {
    const auto fix = [](const std::string& missing, const std::string& setup) {
        Config config = good_config();
        config.default_agent = "claude";
        std::vector<atl::sandbox::AgentSpec> agents(2);
        agents[1].name = config.default_agent;
        agents[1].missing = missing;
        agents[1].setup = setup;
        return atl::app::default_agent_fix(config, agents);
    };
    CHECK(fix("its folder is not there", "scripts/setup --agents claude") ==
          "\nFIX: scripts/setup --agents claude");
    CHECK(fix("its folder is not there", "").empty());
    CHECK(fix("", "scripts/setup --agents claude").empty());
}

TEST_CASE("A start refuses a log of requests that it cannot write, and makes none") {
    const atl::test::TempDir dir;
    const auto log = dir.path() / "egress.log";
    CHECK(refusal([&](Config& config) { config.egress_log = log; }).empty());
    CHECK_FALSE(std::filesystem::exists(log));
    const std::string told =
        refusal([&](Config& config) { config.egress_log = dir.path() / "none" / "log"; });
    INFO(told);
    CHECK(told.starts_with("--egress-log: open "));
    CHECK(told.ends_with("\nFIX: mkdir -p " + (dir.path() / "none").string()));
}

}  // namespace check_start_test
