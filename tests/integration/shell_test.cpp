// The agent `shell` over HTTP: what a message finds of the one before it, its two streams, PATH.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/support/api_client.hpp"

namespace shell_test {

using namespace atl::test;

namespace {

/// The text that a turn wrote to `stream`.
std::string text_of(const Turn& turn, const std::string& stream) {
    std::string text;
    for (const auto& event : turn.events)
        if (event["type"] == "text_delta" && event["data"]["stream"] == stream)
            text += event["data"]["delta"].get<std::string>();
    return text;
}

}  // namespace

TEST_CASE("The shell keeps its directory and exported variables until its generation ends") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create({{"env", {{"MINE", "1"}}}})["id"];
    CHECK(api.message(id, "ls -A /run; mkdir sub; cd sub; export A='\u00e9 \"x\"' MINE=2; B=1; exit 3")
              .exit_code == 3);
    const Turn next = api.message(id, "pwd; echo \"$A $MINE${B-}\"; ls -A /run /proc/$$/fd; echo oops >&2");
    CHECK(text_of(next, "stderr") == "oops\n");
    CHECK(text_of(next, "stdout").starts_with("/workspace/sub\n\u00e9 \"x\" 2\n"));
    api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    CHECK(api.message(id, "pwd; echo ${A-none} $MINE").output == "/workspace\nnone 1\n");
}

TEST_CASE("A file that holds the shell's state is gone with its turn") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    for (const std::string script : {"cd /tmp", "exit 1", "kill -9 $$", "exec true"})
        api.message(id, script);
    CHECK(api.message(id, "ls -A /run | wc -l; pwd").output == "2\n/tmp\n");
}

TEST_CASE("A message that is not complete ends as with bash -c, and shows nothing of how it is run") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    api.message(id, "mkdir sub; cd sub; export KEPT=1");
    const std::vector<std::pair<std::string, int>> scripts = {{"x=$(ls", 2},
                                                              {"echo $(", 2},
                                                              {"git commit -m \"$(cat <<'EOF'\nx", 2},
                                                              {"echo a \\", 0},
                                                              {"false \\", 1},
                                                              {"echo 'abc", 2},
                                                              {"echo \"abc", 2},
                                                              {"(( 1", 2},
                                                              {"[[ a", 2},
                                                              {"fi", 2},
                                                              {"if true; then echo", 2},
                                                              {"cat <<EOF\nx", 0},
                                                              {"echo a # comment", 0},
                                                              {"exit 7", 7},
                                                              {"ulimit -f 0; exit 3", 3},
                                                              {"ulimit -f 0", 0}};
    for (const auto& [script, status] : scripts) {
        INFO(script);
        const Turn turn = api.message(id, script);
        CHECK(turn.exit_code == status);
        CHECK(turn.output.find("atoll") == std::string::npos);
        CHECK(turn.output.find("free()") == std::string::npos);
        CHECK(api.message(id, "echo $PWD $KEPT").output == "/workspace/sub 1\n");
    }
}

TEST_CASE("No variable that a message exports keeps the next messages from running") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    for (const std::string script :
         {"echo exit > x; export BASH_ENV=/workspace/x", "set -n; export SHELLOPTS",
          "printf '/\\n\\0SHELLOPTS=noexec\\0\\0' > /run/.atoll-shell-3; exec true",
          "mkfifo fifo; export BASH_ENV=/workspace/fifo", "export POSIXLY_CORRECT=1"}) {
        INFO(script);
        api.message(id, script);
        CHECK(api.message(id, "echo runs").output == "runs\n");
    }
    // A variable that keeps bash itself from starting is forgotten after one message.
    api.message(id,
                "cd /tmp; export LD_PRELOAD=/workspace/none LD_LIBRARY_PATH=/workspace/bad; mkdir -p "
                "/workspace/bad; echo x > /workspace/bad/libc.so.6");
    const Turn lost = api.message(id, "echo lost");
    const Turn next = api.message(id, "pwd; echo again");
    INFO(lost.output);
    CHECK((next.output == "/workspace\nagain\n" || lost.output.find("lost") != std::string::npos));
}

TEST_CASE("PATH inside holds only folders that exist there") {
    ServerOptions options;
    const std::string outside = std::filesystem::temp_directory_path().string();
    options.environment = {{"PATH", outside + ":/usr/local/bin:/root/bin:/usr/bin:/no/such:/bin"}};
    const ServerProcess server(std::move(options));
    ApiClient api(server);
    const std::string id = api.create()["id"];
    CHECK(api.message(id, "echo $PATH").output == "/usr/local/bin:/usr/bin:/bin\n");
    CHECK(api.message(id, "IFS=:; for folder in $PATH; do [ -d \"$folder\" ] || echo $folder; done")
              .output.empty());
}

}  // namespace shell_test
