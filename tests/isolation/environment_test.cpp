// The environment of a sandbox's processes.
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/isolation/lab.hpp"

namespace environment_test {

using namespace atl::test;

namespace {

using Variables = std::map<std::string, std::string>;

Variables parse(const std::string& text, char separator) {
    Variables variables;
    std::istringstream stream(text);
    for (std::string entry; std::getline(stream, entry, separator);) {
        const auto equals = entry.find('=');
        REQUIRE(equals != std::string::npos);
        REQUIRE(variables.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second);
    }
    return variables;
}

Variables of_process(pid_t pid) {
    return parse(read_host_file("/proc/" + std::to_string(pid) + "/environ"), '\0');
}

/// The environment at the start of the shell: `env` would also list variables that bash made.
Variables of_shell(Sandbox& sandbox) {
    return parse(sandbox.output("tr '\\0' '\\n' < /proc/$$/environ"), '\n');
}

Variables injected(const Sandbox& sandbox) {
    Variables variables{{"HOME", "/workspace"}};
    for (const std::string prefix : {"ASH_", "ATOLL_"}) {
        variables[prefix + "BRIDGE_SOCKET"] = "/run/atoll/bridge.sock";
        variables[prefix + "AGENT_DIR"] = "/agent";
        variables[prefix + "WORKSPACE_DIR"] = "/workspace";
        variables[prefix + "SANDBOX_ID"] = sandbox.sandbox_id();
        variables[prefix + "SESSION_ID"] = sandbox.id();
    }
    return variables;
}

}  // namespace

TEST_CASE("A sandbox's environment is exactly the allow-list, without the server's secrets") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Variables server = of_process(lab.server.pid());
    for (const auto& [name, value] : secret_variables(lab.services)) {
        INFO(name);
        REQUIRE(server.contains(name));
        REQUIRE(server.at(name).find(k_secret_mark) != std::string::npos);
    }

    Sandbox sandbox(lab, {{"env", {{"ADDED", "by the request"}}}});
    Variables expected = injected(sandbox);
    expected.insert(passed_variables().begin(), passed_variables().end());
    expected["PATH"] = server.at("PATH");
    expected["ADDED"] = "by the request";
    CHECK(of_shell(sandbox) == expected);
    CHECK(sandbox.output("cd \"$ASH_AGENT_DIR\" && pwd") == "/agent");
}

TEST_CASE("A variable that the server does not have is not made up for a sandbox, but for LANG") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const Turn turn = api.message(id, "tr '\\0' '\\n' < /proc/$$/environ | cut -d= -f1");
    CHECK(lines_of(turn.output) ==
          std::set<std::string>{"PATH", "HOME", "ASH_BRIDGE_SOCKET", "ASH_AGENT_DIR", "ASH_WORKSPACE_DIR",
                                "ASH_SANDBOX_ID", "ASH_SESSION_ID", "ATOLL_BRIDGE_SOCKET", "ATOLL_AGENT_DIR",
                                "ATOLL_WORKSPACE_DIR", "ATOLL_SANDBOX_ID", "ATOLL_SESSION_ID", "LANG"});
    // Characters are counted, not bytes.
    constexpr const char* k_count = "text=$(printf '\\303\\244\\303\\244'); echo $LANG ${#text}";
    CHECK(api.message(id, k_count).output == "C.UTF-8 2\n");
    const std::string other = api.create({{"env", {{"LANG", "C"}}}})["id"];
    CHECK(api.message(other, k_count).output == "C 4\n");
}

TEST_CASE("No file of any process inside holds a secret of the server") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab, {{"env", {{"ADDED", "inside-mark"}}}});
    const auto search = [&](const std::string& mark) {
        // The mark is put together inside, or the search would find its own command line.
        const std::string split = mark.substr(0, 3) + "''" + mark.substr(3);
        return sandbox.run(
            "mark=" + split + "; for file in /proc/[0-9]*/{environ,cmdline}; do " +
            "tr '\\0' '\\n' < $file | grep -q \"$mark\" && echo $file; done 2>/dev/null; true");
    };
    CHECK(search("inside-mark").output.find("/environ") != std::string::npos);
    CHECK(search(k_secret_mark).output.empty());
    CHECK(search(lab.server.key()).output.empty());
}

TEST_CASE("A request cannot override what the server sets, nor how programs are loaded") {
    Lab& lab = each_lab();
    INFO(lab.name);
    for (const char* name :
         {"PATH", "HOME", "ASH_SANDBOX_ID", "ANTHROPIC_API_KEY", "LD_PRELOAD", "LD_AUDIT"}) {
        INFO(name);
        const Json request = {{"env", {{name, "x"}}}};
        CHECK(lab.api.call(422, "POST", "/v1/conversations", request.dump())["code"] == "invalid_env");
    }
}

}  // namespace environment_test
