#include "bridge/agents/shell_agent.hpp"

#include "bridge/agents/delta_gather.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "bridge/guest/spawn.hpp"
#include "core/base/limits.hpp"
#include "guest_process.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test::shell_agent_test {
namespace {

constexpr std::string_view k_shell = R"({"kind":"shell"})";
constexpr std::string_view k_replacement = "\xEF\xBF\xBD";

/// The first delta of a turn that says something and then waits.
std::string first_text(Client& client) {
    const auto line = client.line();
    REQUIRE(line.has_value());
    std::string text = nlohmann::json::parse(*line).at("data").at("delta");
    if (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text;
}

}  // namespace

TEST_CASE("a message is run by bash, its output streams, its exit code is the turn's") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const Transcript good = guest.run("echo one; echo two >&2; echo three");
    CHECK(good.names() == "text_delta turn_complete done");
    CHECK(good.text.size() == 14);
    CHECK(good.data("turn_complete") == nlohmann::json{{"result", "success"}, {"exitCode", 0}});
    const Transcript bad = guest.run("exit 3");
    CHECK(bad.data("turn_complete") == nlohmann::json{{"result", "error"}, {"exitCode", 3}});
    const Transcript killed = guest.run("kill -KILL $$");
    CHECK(killed.data("turn_complete") ==
          nlohmann::json{{"result", "error"}, {"exitCode", 137}, {"signal", "SIGKILL"}});
    CHECK(guest.run("--help").data("turn_complete").at("exitCode") == 127);
    CHECK(guest.run("").names() == "turn_complete done");
}

TEST_CASE("a command starts from a clean slate") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    CHECK(guest.run("tr '\\0' '\\n' </proc/$$/environ").text ==
          "PATH=/usr/local/bin:/usr/bin:/bin\nASH_SANDBOX_ID=sandbox1\n");
    CHECK(guest.run("for i in {0..40}; do [ -e /proc/$$/fd/$i ] && echo -n \"$i \"; done").text == "0 1 2 ");
    CHECK(guest.run("readlink /proc/$$/fd/0; pwd").text == "/dev/null\n/tmp\n");
    CHECK(guest.run("grep -E 'Sig(Blk|Ign)' /proc/self/status").text ==
          "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    const std::string ids = guest.run("set -- $(cat /proc/$$/stat); echo $1 $5 $6").text;
    CHECK(ids.substr(0, ids.find(' ')) == ids.substr(ids.find(' ') + 1, ids.find(' ')));
}

TEST_CASE("a message beyond what an argument holds is run the same") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const std::size_t size = GENERATE(guest::k_max_inline_script_bytes - 100,
                                      guest::k_max_inline_script_bytes + 1, base::k_max_body_bytes - 200);
    const std::string script =
        "x='" + std::string(size, 'y') + "'\necho ${#x}\n" +
        "for i in {3..20}; do [ -e /proc/$$/fd/$i ] && echo open $i; done\n" +
        "sh -c 'for i in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$i ] && echo child $i; done'; exit 7";
    const Transcript turn = guest.run(script);
    CHECK(turn.text == std::to_string(size) + "\n");
    CHECK(turn.data("turn_complete").at("exitCode") == 7);
    CHECK(guest.run("export Y=1; : '" + std::string(size, 'y') + "'").text.empty());
    CHECK(guest.run("echo $Y").text == "1\n");
}

TEST_CASE("stdout is told from stderr, each is valid UTF-8 of its own") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const Transcript turn =
        guest.run("printf 'a\\xc3'; printf 'b\\xa9' >&2; printf '\\xa9c'; printf 'd' >&2");
    std::map<std::string, std::string> texts;
    for (const auto& event : turn.events)
        if (event.at("ev") == "text_delta")
            texts[event.at("data").at("stream")] += event.at("data").at("delta").get<std::string>();
    CHECK(texts == std::map<std::string, std::string>{{"stdout",
                                                       "a\xC3\xA9"
                                                       "c"},
                                                      {"stderr", "b" + std::string(k_replacement) + "d"}});
    // The program writes to stderr only after its text on stdout was read.
    const TempDir folder;
    const std::string mark = folder.path().string() + "/mark";
    Client client = guest.query("echo out; while ! [ -e " + mark + " ]; do :; done; echo err >&2");
    CHECK(first_text(client) == "out");
    CHECK(guest.run("echo >" + mark, "other").data("turn_complete").at("exitCode") == 0);
    const Transcript rest = Transcript::of(client.rest());
    CHECK(rest.data("text_delta") == nlohmann::json{{"delta", "err\n"}, {"stream", "stderr"}});
}

TEST_CASE("a message begins in the directory and with the exported variables of the one before it") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const TempDir folder;
    const std::string deep = folder.path().string() + "/a 'b\n c";
    std::filesystem::create_directory(deep);
    std::filesystem::create_directory_symlink(deep, folder.path() / "link");
    guest.run("cd " + folder.path().string() + "/link; export A='x\n\"y\"' B=2; C=3");
    CHECK(guest.run("pwd; echo \"$A$B$C\"; bash -c 'echo $B'").text ==
          folder.path().string() + "/link\nx\n\"y\"2\n2\n");
    CHECK(guest
              .run("cd -P .; [ \"$PWD\" = " + ("$'" + folder.path().string() + "/a \\'b\\n c'") +
                   " ] && unset A && echo ok")
              .text == "ok\n");
    CHECK(guest.run("cd ..; echo ${A-unset}; cd - >/dev/null && pwd | wc -l; declare -p SHLVL").text ==
          "unset\n2\ndeclare -x SHLVL=\"1\"\n");
}

TEST_CASE("a message that calls exit tells its state, one that ends otherwise leaves the last one known") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const auto code = [&](std::string_view script) {
        return guest.run(script).data("turn_complete").at("exitCode").get<int>();
    };
    CHECK(code("export A=1; exit 3") == 3);
    CHECK(guest.run("echo $A").text == "1\n");
    CHECK(code("f() { export A=2; false; exit; }; f") == 1);
    CHECK(guest.run("echo $A; (export A=sub; exit 5); echo $?").text == "2\n5\n");
    CHECK(code("set -e; export A=3; false; true") == 1);
    CHECK(code("export A=3; kill -KILL $$") == 137);
    CHECK(code("export A=3; exec false") == 1);
    CHECK(code("export A=3; builtin exit 4") == 4);
    CHECK(code("export A=3; if") == 2);
    CHECK(guest.run("echo $A").text == "2\n");
    // Options and functions of the message do not get in the way.
    CHECK(code("set -aeufC; set -o pipefail; umask 777; printf() { :; }; IFS=x; export A=4; false || true") ==
          0);
    CHECK(guest.run("echo $A; compgen -e | grep __").text == "4\n");
}

TEST_CASE("neither functions nor what an EXIT trap does are kept for the next message") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    guest.run("trap 'export A=late; cd /' EXIT; export A=1");
    CHECK(guest.run("echo $A; pwd").text == "1\n/tmp\n");
    CHECK(guest.run("trap 'export A=late; cd /' EXIT; export A=2; exit 7")
              .data("turn_complete")
              .at("exitCode") == 7);
    CHECK(guest.run("echo $A; pwd; trap -p").text == "2\n/tmp\n");
    guest.run("f() { :; }; export -f f; export A=3");
    CHECK(guest.run("type -t f; echo $A").text == "3\n");
}

TEST_CASE("keeping the state shows in nothing that a message sees") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    CHECK(guest.run("trap -p; echo $# $0 $LINENO\necho $LINENO; compgen -v | grep -i atoll").text ==
          "0 /bin/bash 1\n2\n");
    CHECK(guest.run("trap 'echo bye $?' EXIT; exit 6").text == "bye 6\n");
    CHECK(guest.run("trap 'echo bye' EXIT; export B=1").text == "bye\n");
    CHECK(guest.run("echo $B; set -x; exit 3").text == "1\n++ exit 3\n");
    CHECK(guest.run("set -x; true").text == "++ true\n");
    CHECK(guest.run("nothing-like-it").text == "/bin/bash: line 1: nothing-like-it: command not found\n");
    CHECK(guest.run("set -o posix; export B=2; exit 7").data("turn_complete").at("exitCode") == 7);
    CHECK(guest.run("export POSIXLY_CORRECT=1").data("turn_complete").at("exitCode") == 0);
    CHECK(guest.run("echo $B; export B=3; unset POSIXLY_CORRECT").text == "1\n");
    CHECK(guest.run("echo $B").text == "3\n");
}

TEST_CASE("what the server set a message changes for itself alone") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const std::string show = "; bash -c 'echo ${ASH_SANDBOX_ID-gone} ${ASH_MINE-none}'";
    CHECK(guest.run("export ASH_SANDBOX_ID=other ASH_MINE=1" + show).text == "other 1\n");
    CHECK(guest.run("unset ASH_SANDBOX_ID" + show).text == "gone 1\n");
    CHECK(guest.run("export -n ASH_SANDBOX_ID" + show).text == "gone 1\n");
    CHECK(guest.run("env | grep -c ^ASH_SANDBOX_ID=sandbox1").text == "1\n");
}

TEST_CASE("a message that writes letter by letter makes few events") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const auto begin = std::chrono::steady_clock::now();
    const Transcript turn = guest.run("for ((i = 0; i < 5000; ++i)); do echo -n x; done");
    const auto took = std::chrono::steady_clock::now() - begin;
    CHECK(turn.text == std::string(5000, 'x'));
    // However slow the machine is: one a window, the first one, and what is left at the end.
    const auto most = took / guest::k_delta_gather + 3;
    CHECK(turn.events.size() - 2 <= static_cast<std::size_t>(most));
}

TEST_CASE("where the directory is gone, a message runs in the workspace and says so") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const TempDir folder;
    const std::string gone = folder.path().string() + "/gone\xFF";
    std::filesystem::create_directory(gone);
    guest.run("export A=1; cd " + folder.path().string() + "/gone*; rmdir \"$PWD\"");
    CHECK(guest.run("pwd; echo $A").text == "shell: cannot enter " + folder.path().string() + "/gone" +
                                                std::string(k_replacement) +
                                                "; this runs in /tmp\n/tmp\n1\n");
    CHECK(guest.run("pwd").text == "/tmp\n");
}

TEST_CASE("more variables than the bound are not kept, and the turn says so") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    guest.run("export A=1");
    const Transcript turn = guest.run(
        "export A=2 B=$(head -c 40000 /dev/zero | tr '\\0' x) C=$(head -c 30000 /dev/zero | tr '\\0' y)");
    CHECK(turn.text.find("more than 65536 bytes") != std::string::npos);
    CHECK(turn.data("turn_complete").at("exitCode") == 0);
    CHECK(guest.run("echo $A${B-}").text == "1\n");
}

TEST_CASE("an abandoned message leaves no state") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    Client client = guest.query("trap 'export A=late; exit' INT; echo $$; while :; do :; done");
    const std::string pid = first_text(client);
    client.close();
    CHECK(guest.run("while kill -0 " + pid + " 2>/dev/null; do :; done; echo ${A-none}").text == "none\n");
    CHECK(guest.run("echo ${A-none}").text == "none\n");
}

TEST_CASE("what cannot be run is an error and done, never silence") {
    const GuestProcess guest(GuestProcess::Space::own, guest::Peers::outside, "/nonexistent");
    const Client control = guest.start(k_shell);
    const Transcript turn = guest.run("echo x");
    CHECK(turn.names() == "error done");
    CHECK(turn.data("error").at("code") == "exec_failed");
    CHECK(turn.data("error").at("message").get<std::string>().find("No such file or directory") !=
          std::string::npos);
    const Transcript nul = guest.run(std::string_view("echo \0x", 7));
    CHECK(nul.names() == "error done");
}

TEST_CASE("output is valid UTF-8 whatever a command writes") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    CHECK(guest.run("printf 'a\\xff\\xc3b\\xe2\\x82'").text ==
          "a" + std::string(k_replacement) + std::string(k_replacement) + "b" + std::string(k_replacement));
    // Pieces of a pipe's size cut three-byte characters at every place.
    std::string expected;
    for (int i = 0; i < 100'000; ++i)
        expected += "\xE2\x82\xAC";
    CHECK(guest.run("yes '\xE2\x82\xAC' | head -100000 | tr -d '\\n'").text == expected);
}

TEST_CASE("an interrupted command ends with SIGINT and says so") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    Client client = guest.query("echo started; exec sleep 1000", "turn9");
    CHECK(first_text(client) == "started");
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"other"})").at("ok") == false);
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"turn9"})").at("ok") == true);
    const Transcript turn = Transcript::of(client.rest());
    CHECK(turn.names() == "turn_complete done");
    CHECK(turn.data("turn_complete") ==
          nlohmann::json{{"result", "interrupted"}, {"exitCode", 130}, {"signal", "SIGINT"}});
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"turn9"})").at("ok") == false);
}

TEST_CASE("a command that ignores SIGINT and SIGTERM is killed, with all of its group") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    Client client = guest.query("trap '' INT TERM; sleep 1000 & echo $!; while :; do wait; done");
    const std::string child = first_text(client);
    CHECK(guest.ask(R"({"cmd":"interrupt","turn":"t1"})").at("ok") == true);
    const Transcript turn = Transcript::of(client.rest());
    CHECK(turn.data("turn_complete") ==
          nlohmann::json{{"result", "interrupted"}, {"exitCode", 137}, {"signal", "SIGKILL"}});
    CHECK(guest.run("while kill -0 " + child + " 2>/dev/null; do :; done; echo gone").text == "gone\n");
}

TEST_CASE("closing the stream cancels the command") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    Client client = guest.query("echo $$; exec sleep 1000");
    const std::string pid = first_text(client);
    client.close();
    CHECK(guest.run("while kill -0 " + pid + " 2>/dev/null; do :; done; echo gone").text == "gone\n");
}

TEST_CASE("the turn ends with the command though something it left holds the pipe, which lives on") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    const Transcript turn = guest.run("yes left & echo $!");
    CHECK(turn.names() == "text_delta turn_complete done");
    const std::size_t digits = turn.text.find_first_of("0123456789");
    REQUIRE(digits != std::string::npos);
    const std::string pid = turn.text.substr(digits, turn.text.find('\n', digits) - digits);
    // It goes on writing: its pipe is read to nowhere.
    CHECK(guest
              .run("w() { sed -n 's/^wchar: //p' /proc/" + pid +
                   "/io; }; a=$(w); while [ \"$(w)\" = \"$a\" ]; do :; done; kill " + pid + " && echo alive")
              .text == "alive\n");
}

TEST_CASE("more pipes held open than the bound cost the oldest one its life, not the guest") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    for (std::size_t i = 0; i < guest::k_max_leftover_pipes + 8; ++i)
        CHECK(guest.run("sleep 1000 & echo ok").text == "ok\n");
}

TEST_CASE("a host that does not read stops the command, not the guest, and loses nothing") {
    const GuestProcess guest;
    const Client control = guest.start(k_shell);
    Client slow = guest.query("head -c 4000000 /dev/zero | tr '\\0' x; echo end", "slow");
    CHECK(guest.run("echo alive", "other").text == "alive\n");
    const Transcript turn = Transcript::of(slow.rest());
    CHECK(turn.text.size() == 4'000'004);
    CHECK(turn.names() == "text_delta turn_complete done");
}

TEST_CASE("a shutdown ends running commands first") {
    GuestProcess guest;
    const Client control = guest.start(k_shell);
    // Said by the child: a shell that forks takes SIGTERM a moment later.
    Client client = guest.query("bash -c 'echo started; exec sleep 1000'; echo never");
    CHECK(first_text(client) == "started");
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(guest.wait() == 0);
    CHECK(Transcript::of(client.rest()).data("turn_complete").at("signal") == "SIGTERM");
}

}  // namespace atl::test::shell_agent_test
