// Which open files an agent's processes are born with.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/isolation/lab.hpp"

namespace isolation_descriptors_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

const std::set<std::string> k_standard = {"0", "1", "2"};

/// A folder with the probe as an agent, and the file that configures it.
struct ProbeAgent {
    ProbeAgent() {
        const fs::path dir = folder.path() / "agent";
        fs::create_directory(dir);
        fs::permissions(dir, fs::perms(0755));
        fs::copy_file(probe_program(), dir / "probe");
        const Json agent = {{"name", "prober"}, {"argv", {"/agent/probe", "agent"}}, {"dir", dir}};
        std::ofstream(file()) << Json{{"agents", Json::array({agent})}}.dump();
    }
    fs::path file() const { return folder.path() / "agents.json"; }

    TempDir folder;
};

}  // namespace

TEST_CASE("A command of the shell agent has exactly its input, output and error open") {
    Lab& lab = each_lab();
    INFO(lab.name);
    // The control: the probe reports a fourth descriptor if there is one.
    REQUIRE(
        Results(run_outside({"bash", "-c", "exec 7</dev/null; " + probe_program().string() + " descriptors"},
                            ordinary_uid())
                    .output)
            .names()
            .contains("7"));
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"descriptors"});
    CHECK(inside.names() == k_standard);
    CHECK(inside["0"] == "/dev/null");
    CHECK(inside["1"] == "pipe:");
    CHECK(inside["2"] == "pipe:");
    // Beyond 128 KiB a message reaches the shell as a file instead of an argument.
    const std::string padding = "# " + std::string(200'000, 'x') + "\n";
    CHECK(Results(sandbox.output(padding + sandbox.probe_command({"descriptors"}))).names() == k_standard);
    // Not even while other turns' leftovers hold pipes of the guest's.
    sandbox.probe_in_background({"wait"}, "waiting");
    CHECK(sandbox.probe({"descriptors"}).names() == k_standard);
}

TEST_CASE("A configured agent and its children have exactly input, output and error open") {
    for (const Privilege privilege : privileges()) {
        const ProbeAgent agent;
        Lab lab(privilege, {"--agents-file", agent.file()});
        INFO(lab.name);
        const std::string id = lab.api.create({{"agent", "prober"}})["id"];
        const Results inside(lab.api.message(id, "descriptors").output);
        CHECK(inside.names() == k_standard);
        CHECK(inside.others_than({"pipe:", "socket:", "/dev/null"}) == "");
    }
}

}  // namespace isolation_descriptors_test
