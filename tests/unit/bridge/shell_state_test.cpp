#include "bridge/agents/shell_state.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/limits.hpp"
#include "tests/support/server_process.hpp"

namespace atl::guest::shell_state_test {
namespace {

/// `text` with a NUL for each '|'.
std::string told(std::string text) {
    for (char& c : text)
        if (c == '|')
            c = '\0';
    return text;
}

}  // namespace

TEST_CASE("a shell's state is its directory and its variables, without what each shell makes anew") {
    const auto state = parse_shell_state(
        told("/a b\n\n|A=1|B=x=\ny|_=/bin/env|SHLVL=3|__atoll_status=0|BASH_ENV=/x|SHELLOPTS=noexec|"
             "BASHOPTS=x|POSIXLY_CORRECT=y|PWD=/a|ASH_SESSION_ID=x|C=||"));
    REQUIRE(state.has_value());
    CHECK(state->directory == "/a b\n");
    CHECK(*state->environment == std::vector<std::string>{"A=1", "B=x=\ny", "PWD=/a", "C="});
    CHECK(parse_shell_state(told("/\n||"))->environment->empty());
    CHECK(parse_shell_state(told("/\n|A=1||B=2||old"))->environment->size() == 1);
}

TEST_CASE("what is not of the form of a state is none") {
    const std::string text =
        GENERATE(as<std::string>{}, "", "|", "/a\n", "/a\n|", "/a\n|A=1|", "/a|A=1||", "a\n|A=1||",
                 "/a\n|A||", "/a\n|=1||", "/a\n|1A=1||", "/a\n|A B=1||", "||", "/a\n|A=1|x");
    CAPTURE(text);
    CHECK_FALSE(parse_shell_state(told(text)).has_value());
}

TEST_CASE("a state's file is there as long as its turn, and is read up to a bound") {
    const test::TempDir folder;
    std::string path;
    {
        const auto file = StateFile::make(folder.path().string());
        REQUIRE(file);
        path = file->path();
        ShellState state;
        state.directory = "/before";
        CHECK(file->read(state) == StateFile::Found::not_begun);
        std::ofstream(path) << "x";
        CHECK(file->read(state) == StateFile::Found::nothing);
        CHECK(state.directory == "/before");
        std::ofstream(path) << told("/now\n|A=1||");
        CHECK(file->read(state) == StateFile::Found::state);
        CHECK(state.directory == "/now");
        std::ofstream(path) << told("/big\n|A=" + std::string(base::k_max_shell_state_bytes - 10, 'x') +
                                    "||");
        CHECK(file->read(state) == StateFile::Found::state);
        std::ofstream(path) << told("/big\n|A=" + std::string(base::k_max_shell_state_bytes, 'x') + "||");
        CHECK(file->read(state) == StateFile::Found::too_much);
        const auto other = StateFile::make(folder.path().string());
        REQUIRE(other);
        CHECK(other->path() != path);
    }
    CHECK(std::filesystem::is_empty(folder.path()));
    CHECK(StateFile::make("/there/is/no/such/folder") == nullptr);
}

}  // namespace atl::guest::shell_state_test
