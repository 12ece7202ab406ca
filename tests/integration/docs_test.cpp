// The commands that README.md and the quickstart show work as they are written there.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/api_client.hpp"

using namespace atl::test;

namespace {

namespace fs = std::filesystem;

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

/// The blocks of the page that are marked `sh`, one after the other.
std::string commands_of(const fs::path& page) {
    std::ifstream file(fs::path(ATOLL_SOURCE_DIR) / page);
    REQUIRE(file);
    std::string commands;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("```"))
            inside = line == "```sh";
        else if (inside)
            commands += line + '\n';
    }
    return commands;
}

/// Runs the page against this server, in a folder of its own; returns the output.
std::string run_page(const ServerProcess& server, const fs::path& folder, const fs::path& page) {
    std::ofstream(folder / "api-key") << server.key();
    std::string commands = commands_of(page);
    replace_all(commands, "DATA-DIR", folder.string());
    replace_all(commands, "127.0.0.1:4100", server.address());
    std::ofstream(folder / "commands") << "set -euo pipefail\ncd " << folder.string() << "\n" << commands;
    FILE* const shell = ::popen(("bash " + (folder / "commands").string() + " 2>&1").c_str(), "re");
    REQUIRE(shell != nullptr);
    std::string output;
    std::array<char, 4096> chunk{};
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(chunk.data(), 1, chunk.size(), shell);
        output.append(chunk.data(), got);
    }
    const int status = ::pclose(shell);
    INFO(commands << "\nprinted\n" << output);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    return output;
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

std::string text_of(const fs::path& page) {
    std::ostringstream text;
    text << std::ifstream(fs::path(ATOLL_SOURCE_DIR) / page).rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("Every flag of the server is in the pages for operators, with its variable, and no other one is") {
    const std::string help = run_server({"--help"}).output;
    const std::string pages =
        text_of("docs/operations/configuration.md") + text_of("docs/operations/limits-and-capacity.md");
    const std::string table = text_of("docs/operations/configuration.md");
    const std::regex flag("(^|\\n) +(-h,)?(--[a-z-]+)[^\\n]*");
    std::set<std::string> flags;
    for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at) {
        flags.insert((*at)[3]);
        INFO((*at)[0]);
        if ((*at)[3] != "--help")
            CHECK(pages.find("`" + (*at)[3].str()) != std::string::npos);
    }
    CHECK(flags.size() > 50);
    const std::regex row("(\\| |, )`(--[a-z-]+)");
    for (std::sregex_iterator at(table.begin(), table.end(), row), end; at != end; ++at) {
        INFO((*at)[2]);
        CHECK(flags.contains((*at)[2]));
    }
}

TEST_CASE("The walk of README.md works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "README.md");
    INFO(output);
    CHECK(output.find("note") != std::string::npos);
    CHECK(output.find("event: done") != std::string::npos);
    CHECK(output.find("\"turn_complete\"") != std::string::npos);
    CHECK(output.find("problem") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}

TEST_CASE("The quickstart works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "docs/quickstart.md");
    INFO(output);
    CHECK(count_of(output, "event: done") == 2);
    CHECK(output.find("\"filesystem\": \"bubblewrap\"") != std::string::npos);
    CHECK(output.find("paused\n") != std::string::npos);
    CHECK(output.find("hello") != std::string::npos);
    CHECK(output.find("Permission denied") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}
