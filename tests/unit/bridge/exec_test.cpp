// `exec` of a real guest.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "bridge/guest/exec_command.hpp"
#include "bridge/guest/spawn.hpp"
#include "core/base/limits.hpp"
#include "exec_client.hpp"
#include "tests/support/paths.hpp"

namespace atl::test::bridge_exec_test {
namespace {

using bridge::ExitStatus;
using bridge::FrameType;

std::string command(std::string_view script, std::string_view more = {}) {
    return "\"command\":" + nlohmann::json(script).dump() + std::string(more);
}

constexpr std::string_view k_stdin = ",\"stdin\":true";

std::string contents(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
}

std::string children_of(const GuestProcess& guest) {
    const std::string task = std::to_string(guest.pid());
    return contents("/proc/" + task + "/task/" + task + "/children");
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

std::string random_bytes(std::size_t size) {
    std::mt19937_64 random(7);
    std::string bytes(size, '\0');
    for (char& byte : bytes)
        byte = static_cast<char>(random());
    return bytes;
}

}  // namespace

TEST_CASE("a program's outputs come apart, byte for byte, and its exit behind them") {
    const GuestProcess guest;
    ExecClient run(guest, command("printf 'a\\0b\\377'; printf err >&2; exit 3"));
    CHECK(run.reply.at("ok") == true);
    CHECK(run.reply.at("pid").get<int>() > 1);
    run.finish();
    CHECK(run.output == std::string("a\0b\xff", 4));
    CHECK(run.error == "err");
    CHECK(run.exit == ExitStatus{3, 0, false});
}

TEST_CASE("argv, directory and environment are as asked for") {
    const GuestProcess guest(GuestProcess::Space::own, guest::Peers::outside, "/usr");
    const auto output_of = [&guest](std::string_view members) {
        return ExecClient(guest, members).finish().output;
    };
    CHECK(output_of(R"("argv":["printf","%s|","a b","","$x"])") == "a b||$x|");
    CHECK(output_of(command("pwd; echo $PWD")) == "/usr\n/usr\n");
    CHECK(output_of(command("pwd", R"(,"cwd":"bin/..")")) == "/usr\n");
    CHECK(output_of(command("pwd", R"(,"cwd":"/tmp")")) == "/tmp\n");
    CHECK(output_of(command("echo $ASH_SANDBOX_ID $A $B$PATH",
                            R"(,"env":{"A":"1 2","B":"","PATH":"/bin"})")) == "sandbox1 1 2 /bin\n");
    CHECK(output_of(command("cat; readlink /proc/self/fd/0")) == "/dev/null\n");
    CHECK(output_of(command("ls /proc/self/fd")) == "0\n1\n2\n3\n");
    const std::string long_script =
        "x=" + std::string(guest::k_max_inline_script_bytes, 'x') + "; echo ${#x}";
    CHECK(output_of(command(long_script)) == std::to_string(guest::k_max_inline_script_bytes) + "\n");
}

TEST_CASE("what cannot be run gets one line that says why") {
    const GuestProcess guest;
    const auto refusal = [&guest](std::string_view members, std::string_view code = "invalid") {
        const auto lines = guest.send("{\"cmd\":\"exec\"," + std::string(members) + "}").rest();
        REQUIRE(lines.size() == 1);
        const auto reply = nlohmann::json::parse(lines[0]);
        CHECK(reply.at("ok") == false);
        CHECK(reply.at("code") == code);
        return reply.at("error").get<std::string>();
    };
    CHECK(refusal("\"x\":1") == "exec without a command");
    CHECK(refusal("\"argv\":[]") == "exec without a command");
    CHECK(refusal("\"argv\":[\"\"]") == "exec without a command");
    CHECK(refusal("\"argv\":[1]") == "`argv` is not a list of strings without NUL characters");
    CHECK(refusal("\"argv\":[\"a\\u0000\"]") == "`argv` is not a list of strings without NUL characters");
    CHECK(refusal("\"argv\":[\"true\"],\"command\":\"true\"").find("beside `argv`") != std::string::npos);
    CHECK(refusal("\"command\":\"true\",\"argv\":[\"true\"]") == "`argv` twice, or beside `command`");
    CHECK(refusal("\"command\":\"\\u0000\"").find("NUL") != std::string::npos);
    CHECK(refusal("\"argv\":[\"/nonexistent\"]") ==
          "cannot run /nonexistent in /tmp/: No such file or directory");
    CHECK(refusal(command("true", R"(,"cwd":"/nonexistent")"), "cwd") == "`cwd` is not a directory");
    CHECK(refusal(command("true", R"(,"cwd":"/etc/passwd")"), "cwd") == "`cwd` is not a directory");
    CHECK(refusal(command("true", R"(,"cwd":"\u0000")")) == "`cwd` with a NUL character");
    for (const std::string_view env : {R"({"":"x"})", R"({"A=B":"x"})", R"({"A":1})", R"({"A":"\u0000"})"})
        CHECK(refusal(command("true", ",\"env\":" + std::string(env))).starts_with("`env` is not"));
    CHECK(refusal(command("true", R"(,"timeoutMs":99999999999999999)")) == "`timeoutMs` beyond its bound");
    CHECK(refusal(command("true", R"(,"x":[[[]]])")) == "exec nested too deep");
    CHECK(children_of(guest).empty());
    CHECK(ExecClient(guest, command("echo fine")).finish().output == "fine\n");
}

TEST_CASE("stdin reaches the program up to its end") {
    const GuestProcess guest;
    ExecClient run(guest, command("cat; echo over", k_stdin));
    run.write("one ");
    run.send(FrameType::input);
    run.read_output(4);
    CHECK(run.output == "one ");
    run.write("two ");
    run.send(FrameType::input_end);
    run.finish();
    CHECK(run.output == "one two over\n");
    CHECK(run.exit == ExitStatus{0, 0, false});
}

TEST_CASE("frames may come in one piece with the command line, or byte by byte") {
    const GuestProcess guest;
    std::string text = "{\"cmd\":\"exec\"," + command("cat", k_stdin) + "}\n";
    bridge::append_frame(text, FrameType::input, "early");
    bridge::append_frame(text, FrameType::input_end, {});
    const bool at_once = GENERATE(true, false);
    Client client = guest.connect();
    for (std::size_t at = 0; at < text.size(); at += at_once ? text.size() : 1)
        client.send(text.substr(at, at_once ? text.size() : 1));
    CHECK(client.line()->starts_with("{\"ok\":true"));
    std::string rest;
    while (const auto bytes = client.bytes())
        rest += *bytes;
    CHECK(rest.find("early") != std::string::npos);
    CHECK(rest.ends_with(bridge::encode_exit({})));
}

TEST_CASE("10 MB go through cat and back, whoever is slow, and the guest stays small") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    const GuestProcess guest = GuestProcess::program(test::build_path("bin/atoll-guest"));
    const std::string bytes = random_bytes(10 * 1000 * 1000);
    SECTION("both at full speed") {
        ExecClient run(guest, command("cat", k_stdin));
        for (std::size_t at = 0; at < bytes.size(); at += 100'000) {
            run.write(std::string_view(bytes).substr(at, 100'000));
            pollfd readable{run.fd(), POLLIN, 0};
            while (poll(&readable, 1, 0) == 1 && run.step()) {
            }
        }
        run.send(FrameType::input_end);
        run.finish();
        CHECK((run.output == bytes));
        CHECK(run.exit == ExitStatus{0, 0, false});
    }
    SECTION("a host that does not read until all that fits is written") {
        ExecClient run(guest, command("head -c 10000000 /dev/zero; cat", k_stdin));
        // The program waits in its write, the guest in its queue.
        REQUIRE(eventually([&] { return anonymous_kb(guest) > 256; }));
        if (checks_bounds())
            CHECK(anonymous_kb(guest) < 1024);
        run.send(FrameType::input, "end");
        run.send(FrameType::input_end);
        run.finish();
        CHECK(run.output.size() == 10'000'003);
        CHECK(run.output.ends_with("end"));
    }
    SECTION("a program that does not read until it is told") {
        ExecClient run(
            guest, command("trap go=1 USR1; echo; while [ -z $go ]; do sleep 0.01; done; wc -c", k_stdin));
        run.read_output(1);
        // The guest holds the input that does not fit into the pipe.
        constexpr std::size_t many = 3 * base::k_input_window_bytes / 2;
        run.write(std::string_view(bytes).substr(0, many));
        if (checks_bounds())
            CHECK(anonymous_kb(guest) < 512);
        run.signal(SIGUSR1);
        run.write("x");
        run.send(FrameType::input_end);
        run.finish();
        CHECK(run.output.find(std::to_string(many + 1)) != std::string::npos);
    }
    if (checks_bounds())
        CHECK(eventually([&] { return anonymous_kb(guest) < 200; }));
}

TEST_CASE("a signal reaches the whole group, also past input that nobody reads") {
    const GuestProcess guest;
    ExecClient run(guest, command("sleep 1000 & echo; sleep 1000; echo not here", k_stdin));
    run.read_output(1);
    // More than the pipe takes.
    run.write(std::string(3 * base::k_input_window_bytes / 2, 'x'));
    run.signal(SIGTERM);
    run.finish();
    CHECK(run.output == "\n");
    CHECK(run.exit == ExitStatus{0, SIGTERM, false});
    CHECK(eventually([&] { return children_of(guest).empty(); }));
}

TEST_CASE("closing the connection ends the group, also what ignores SIGTERM") {
    const GuestProcess guest;
    for (const std::string_view script :
         {"sleep 1000 & echo; wait",
          "trap '' TERM; (trap '' TERM; sleep 1000) & echo; while :; do wait; done"}) {
        ExecClient run(guest, command(script));
        run.read_output(1);
        CHECK_FALSE(children_of(guest).empty());
        run.close();
        CHECK(eventually([&] { return children_of(guest).empty(); }));
    }
}

TEST_CASE("a program that takes too long is ended and says so") {
    const GuestProcess guest;
    std::string output;
    // A timeout that comes before the program has begun is tried again with a longer one.
    for (int timeout_ms = 50; timeout_ms <= 50'000 && output.empty(); timeout_ms *= 10) {
        ExecClient run(guest,
                       command("echo begun; sleep 1000", ",\"timeoutMs\":" + std::to_string(timeout_ms)));
        output = run.finish().output;
        CHECK(run.exit == ExitStatus{0, SIGTERM, true});
    }
    CHECK(output == "begun\n");
    ExecClient stubborn(guest, command("trap 'echo no' TERM; sleep 1000; sleep 1000", ",\"timeoutMs\":50"));
    stubborn.finish();
    REQUIRE(stubborn.exit.has_value());
    CHECK(stubborn.exit->timed_out);
    CHECK(ExecClient(guest, command("exit 7", ",\"timeoutMs\":60000")).finish().exit ==
          ExitStatus{7, 0, false});
}

TEST_CASE("a process in the background does not hold up the exit, and lives on") {
    const GuestProcess guest;
    ExecClient run(guest, command("(while echo tick; do sleep 0.01; done) & echo $! >&2; exit 4"));
    run.finish();
    CHECK(run.exit == ExitStatus{4, 0, false});
    const std::string pid = run.error.substr(0, run.error.find('\n'));
    CHECK_FALSE(children_of(guest).empty());
    CHECK(ExecClient(guest, command("kill " + pid)).finish().exit == ExitStatus{0, 0, false});
    CHECK(eventually([&] { return children_of(guest).empty(); }));
}

TEST_CASE(
    "a program that closes its outputs is waited for, and one that closes its input loses nothing else") {
    const GuestProcess guest;
    ExecClient silent(guest, command("exec > /dev/null 2>&1; cat; exit 5", k_stdin));
    silent.send(FrameType::input_end);
    CHECK(silent.finish().exit == ExitStatus{5, 0, false});
    ExecClient deaf(guest, command("exec 0<&-; echo deaf; sleep 0.1; echo done", k_stdin));
    deaf.read_output(5);
    deaf.write(std::string(500'000, 'x'));
    CHECK(deaf.finish().output == "deaf\ndone\n");
}

TEST_CASE("frames that a host may not send end the program") {
    const GuestProcess guest;
    ExecClient run(guest, command("echo; exec sleep 1000", k_stdin));
    run.read_output(1);
    SECTION("a type of the guest's") {
        run.send(FrameType::output, "x");
    }
    SECTION("an unknown type") {
        run.send(static_cast<FrameType>(200));
    }
    SECTION("too long") {
        run.send_raw(std::string("\xff\xff\xff\xff\0", 5));
    }
    SECTION("no such signal") {
        run.signal(0);
    }
    SECTION("no such signal either") {
        run.signal(200);
    }
    SECTION("input behind its end") {
        run.send(FrameType::input_end);
        run.send(FrameType::input, "x");
    }
    SECTION("more input than was granted") {
        try {
            for (int i = 0; i < 3; ++i)
                run.send(FrameType::input, std::string(base::k_input_window_bytes, 'x'));
        } catch (const std::runtime_error&) {
            // The guest closed the stream before it was all sent.
        }
    }
    CHECK_FALSE(run.finish().exit.has_value());
    CHECK(eventually([&] { return children_of(guest).empty(); }));
    CHECK(ExecClient(guest, command("echo fine")).finish().output == "fine\n");
}

// UndefinedBehaviorSanitizer needs a pipe of its own to check a type: without a descriptor it takes good
// objects for bad ones.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a program for which the guest has no descriptors is refused as one too many") {
    const GuestProcess guest;
    CHECK(ExecClient(guest, R"("argv":["true"])").finish().exit == ExitStatus{});
    rlimit before{};
    REQUIRE(prlimit(guest.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
    // The first free one is for the connection, then there is none for the pipes.
    const std::string folder = "/proc/" + std::to_string(guest.pid()) + "/fd/";
    rlimit few = before;
    few.rlim_cur = 1;
    while (std::filesystem::is_symlink(folder + std::to_string(few.rlim_cur - 1)))
        ++few.rlim_cur;
    REQUIRE(prlimit(guest.pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
    const auto reply = ExecClient(guest, R"("argv":["true"])").reply;
    CHECK(reply.at("ok") == false);
    CHECK(reply.at("code") == "busy");
    REQUIRE(prlimit(guest.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
    CHECK(ExecClient(guest, R"("argv":["true"])").finish().exit == ExitStatus{});
}
#endif

TEST_CASE("programs are bounded, and a place is free again after each end") {
    const GuestProcess guest;
    std::vector<std::unique_ptr<ExecClient>> runs;
    for (std::size_t i = 0; i < base::k_max_exec_runs; ++i) {
        runs.push_back(std::make_unique<ExecClient>(guest, R"("argv":["sleep","1000"])"));
        REQUIRE(runs.back()->reply.at("ok") == true);
    }
    const auto reply = ExecClient(guest, R"("argv":["true"])").reply;
    CHECK(reply.at("ok") == false);
    CHECK(reply.at("code") == "busy");
    runs.pop_back();
    CHECK(eventually([&] { return ExecClient(guest, R"("argv":["true"])").reply.at("ok") == true; }));
}

}  // namespace atl::test::bridge_exec_test
