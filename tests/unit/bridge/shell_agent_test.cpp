#include "bridge/agents/shell_agent.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fstream>

#include "bridge/guest/spawn.hpp"
#include "core/base/limits.hpp"
#include "guest_process.hpp"

namespace atl::test {
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
    CHECK(good.text == "one\ntwo\nthree\n");
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
    Client client = guest.query("echo started; sleep 1000; echo never");
    CHECK(first_text(client) == "started");
    CHECK(guest.ask(R"({"cmd":"shutdown"})").at("ok") == true);
    CHECK(guest.wait() == 0);
    CHECK(Transcript::of(client.rest()).data("turn_complete").at("signal") == "SIGTERM");
}

}  // namespace atl::test
