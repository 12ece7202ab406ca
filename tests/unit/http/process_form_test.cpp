// The bodies and frames of processes.
#include "http/api/process_form.hpp"

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace atl::test::process_form_test {
namespace {

using base::Errc;

http::Json parsed(const std::string& text) {
    const auto json = http::parse_json(text);
    REQUIRE(json.has_value());
    return *json;
}

std::string shown(const sandbox::ProcessInfo& process, http::Restart restart = http::Restart::never) {
    std::string out;
    base::JsonWriter json(out);
    http::write_process(json, process, restart);
    return out;
}

}  // namespace

TEST_CASE("a process to start is read with all that it may have") {
    const auto form = http::read_process_form(
        parsed(R"({"argv":["bash","-i"],"cwd":"sub","env":{"A":"1"},"tag":"t","pty":{"cols":100,"rows":40},)"
               R"("timeoutMs":500,"restart":"generation"})"));
    REQUIRE(form.has_value());
    const sandbox::ProcessSpec& spec = form->spec;
    CHECK(spec.program.argv == std::vector<std::string>{"bash", "-i"});
    CHECK(spec.program.directory == "sub");
    CHECK(spec.program.env == sandbox::Environment{{"A", "1"}});
    CHECK(spec.program.timeout == std::chrono::milliseconds(500));
    CHECK(spec.tag == "t");
    CHECK(spec.terminal == sandbox::TerminalSize{100, 40});
    CHECK(form->restart == http::Restart::generation);
    const auto plain = http::read_process_form(parsed(R"({"command":"true"})"));
    REQUIRE(plain.has_value());
    CHECK(plain->spec.program.stdin_kind == sandbox::RunSpec::Stdin::pipe);
    CHECK_FALSE(plain->spec.terminal.has_value());
    CHECK(plain->restart == http::Restart::never);
    const auto closed =
        http::read_process_form(parsed(R"({"command":"true","stdin":"null","restart":"never"})"));
    REQUIRE(closed.has_value());
    CHECK(closed->spec.program.stdin_kind == sandbox::RunSpec::Stdin::none);
    CHECK(closed->restart == http::Restart::never);
}

TEST_CASE("a process of another form is refused") {
    const auto code = [](const std::string& text) {
        return http::read_process_form(parsed(text)).error().code();
    };
    CHECK(code("{}") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","restart":"always"})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","restart":true})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","pty":{"cols":80}})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","pty":{"cols":80,"rows":0}})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","pty":{"cols":80,"rows":4097}})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","pty":{"cols":80,"rows":24,"x":1}})") == Errc::unknown_field);
    CHECK(code(R"({"command":"true","pty":{"cols":80,"rows":24},"stdin":"null"})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","stdin":true})") == Errc::invalid_field);
    CHECK(code(R"({"command":"true","tag":7})") == Errc::invalid_field);
    CHECK(code(R"({"command":")" + std::string(base::k_max_process_spec_bytes + 1, 'x') + "\"}") ==
          Errc::invalid_field);
}

TEST_CASE("signals have names, sizes have both sides") {
    CHECK(http::read_signal_form(parsed(R"({"signal":"SIGTERM"})")).value() == SIGTERM);
    CHECK(http::read_signal_form(parsed(R"({"signal":"SIGWINCH"})")).value() == SIGWINCH);
    CHECK(http::read_signal_form(parsed(R"({"signal":"TERM"})")).value() == SIGTERM);
    for (const char* bad : {"{}", R"({"signal":"SIGSIGTERM"})", R"({"signal":"sigterm"})", R"({"signal":9})"})
        CHECK(http::read_signal_form(parsed(bad)).error().code() == Errc::invalid_field);
    CHECK(http::read_resize_form(parsed(R"({"cols":80,"rows":24})")).value() ==
          sandbox::TerminalSize{80, 24});
    CHECK(http::read_resize_form(parsed(R"({"cols":80})")).error().code() == Errc::invalid_field);
    CHECK(http::read_resize_form(parsed(R"({"cols":80,"rows":24,"x":1})")).error().code() ==
          Errc::unknown_field);
}

TEST_CASE("a client's frame is one of three") {
    using Kind = http::ProcessFrame::Kind;
    CHECK(http::read_process_frame(parsed(R"({"type":"eof"})")).value().kind == Kind::eof);
    const auto signal = http::read_process_frame(parsed(R"({"type":"signal","signal":"SIGINT"})"));
    REQUIRE(signal.has_value());
    CHECK(signal->signal == SIGINT);
    const auto resize = http::read_process_frame(parsed(R"({"type":"resize","cols":1,"rows":2})"));
    REQUIRE(resize.has_value());
    CHECK(resize->size == sandbox::TerminalSize{1, 2});
    for (const char* bad :
         {"{}", "[]", R"({"type":"dance"})", R"({"type":"signal"})", R"({"type":"resize"})"})
        CHECK(http::read_process_frame(parsed(bad)).error().code() == Errc::invalid_field);
    CHECK(http::read_process_frame(parsed(R"({"type":"eof","x":1})")).error().code() == Errc::unknown_field);
}

TEST_CASE("a word of another API is told by its name") {
    const auto told = [](const auto& read, const std::string& text) {
        return read(parsed(text)).error().pointer();
    };
    CHECK(told(http::read_signal_form, R"({"name":"TERM"})") == "/name");
    CHECK(told(http::read_resize_form, R"({"columns":80})") == "/columns");
    CHECK(told(http::read_process_frame, R"({"event":"eof"})") == "/event");
    CHECK(told(http::read_process_frame, R"({"cols":80,"rows":24})") == "/type");
    const auto detail = [](const std::string& text) {
        return http::read_process_form(parsed(text)).error().detail();
    };
    CHECK(detail(R"({"cmd":"ls"})").find("did you mean `command`?") != std::string::npos);
    CHECK(detail(R"({"command":["ls"]})").find("`argv`") != std::string::npos);
    CHECK(detail(R"({"command":"ls","pty":true})").find(R"({"cols": 80, "rows": 24})") != std::string::npos);
}

TEST_CASE("a process is shown with what it is, and with its end once it has one") {
    sandbox::ProcessInfo process;
    process.id = "a";
    process.pid = 7;
    process.command = "ls";
    process.env = {{"SECRET", "x"}};
    process.started = std::chrono::milliseconds(1'700'000'000'000);
    process.first_byte = 3;
    process.end_byte = 9;
    CHECK(
        shown(process) ==
        R"({"processId":"a","pid":7,"tag":null,"command":"ls","cwd":"/workspace","pty":null,"restart":"never",)"
        R"("status":"running","startedAt":"2023-11-14T22:13:20.000Z","firstByte":3,"endByte":9})");
    process.command.reset();
    process.argv = {"ls", "-l"};
    process.tag = "t";
    process.directory = "/tmp";
    process.terminal = {80, 24};
    process.exit = {0, SIGKILL, true};
    CHECK(
        shown(process, http::Restart::generation) ==
        R"({"processId":"a","pid":7,"tag":"t","argv":["ls","-l"],"cwd":"/tmp","pty":{"cols":80,"rows":24},)"
        R"("restart":"generation","status":"ended","startedAt":"2023-11-14T22:13:20.000Z","firstByte":3,"endByte":9,)"
        R"("exitCode":null,"signal":"SIGKILL","timedOut":true})");
}

TEST_CASE("a process that waits for the next generation is shown without a pid and without its environment") {
    sandbox::ProcessSpec spec;
    spec.id = "a";
    spec.program.command = "npm run dev";
    spec.program.env = {{"SECRET", "x"}};
    std::string out;
    base::JsonWriter json(out);
    http::write_stopped(json, spec);
    CHECK(out ==
          R"({"processId":"a","pid":null,"tag":null,"command":"npm run dev","cwd":"/workspace","pty":null,)"
          R"("restart":"generation","status":"stopped","startedAt":null,"firstByte":0,"endByte":0})");
}

}  // namespace atl::test::process_form_test
