#include "bridge/adapters/agent_state.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/server_process.hpp"

namespace atl::test::agent_state_test {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("the state of an agent takes the place of whatever lies in its way") {
    const TempDir workspace;
    const adapter::AgentState state(workspace.path().string(), "fake");
    const fs::path folder = state.folder();
    const auto prepare = [&] { return state.prepare({{"config.toml", "a=1"}, {"sub/b", ""}}); };
    SECTION("nothing") {}
    SECTION("a file for the state of all agents") {
        std::ofstream(workspace.path() / ".atoll") << "x";
    }
    SECTION("a dead link for a folder, and a file for another one") {
        fs::create_directories(folder);
        fs::create_directory_symlink("nowhere", folder / "sub");
        CHECK(prepare().empty());
        fs::remove_all(folder / "sub");
        std::ofstream(folder / "sub") << "x";
    }
    SECTION("folders for files") {
        fs::create_directories(folder / "config.toml/deep");
        fs::create_directories(folder / "config.toml.new/deep");
        fs::create_directories(folder / "sub/b");
        fs::create_directories(folder / "atoll-session/deep");
        CHECK(state.take_session().empty());
    }
    CHECK(prepare().empty());
    CHECK(text_in(folder / "config.toml") == "a=1");
    CHECK(fs::is_regular_file(folder / "sub/b"));
    CHECK(state.keep_session("s1").empty());
    CHECK(state.take_session() == "s1");
    CHECK(state.keep_session({}).empty());
    CHECK(state.take_session().empty());
}

TEST_CASE("a session is taken once until it is confirmed") {
    const TempDir workspace;
    const adapter::AgentState state(workspace.path().string(), "fake");
    REQUIRE(state.prepare({}).empty());
    CHECK(state.take_session().empty());
    REQUIRE(state.keep_session("s1").empty());
    CHECK(state.take_session() == "s1");
    state.confirm();
    CHECK(state.take_session() == "s1");
    CHECK(state.take_session().empty());
    REQUIRE(state.keep_session("s2").empty());
    CHECK(state.take_session() == "s2");
    state.confirm();
    REQUIRE(state.keep_session(std::string(adapter::k_max_kept_session_bytes + 1, 's')).empty());
    CHECK(state.take_session().empty());
}

TEST_CASE("a file of an agent's state that has its text already is not written again") {
    const TempDir workspace;
    const adapter::AgentState state(workspace.path().string(), "fake");
    REQUIRE(state.prepare({{"a", "text"}}).empty());
    const fs::path file = state.folder() + "/a";
    // A second name keeps the text that a file replaced.
    fs::create_hard_link(file, workspace.path() / "same");
    REQUIRE(state.prepare({{"a", "text"}}).empty());
    CHECK(fs::hard_link_count(file) == 2);
    REQUIRE(state.prepare({{"a", "text!"}}).empty());
    CHECK(fs::hard_link_count(file) == 1);
    CHECK(text_in(file) == "text!");
    REQUIRE(state.prepare({{"a", "text"}}).empty());
    CHECK(text_in(file) == "text");
}

}  // namespace atl::test::agent_state_test
