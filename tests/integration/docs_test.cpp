// The commands that README.md and the quickstart show work as they are written there.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/api_client.hpp"

namespace docs_test {

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

/// The output of `command` on both streams. Checks its exit status.
std::string output_of(const std::string& command, int exit_status = 0) {
    FILE* const shell = ::popen((command + " 2>&1").c_str(), "re");
    REQUIRE(shell != nullptr);
    std::string output;
    std::array<char, 4096> chunk{};
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(chunk.data(), 1, chunk.size(), shell);
        output.append(chunk.data(), got);
    }
    const int status = ::pclose(shell);
    INFO(command << "\nprinted\n" << output);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == exit_status);
    return output;
}

/// Against this server, in a folder of its own; what it printed.
std::string run_page(const ServerProcess& server, const fs::path& folder, const fs::path& page) {
    std::ofstream(folder / "api-key") << server.key();
    std::string commands = commands_of(page);
    replace_all(commands, "DATA-DIR", folder.string());
    replace_all(commands, "127.0.0.1:4100", server.address());
    INFO(commands);
    std::ofstream(folder / "commands") << "set -euo pipefail\ncd " << folder.string() << "\n" << commands;
    return output_of("bash " + (folder / "commands").string());
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

TEST_CASE("The table of flags is what scripts/docs would write from --help") {
    const std::string script = ATOLL_SOURCE_DIR "/scripts/docs ";
    const std::string program = " " ATOLL_BIN_DIR "/atolld";
    output_of(script + "--check" + program);
    // The positive control: a page with another default is refused, and written as it should be.
    const std::string text = text_of("docs/operations/configuration.md");
    CHECK(count_of(text, "\n| `--") > 50);
    std::string other = text;
    replace_all(other, "| `4096` |", "| `4097` |");
    REQUIRE(other != text);
    const TempDir folder;
    const fs::path page = folder.path() / "page.md";
    std::ofstream(page) << other;
    CHECK(output_of(script + "--check --page " + page.string() + program, 1).find("4097") !=
          std::string::npos);
    output_of(script + "--page " + page.string() + program);
    CHECK(text_of(page) == text);
    std::ofstream(page) << "# A page without marks\n";
    output_of(script + "--page " + page.string() + program, 2);
    output_of(script + "--check /bin/true", 2);
}

TEST_CASE("The pages for operators name no flag in a table that the server does not have") {
    const std::string flags = text_of("docs/operations/configuration.md");
    const std::string page = text_of("docs/operations/limits-and-capacity.md");
    const std::regex row("\\n\\| `(--[a-z-]+)");
    std::size_t count = 0;
    for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++count) {
        INFO((*at)[1]);
        CHECK(flags.find("| `" + (*at)[1].str() + "` |") != std::string::npos);
    }
    CHECK(count > 5);
}

TEST_CASE("The walk of README.md works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "README.md");
    INFO(output);
    CHECK(output.find("note") != std::string::npos);
    CHECK(output.find(R"("type":"done")") != std::string::npos);
    CHECK(output.find("\"turn_complete\"") != std::string::npos);
    CHECK(output.find("problem") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}

TEST_CASE("The quickstart works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "docs/quickstart.md");
    INFO(output);
    CHECK(count_of(output, R"("type":"done")") == 2);
    CHECK(output.find("\"filesystem\": \"bubblewrap\"") != std::string::npos);
    CHECK(output.find("paused\n") != std::string::npos);
    CHECK(output.find("hello") != std::string::npos);
    CHECK(output.find("Permission denied") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}

}  // namespace docs_test
