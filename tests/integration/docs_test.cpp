// The commands that README.md and the quickstart show work as they are written there.
#include <sys/wait.h>

#include <algorithm>
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

/// cut: the page ends programs before their end.
enum class Pipes : std::uint8_t { whole, cut };

/// Against this server, in a folder of its own; what it printed.
std::string run_page(const ServerProcess& server, const fs::path& folder, const fs::path& page,
                     Pipes pipes = Pipes::whole) {
    std::ofstream(folder / "api-key") << server.key();
    std::string commands = commands_of(page);
    replace_all(commands, "DATA-DIR", folder.string());
    replace_all(commands, "/var/lib/atoll/data", folder.string());
    replace_all(commands, "127.0.0.1:4100", server.address());
    INFO(commands);
    std::ofstream(folder / "commands")
        << (pipes == Pipes::whole ? "set -euo pipefail" : "set -u") << "\ncd " << folder.string() << "\n"
        << commands;
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

/// The numbers and types of the events in streamed text.
std::vector<std::string> events_of(const std::string& text) {
    std::vector<std::string> events;
    const std::regex event("\\{\"seq\":(\\d+),\"type\":\"(\\w+)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), event), end; at != end; ++at)
        events.push_back((*at)[1].str() + " " + (*at)[2].str());
    return events;
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
    const std::string output = run_page(server, folder.path(), "README.md", Pipes::cut);
    INFO(output);
    // What the page shows, each event once and in its order. A slow machine may not come to the end in time.
    const auto shown = events_of(text_of("README.md"));
    const auto printed = events_of(output);
    CHECK(shown.size() == 6);
    REQUIRE(printed.size() >= 3);
    REQUIRE(printed.size() <= shown.size());
    CHECK(std::equal(printed.begin(), printed.end(), shown.begin()));
    CHECK(output.find("problem") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}

TEST_CASE("A server prints the walk of README.md, for its own address and key") {
    const ServerProcess server;
    std::string walk = commands_of("README.md");
    replace_all(walk, "127.0.0.1:4100", server.address());
    replace_all(walk, "$(cat /var/lib/atoll/data/api-key)", "$ATOLL_API_KEY");  // this server has one
    std::istringstream lines(walk);
    std::string indented;
    for (std::string line; std::getline(lines, line);)
        indented += "  " + line + "\n";
    INFO(server.printed() << "\nlacks\n" << indented);
    CHECK(server.printed().find(indented) != std::string::npos);
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
