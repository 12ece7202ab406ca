#include "app/agents_file.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/part_settings.hpp"
#include "bridge/adapters/recipe.hpp"
#include "core/plain/inner_paths.hpp"
#include "tests/bench/sockets.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace agents_file_test {

using atl::app::read_agents;
using atl::sandbox::AgentSpec;
using atl::test::TempDir;
using Json = nlohmann::json;

namespace {

/// An agents file with one agent, whose program is in its folder.
class AgentsFile {
  public:
    AgentsFile() {
        std::filesystem::create_directories(folder_.path() / "bin");
        std::ofstream(folder_.path() / "bin/agent") << "x";
    }
    Json recipe() const {
        return {{"name", "mine"},
                {"adapter", "acp"},
                {"argv", {"/agent/bin/agent", "acp"}},
                {"dir", folder_.path().string()}};
    }
    atl::base::Result<std::vector<AgentSpec>> read(const Json& agent) const {
        const auto file = folder_.path() / "agents.json";
        std::ofstream(file) << Json{{"agents", Json::array({agent})}}.dump();
        return read_agents(file);
    }
    /// Likewise, with a member that is added or replaced.
    atl::base::Result<std::vector<AgentSpec>> read(const char* name, const Json& value) const {
        Json agent = recipe();
        agent[name] = value;
        return read(agent);
    }

  private:
    TempDir folder_;
};

}  // namespace

TEST_CASE("A recipe reaches the adapter as its one argument, and the server keeps what is its own") {
    const AgentsFile file;
    Json agent = file.recipe();
    agent["env"] = {{"A", "1"}};
    agent["files"] = {{"conf/a.toml", "x = 1\n"}};
    agent["mode"] = "yolo";
    agent["permissions"] = "deny";
    agent["permissionTimeoutSeconds"] = 7;
    agent["startTimeoutSeconds"] = 90;
    agent["limits"] = {{"maxProcesses", 256}};
    agent["setup"] = "make it";
    const auto agents = file.read(agent);
    REQUIRE(agents);
    const AgentSpec& spec = agents->back();
    REQUIRE(spec.argv.size() == 2);
    CHECK(spec.argv[0] == atl::base::k_inner_agent);
    const auto recipe = atl::adapter::parse_recipe(spec.argv[1]);
    REQUIRE(recipe.has_value());
    CHECK(recipe->adapter == atl::adapter::Adapter::acp);
    CHECK(recipe->name == "mine");
    CHECK(recipe->mode == "yolo");
    CHECK(recipe->argv == std::vector<std::string>{"/agent/bin/agent", "acp"});
    CHECK(recipe->env == std::vector<std::pair<std::string, std::string>>{{"A", "1"}});
    CHECK(recipe->files == std::vector<std::pair<std::string, std::string>>{{"conf/a.toml", "x = 1\n"}});
    CHECK(spec.adapter == "acp");
    CHECK(spec.permissions == atl::sandbox::PermissionPolicy::deny);
    CHECK(spec.permission_timeout == std::chrono::seconds{7});
    CHECK(spec.start_timeout == std::chrono::seconds{90});
    CHECK(spec.limits.applied_to({}).max_processes == 256U);
    CHECK(spec.setup == "make it");
    CHECK(spec.missing.empty());
    CHECK_FALSE(spec.needs_network);

    const auto plain = file.read(file.recipe());
    REQUIRE(plain);
    CHECK(plain->back().permissions == atl::sandbox::PermissionPolicy::ask);
    CHECK(plain->back().permission_timeout == std::chrono::seconds{300});
    CHECK(plain->back().start_timeout == atl::base::k_start_deadline);
}

TEST_CASE(
    "An agent of the server's own lines has nothing in between, unless its recipe has variables or files") {
    const AgentsFile file;
    const auto plain = file.read("adapter", "lines");
    REQUIRE(plain);
    CHECK(plain->back().argv == std::vector<std::string>{"/agent/bin/agent", "acp"});
    Json agent = file.recipe();
    agent.erase("adapter");
    agent["env"] = {{"A", "1"}};
    const auto with_env = file.read(agent);
    REQUIRE(with_env);
    CHECK(with_env->back().argv.at(0) == atl::base::k_inner_agent);
}

TEST_CASE("An agent that is not installed is there, and says what is missing") {
    const AgentsFile file;
    const auto program = file.read("argv", {"/agent/bin/other"});
    REQUIRE(program);
    CHECK(program->back().missing == "its program /agent/bin/other is not there in its folder");
    const auto in_path = file.read("argv", {"no-program-has-this-name"});
    REQUIRE(in_path);
    CHECK(in_path->back().missing == "its program no-program-has-this-name is not in PATH");
    Json agent = file.recipe();
    agent["dir"] = "/no/such/folder";
    // Without a command that installs it, it is a slip of the operator.
    CHECK(file.read(agent).error().detail().find("/no/such/folder is none") != std::string::npos);
    agent["setup"] = "make it";
    const auto folder = file.read(agent);
    REQUIRE(folder);
    CHECK(folder->back().missing == "its folder is not there");
}

TEST_CASE("Every server has an agent that needs no key, and its name is taken") {
    const auto agents = atl::app::built_in_agents();
    REQUIRE(agents.size() == 3);
    CHECK(agents[2].name == "demo");
    CHECK(agents[2].adapter == "lines");
    CHECK(agents[2].missing.empty());
    CHECK_FALSE(agents[2].needs_network);
    const AgentsFile file;
    const auto other = file.read("name", "demo");
    REQUIRE_FALSE(other);
    CHECK(other.error().detail().find("the name demo is taken") != std::string::npos);
}

TEST_CASE("A server without an agents file lists the agents that come with it, and finds those of setup") {
    const TempDir folder;
    const auto ready_made = atl::app::ready_made_agents(folder.path());
    std::vector<std::string> names;
    for (const AgentSpec& agent : ready_made)
        names.push_back(agent.name);
    CHECK(names == std::vector<std::string>{"shell", "echo", "demo", "claude", "claude-acp", "codex",
                                            "copilot", "gemini", "opencode"});
    CHECK(ready_made.at(3).missing == "its folder is not there");
    CHECK(ready_made.at(3).setup == "scripts/setup --agents claude");
    // An agent that is not installed opens no network.
    CHECK(ready_made.at(3).routes.empty());

    atl::app::Config config;
    config.data_dir = folder.path() / "data";
    config.runners = folder.path() / "build/release/bin/engines";
    const auto install = [](const std::filesystem::path& into, const char* name) {
        std::filesystem::create_directories(into);
        const Json agent{{"name", name}, {"argv", {"sh"}}};
        std::ofstream(into / "agents.json") << Json{{"agents", Json::array({agent})}}.dump();
    };
    std::filesystem::create_directories(config.runners.parent_path());
    install(folder.path() / "build/agents", "of-setup");
    // A host whose root has installed agents has these.
    if (!std::filesystem::exists("/usr/local/lib/atoll/agents/agents.json"))
        CHECK(atl::app::configured_agents(config).value().back().name == "of-setup");
    install(config.data_dir, "of-data");
    CHECK(atl::app::configured_agents(config).value().back().name == "of-data");
    CHECK(atl::app::configured_agents(config).value().size() == 4);
    std::filesystem::remove_all(config.data_dir);
    std::filesystem::remove_all(folder.path() / "build/agents");
    CHECK(atl::app::configured_agents(config).value().size() == names.size());
}

TEST_CASE("The stand-in fails where another program has its port, and imports nothing of the workspace") {
    const atl::bench::LoopbackListener other;
    const TempDir folder;
    const auto agents = atl::app::built_in_agents();
    const auto& argv = agents.at(2).argv;
    REQUIRE(argv.size() == 4);
    std::string program = argv[3];
    const std::string port = "PORT = 5173";
    const auto at = program.find(port);
    REQUIRE(at != std::string::npos);
    program.replace(at, port.size(), "PORT = " + std::to_string(other.port));
    std::ofstream(folder.path() / "program") << program;
    std::ofstream(folder.path() / "json.py") << "raise SystemExit('not the module that was meant')";
    std::ofstream(folder.path() / "lines") << R"({"cmd":"query","turn":"t","prompt":"hello"})" << '\n';
    const std::string command = "cd '" + folder.path().string() + "' && ATOLL_WORKSPACE_DIR=$PWD " + argv[0] +
                                " " + argv[1] + " " + argv[2] + R"-( "$(cat program)" < lines)-";
    FILE* const output = ::popen(command.c_str(), "re");
    REQUIRE(output != nullptr);
    std::string said;
    std::array<char, 4096> buffer{};
    while (const auto count = std::fread(buffer.data(), 1, buffer.size(), output))
        said.append(buffer.data(), count);
    CHECK(::pclose(output) == 0);
    INFO(said);
    CHECK(said.find("another program listens on port " + std::to_string(other.port)) != std::string::npos);
    CHECK(said.find(R"("result": "error")") != std::string::npos);
}

TEST_CASE("A recipe that is wrong stops the start, and its member is named") {
    const AgentsFile file;
    const std::vector<std::pair<const char*, Json>> wrong = {
        {"adapter", "mcp"},
        {"argv", Json::array()},
        {"argv", {"a", 1}},
        {"env", {{"LD_PRELOAD", "x"}}},
        {"env", {{"A=B", "x"}}},
        {"env", {{"A", 1}}},
        {"files", {{"../a", "x"}}},
        {"files", {{"/etc/a", "x"}}},
        {"files", {{"a/./b", "x"}}},
        {"files", {{"a", std::string(100'000, 'x')}}},
        {"mode", 1},
        {"permissions", "maybe"},
        {"permissionTimeoutSeconds", 0},
        {"limits", {{"maxProcesses", "many"}}},
        {"surprise", 1},
    };
    for (const auto& [name, value] : wrong) {
        INFO(name << " " << value.dump().substr(0, 40));
        const auto agents = file.read(name, value);
        REQUIRE_FALSE(agents);
        CHECK(agents.error().detail().find(name) != std::string::npos);
    }
    Json lines = file.recipe();
    lines["adapter"] = "lines";
    lines["mode"] = "yolo";
    CHECK_FALSE(file.read(lines));
}

TEST_CASE("The recipes that come with the server are taken, and are installed by a command") {
    const AgentsFile file;
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(atl::test::source_path("scripts/agents"))) {
        const std::string name = entry.path().stem().string();
        if (entry.path().extension() != ".json" || name.find('.') != std::string::npos)
            continue;
        INFO(name);
        ++count;
        std::ifstream stream(entry.path());
        Json agent = Json::parse(stream);
        agent["dir"] = "/no/such/folder";
        agent["setup"] = "scripts/setup --agents " + name;
        const auto agents = file.read(agent);
        REQUIRE(agents);
        const AgentSpec& spec = agents->back();
        CHECK(spec.name == name);
        CHECK_FALSE(spec.missing.empty());
        CHECK(spec.permissions == atl::sandbox::PermissionPolicy::ask);
        CHECK(spec.limits.applied_to({}).max_processes >= 256U);
        REQUIRE(spec.argv.size() == 2);
        CHECK(atl::adapter::parse_recipe(spec.argv[1]).has_value());
        CHECK(std::filesystem::exists(entry.path().parent_path() / (name + ".package-lock.json")));
    }
    CHECK(count == 6);
}

}  // namespace agents_file_test
