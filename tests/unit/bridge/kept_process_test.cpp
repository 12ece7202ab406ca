// Processes of a real guest that outlive the connection that started them.
#include <poll.h>
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bridge/guest/process_table.hpp"
#include "kept_lab.hpp"

namespace atl::test::kept_process_test {
namespace {

using bridge::ExitStatus;
using bridge::FrameType;

/// The output of a terminal without its carriage returns.
std::string without_returns(std::string text) {
    std::erase(text, '\r');
    return text;
}

long anonymous_kb(const GuestProcess& guest) {
    std::ifstream rollup("/proc/" + std::to_string(guest.pid()) + "/smaps_rollup");
    std::string word;
    long kb = 0;
    while (rollup >> word)
        if (word == "Anonymous:")
            rollup >> kb;
    return kb;
}

}  // namespace

TEST_CASE("a process outlives its start, and its output is there from any byte on") {
    const GuestProcess guest;
    const auto reply = start(guest, "a", "printf one; printf two >&2; sleep 0.05; printf three; exit 3");
    CHECK(reply.at("ok") == true);
    CHECK(reply.at("pid").get<int>() > 1);
    REQUIRE(has_ended(guest, "a"));
    for (const std::uint64_t after : {0, 1, 3, 5, 6, 10, 11, 12}) {
        ExecClient client = attach(guest, "a", after);
        CHECK(client.reply.at("pid") == reply.at("pid"));
        CHECK(client.reply.at("from") == std::min<std::uint64_t>(after, 11));
        client.finish();
        CHECK(client.exit == ExitStatus{3, 0, false});
        CHECK(client.output.size() + client.error.size() == (after > 11 ? 0 : 11 - after));
        if (after == 0)
            CHECK(client.output + "|" + client.error == "onethree|two");
    }
}

TEST_CASE("all that follow a process see the same") {
    const GuestProcess guest;
    start(guest, "a", "while read line; do echo \"got $line\"; done; echo over", k_stdin);
    ExecClient one = attach(guest, "a");
    ExecClient two = attach(guest, "a");
    one.write("first\n");
    REQUIRE(one.read_until("got first\n"));
    REQUIRE(two.read_until("got first\n"));
    two.write("second\n");
    two.send(FrameType::input_end);
    one.finish();
    two.finish();
    CHECK(one.output == "got first\ngot second\nover\n");
    CHECK(two.output == one.output);
    CHECK(one.exit == ExitStatus{0, 0, false});
}

TEST_CASE("a connection that goes ends nothing, and what it sent arrives") {
    const GuestProcess guest;
    start(guest, "a", "read line; echo \"got $line\"; read line; echo \"got $line\"", k_stdin);
    for (const std::string_view line : {"one\n", "two\n"}) {
        ExecClient client = attach(guest, "a");
        client.write(line);
        client.close();
    }
    ExecClient client = attach(guest, "a");
    client.finish();
    CHECK(client.output == "got one\ngot two\n");
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("input that a process does not read yet is not lost with its connection") {
    const GuestProcess guest;
    // A pipe takes no more than two thirds of these bytes: the rest waits in the guest.
    constexpr std::size_t many = 3 * base::k_input_window_bytes / 2;
    const Gate gate(guest);
    start(guest, "b",
          "trap 'echo heard' USR1; echo ready; " + gate.script() + "head -c " + std::to_string(many) +
              " | wc -c",
          k_stdin);
    {
        ExecClient client = attach(guest, "b");
        REQUIRE(client.read_until("ready\n"));
        client.write(std::string(many, 'x'));
        // Behind the input: the guest has it.
        client.signal(SIGUSR1);
        REQUIRE(client.read_until("heard\n"));
        client.close();
    }
    REQUIRE_FALSE(find(guest, "b").is_null());
    gate.open();
    ExecClient client = attach(guest, "b");
    client.finish();
    CHECK(client.output == "ready\nheard\n" + std::to_string(many) + "\n");
}

TEST_CASE("raw bytes of all values pass both ways") {
    const GuestProcess guest;
    std::string all;
    for (int value = 0; value < 256; ++value)
        all += static_cast<char>(value);
    start(guest, "a", "tee /dev/stderr", k_stdin);
    ExecClient client = attach(guest, "a");
    client.write(all);
    client.send(FrameType::input_end);
    client.finish();
    CHECK(client.output == all);
    CHECK(client.error == all);
}

TEST_CASE("output that nobody reads is kept up to its bound, and the rest is told as dropped") {
    const GuestProcess guest;
    start(guest, "a", "head -c 3000000 /dev/zero; echo end");
    REQUIRE(has_ended(guest, "a"));
    const auto line = find(guest, "a");
    CHECK(line.at("end") == 3'000'004);
    CHECK(line.at("first") == 3'000'004 - guest::k_kept_output_bytes);
    ExecClient client = attach(guest, "a", 1000);
    client.finish();
    CHECK(client.dropped == 3'000'004 - 1000 - guest::k_kept_output_bytes);
    CHECK(client.output.size() == guest::k_kept_output_bytes);
    CHECK(client.output.ends_with("end\n"));
}

TEST_CASE("who reads gets all of it, however much it is") {
    const GuestProcess guest;
    start(guest, "a", "read go; head -c 30000000 /dev/zero", k_stdin);
    ExecClient client = attach(guest, "a");
    client.write("\n");
    client.finish();
    CHECK(client.output.size() == 30'000'000);
    CHECK(client.dropped == 0);
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("who does not read holds a process up for a bounded time only") {
    const GuestProcess guest;
    start(guest, "a", "read go; head -c 8000000 /dev/zero", k_stdin);
    ExecClient client = attach(guest, "a");
    client.write("\n");
    REQUIRE(has_ended(guest, "a"));
    client.finish();
    CHECK(client.dropped > 0);
    CHECK(client.dropped + client.output.size() == 8'000'000);
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("a list says what was started and how it ended") {
    const GuestProcess guest;
    start(guest, "a", "sleep 1000", ",\"tag\":\"server \\\"1\\\"\",\"cwd\":\"/usr\",\"env\":{\"A\":\"1\"}");
    guest.ask(R"({"cmd":"process","id":"b","argv":["sh","-c","kill -9 $$"]})");
    REQUIRE(has_ended(guest, "b"));
    const auto lines = guest.send("{\"cmd\":\"processes\"}").rest();
    REQUIRE(lines.size() == 3);
    const auto running = nlohmann::json::parse(lines[0]);
    CHECK(running.at("id") == "a");
    CHECK(running.at("tag") == "server \"1\"");
    CHECK(running.at("command") == "sleep 1000");
    CHECK(running.at("cwd") == "/usr");
    CHECK(running.at("env") == nlohmann::json{{"A", "1"}});
    CHECK_FALSE(running.contains("exitCode"));
    const auto ended = nlohmann::json::parse(lines[1]);
    CHECK(ended.at("argv") == nlohmann::json{"sh", "-c", "kill -9 $$"});
    CHECK(ended.at("exitCode") == 0);
    CHECK(ended.at("signal") == SIGKILL);
    CHECK(find(guest, "c").is_null());
}

TEST_CASE("what cannot be asked of a process is refused with its reason") {
    const GuestProcess guest;
    const auto code = [](const nlohmann::json& reply) { return reply.at("code").get<std::string>(); };
    start(guest, "a", "exec sleep 1000");
    CHECK(code(start(guest, "a", "true")) == "invalid");
    CHECK(code(start(guest, "", "true")) == "invalid");
    CHECK(code(start(guest, std::string(65, 'x'), "true")) == "invalid");
    CHECK(code(start(guest, "b", "true", ",\"cwd\":\"/nonexistent\"")) == "cwd");
    CHECK(code(start(guest, "b", "true", ",\"terminal\":{\"columns\":0,\"rows\":1}")) == "invalid");
    CHECK(code(guest.ask(R"({"cmd":"process","id":"b","argv":["/nonexistent"]})")) == "invalid");
    CHECK(code(attach(guest, "b").reply) == "unknown");
    CHECK(code(control(guest, "b", "\"signal\":15")) == "unknown");
    CHECK(code(control(guest, "a", "\"signal\":65")) == "invalid");
    CHECK(code(control(guest, "a", "\"columns\":80,\"rows\":24")) == "invalid");
    CHECK(control(guest, "a", "\"signal\":15").at("ok") == true);
    REQUIRE(has_ended(guest, "a"));
    CHECK(find(guest, "a").at("signal") == SIGTERM);
    CHECK(code(control(guest, "a", "\"signal\":15")) == "ended");
    for (const std::string_view bad : {"\x01\0\0\0\x04\x41", "\x01\0\0\0\x01x"}) {
        start(guest, "c", "exec sleep 1000");
        ExecClient client = attach(guest, "c");
        client.send_raw(std::string(bad.data(), 6));
        client.finish();
        CHECK_FALSE(client.exit.has_value());
    }
    CHECK_FALSE(find(guest, "c").contains("exitCode"));
}

TEST_CASE("a timeout ends the group of a process, by force if need be") {
    const GuestProcess guest;
    const std::string file = "/tmp/atoll-kept-" + std::to_string(guest.pid());
    const auto is_begun = [&file] {
        std::error_code none;
        return std::filesystem::file_size(file, none) > 0 && !none;
    };
    // A timeout that comes before the child has begun is tried again with a longer one.
    for (int timeout_ms = 300; timeout_ms <= 30'000 && !is_begun(); timeout_ms *= 10) {
        const std::string id = "a" + std::to_string(timeout_ms);
        start(guest, id,
              "trap '' TERM; (trap '' TERM; echo $BASHPID > " + file + "; sleep 1000) & wait; wait",
              ",\"timeoutMs\":" + std::to_string(timeout_ms));
        ExecClient client = attach(guest, id);
        client.finish();
        if (is_begun())
            CHECK(client.exit == ExitStatus{0, SIGKILL, true});
    }
    // The child was there, and soon is gone.
    CHECK(eventually([&] {
        return ExecClient(guest, "\"command\":\"kill -0 $(cat " + file + ")\"").finish().exit ==
               ExitStatus{1, 0, false};
    }));
    CHECK(ExecClient(guest, "\"command\":\"test -s " + file + "\"").finish().exit == ExitStatus{0, 0, false});
    std::filesystem::remove(file);
}

TEST_CASE("the number of processes is bounded") {
    const GuestProcess guest;
    const auto id = [](char kind, std::size_t number) { return kind + std::to_string(number); };
    for (std::size_t i = 0; i < base::k_max_running_processes; ++i)
        REQUIRE(start(guest, id('r', i), "exec sleep 1000").at("ok") == true);
    CHECK(start(guest, "more", "exec sleep 1000").at("code") == "busy");
    control(guest, "r0", "\"signal\":9");
    REQUIRE(has_ended(guest, "r0"));
    for (std::size_t i = 0; i <= base::k_max_ended_processes; ++i) {
        REQUIRE(start(guest, id('e', i), "exit 0").at("ok") == true);
        REQUIRE(has_ended(guest, id('e', i)));
    }
    CHECK(guest.send("{\"cmd\":\"processes\"}").rest().size() <=
          base::k_max_running_processes + base::k_max_ended_processes + 1);
}

TEST_CASE("of the processes that have ended, the one that ended first goes first") {
    const GuestProcess guest;
    start(guest, "long", "read line", k_stdin);
    for (std::size_t i = 1; i < base::k_max_ended_processes; ++i) {
        start(guest, "e" + std::to_string(i), "exit 0");
        REQUIRE(has_ended(guest, "e" + std::to_string(i)));
    }
    control(guest, "long", "\"inputEnd\":true");
    REQUIRE(has_ended(guest, "long"));
    start(guest, "last", "exec sleep 1000");
    CHECK(find(guest, "e1").is_null());
    CHECK_FALSE(find(guest, "e2").is_null());
    CHECK_FALSE(find(guest, "long").is_null());
}

TEST_CASE("processes that have ended do not keep others from a start by the length of their commands") {
    const GuestProcess guest;
    const std::string text = "# " + std::string(base::k_max_described_bytes / 4, 'x');
    for (int i = 0; i < 8; ++i) {
        const std::string id = "e" + std::to_string(i);
        REQUIRE(start(guest, id, "exit 0 " + text).at("ok") == true);
        REQUIRE(has_ended(guest, id));
    }
    CHECK(find(guest, "e0").is_null());
    CHECK_FALSE(find(guest, "e7").is_null());
    // Processes that run do keep others from a start.
    for (int i = 0; i < 3; ++i)
        REQUIRE(start(guest, "r" + std::to_string(i), "sleep 1000 " + text).at("ok") == true);
    CHECK(find(guest, "e7").is_null());
    start(guest, "short", "exit 0");
    REQUIRE(has_ended(guest, "short"));
    CHECK(start(guest, "r3", "sleep 1000 " + text).at("code") == "busy");
    // A refused start removes no process that has ended.
    CHECK_FALSE(find(guest, "short").is_null());
}

TEST_CASE("a process in a terminal has it as its controlling terminal") {
    const GuestProcess guest;
    start(guest, "a", "tty; stty size; echo $TERM; read -r line < /dev/tty; echo \"got $line\"", k_terminal);
    ExecClient client = attach(guest, "a");
    CHECK(client.reply.at("terminal") == true);
    REQUIRE(client.read_until("xterm-256color\r\n"));
    client.write("hello\n");
    client.finish();
    const std::string text = without_returns(client.output);
    CHECK(text.starts_with("/dev/pts/"));
    CHECK(text.substr(text.find('\n') + 1) == "40 100\nxterm-256color\nhello\ngot hello\n");
    CHECK(client.error.empty());
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("a shell in a terminal has job control") {
    const GuestProcess guest;
    guest.ask(R"({"cmd":"process","id":"sh","argv":["/bin/bash","--norc","--noprofile","-i"],)"
              R"("env":{"PS1":"$ ","TERM":"dumb"},"terminal":{"columns":80,"rows":24}})");
    ExecClient client = attach(guest, "sh");
    const auto type = [&client](std::string_view text, std::string_view expected) {
        client.output.clear();
        client.write(text);
        CHECK(client.read_until(expected));
    };
    REQUIRE(client.read_until("$ "));
    CHECK(client.output.find("no job control") == std::string::npos);
    // The job itself says that it runs: what the shell says before may come ahead of its change of the
    // foreground group.
    type("sh -c 'echo ready; exec sleep 1000'\n", "ready\r\n");
    type("\x03", "$ ");
    type("echo status=$?\n", "status=130");
    type("sh -c 'echo ready; exec cat'\n", "ready\r\n");
    type("ping\n", "ping\r\nping\r\n");
    type("\x1a", "Stopped");
    type("jobs\n", "Stopped");
    type("bg; echo\n", "cat");
    type("kill %1; wait; echo gone=$(jobs -r | wc -l)\n", "gone=0");
    type("sleep 1001 & jobs -l\n", "Running");
    CHECK(control(guest, "sh", "\"columns\":132,\"rows\":50").at("ok") == true);
    type("stty size\n", "50 132");
    client.send(FrameType::resize, std::string_view("\x28\0\x0a\0", 4));
    type("stty size\n", "10 40");
    type("exit\n", "exit");
    client.finish();
    CHECK(client.exit.has_value());
}

TEST_CASE("a signal reaches the foreground of a terminal") {
    const GuestProcess guest;
    guest.ask(R"({"cmd":"process","id":"sh","argv":["/bin/bash","--norc","--noprofile","-i"],)"
              R"("env":{"PS1":"$ "},"terminal":{"columns":80,"rows":24}})");
    ExecClient client = attach(guest, "sh");
    REQUIRE(client.read_until("$ "));
    client.write("sh -c 'echo ready; exec cat'\n");
    REQUIRE(client.read_until("ready\r\n"));
    client.write("x\n");
    REQUIRE(client.read_until("x\r\nx\r\n"));
    client.output.clear();
    client.signal(SIGINT);
    REQUIRE(client.read_until("$ "));
    client.signal(SIGKILL);
    client.finish();
    CHECK(client.exit == ExitStatus{0, SIGKILL, false});
}

TEST_CASE("a full-screen editor works in a terminal") {
    const bool has_vim = std::filesystem::exists("/usr/bin/vim");
    if (!has_vim && !std::filesystem::exists("/usr/bin/vi"))
        SKIP("neither vim nor vi is installed");
    const GuestProcess guest;
    const std::string file = "/tmp/atoll-editor-" + std::to_string(guest.pid());
    start(guest, "vi", std::string(has_vim ? "vim -u NONE -n " : "vi ") + file, k_terminal);
    ExecClient client = attach(guest, "vi");
    REQUIRE(client.read_until(file.substr(5)));
    client.write("ihello from a terminal\x1b:wq\r");
    client.finish();
    CHECK(client.exit == ExitStatus{0, 0, false});
    std::ifstream written(file);
    CHECK(std::string(std::istreambuf_iterator<char>(written), {}) == "hello from a terminal\n");
    std::filesystem::remove(file);
}

TEST_CASE("much output of a terminal arrives whole") {
    const GuestProcess guest;
    start(guest, "a", "stty raw; read -r go; head -c 4000000 /dev/zero", k_terminal);
    ExecClient client = attach(guest, "a");
    client.write("\n\r");
    client.finish();
    CHECK(std::count(client.output.begin(), client.output.end(), '\0') == 4'000'000);
    CHECK(client.dropped == 0);
}

TEST_CASE("pids are as seen inside, and an ended process is reaped") {
    if (!GuestProcess::can_isolate())
        SKIP("this host allows no pid namespace");
    const GuestProcess guest;
    const auto pid = start(guest, "a", "exec sleep 1000").at("pid").get<int>();
    const std::string probe = "\"command\":\"kill -0 " + std::to_string(pid) + " && echo there\"";
    CHECK(ExecClient(guest, probe).finish().output == "there\n");
    control(guest, "a", "\"signal\":9");
    REQUIRE(has_ended(guest, "a"));
    CHECK(ExecClient(guest, probe).finish().output.empty());
}

TEST_CASE("processes that came and went leave no memory behind but what is kept of them") {
    const GuestProcess guest;
    const long before = anonymous_kb(guest);
    for (int i = 0; i < 20; ++i) {
        const std::string id = "p" + std::to_string(i);
        start(guest, id, "echo x");
        REQUIRE(has_ended(guest, id));
    }
    // 20 small pieces of output, and the allocator's share. A sanitizer keeps what was freed.
#ifndef __SANITIZE_ADDRESS__
    if (checks_bounds())
        CHECK(anonymous_kb(guest) - before < 400);
#else
    CHECK(before > 0);
#endif
}

}  // namespace atl::test::kept_process_test
