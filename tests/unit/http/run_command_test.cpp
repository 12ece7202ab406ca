// The tool run_command over an operation that the test plays: its arguments, what is kept of its output, and
// its result.
#include "http/api/run_command.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "core/plain/utf8.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/api_server.hpp"
#include "tests/unit/http/played_run.hpp"

namespace run_command_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using base::Error;
using http::HeadAndTail;
using http::Json;
using sandbox::OutputKind;

namespace {

/// The holder of the call, which keeps all that it hears.
struct Told final : sandbox::CallObserver {
    void on_progress(std::string_view json) override { progress = Json::parse(json)["message"]; }
    void on_reply(std::string_view json) override {
        reply = json;
        if (leave)
            leave();
    }
    void on_bytes(std::string_view bytes) override { text += bytes; }
    void on_end() override { has_ended = true; }
    void on_failed(const Error& error) override { failed = error.code(); }

    std::string progress;
    std::string reply;
    std::string text;
    bool has_ended = false;
    std::optional<Errc> failed;
    std::function<void()> leave;
};

struct CommandStage {
    FakeClock clock;
    FakeTimers timers{clock};
    PlayedRun play;
    Told told;

    std::unique_ptr<http::RunCommand> run(const char* args) {
        http::CommandForm form;
        form.context = R"({"toolCallId":"c1"})";
        REQUIRE_FALSE(http::read_command(Json::parse(args), {}, form));
        auto call = std::make_unique<http::RunCommand>(
            std::move(form), base::Share(), play, static_cast<sandbox::CallObserver&>(told), clock, timers);
        play.observer->on_started(7);
        return call;
    }
    void settle() {
        while (timers.run_deferred()) {
        }
    }
    Json result() {
        settle();
        REQUIRE(told.has_ended);
        return Json::parse(told.text);
    }
};

/// The code of the refusal of these arguments; "none": they are taken.
std::string refusal_of(const char* args, http::CommandForm* form = nullptr) {
    http::CommandForm read;
    const auto refused = http::read_command(Json::parse(args), {}, form != nullptr ? *form : read);
    if (!refused)
        return "none";
    const Json result = Json::parse(*refused);
    CHECK(result["success"] == false);
    CHECK_FALSE(result["userFeedback"].get<std::string>().empty());
    return result["technicalDetails"]["errorCode"];
}

std::string text_of(const std::string& all, std::size_t piece_bytes) {
    HeadAndTail output;
    for (std::size_t at = 0; at < all.size(); at += piece_bytes)
        output.take(std::string_view(all).substr(at, piece_bytes));
    return output.text();
}

}  // namespace

TEST_CASE("Of long output the beginning and the end are kept in whole lines, with what is left out between") {
    std::string all;
    for (int i = 1; i <= 400'000; ++i)
        all += std::to_string(i) + "\n";
    const std::string text = text_of(all, 4999);
    CHECK(text.starts_with("1\n2\n3\n"));
    CHECK(text.ends_with("\n399999\n400000\n"));
    CHECK(text.size() < 25'000);
    const std::size_t at = text.find("\n[... ") + 1;
    const std::size_t line_bytes = text.find('\n', at) + 1 - at;
    CHECK(std::stoull(text.substr(at + 5)) + text.size() - line_bytes == all.size());
    for (const std::size_t piece_bytes : {1000UL, 65536UL, all.size()})
        CHECK(text_of(all, piece_bytes) == text);
}

TEST_CASE("Output is cut only beyond its bound, and between characters where it has no lines") {
    const std::string most(HeadAndTail::k_head_bytes + HeadAndTail::k_tail_bytes, 'x');
    CHECK(text_of(most, 10'000) == most);
    CHECK(text_of(most + "y", 10'000).find("bytes left out") != std::string::npos);
    std::string letters = "x";
    for (int i = 0; i < 50'000; ++i)
        letters += "\xC3\xA9";
    const std::string text = text_of(letters + "y", 777);
    CHECK(base::is_utf8(text));
    CHECK(text.find("\xEF\xBF\xBD") == std::string::npos);
    CHECK(text_of("a\xFF"
                  "b",
                  10) ==
          "a\xEF\xBF\xBD"
          "b");
    CHECK(text_of("", 1).empty());
}

TEST_CASE("The arguments of a command are its own, and lead into the workspace") {
    http::CommandForm form;
    CHECK(refusal_of(R"({"command":"ls","cwd":"a/../b","timeoutMs":5,"description":"List"})", &form) ==
          "none");
    CHECK(form.command == "ls");
    CHECK(form.directory == "a/../b");
    CHECK(form.timeout == base::Millis{5});
    CHECK(form.description == "List");
    for (const char* const args :
         {R"({"command":"ls"})", R"({"command":"ls","cwd":"/workspace"})",
          R"({"command":"ls","dir_path":"/workspace/a"})", R"({"command":"ls","directory":"."})",
          R"({"command":"ls","timeout_ms":3600000})"})
        CHECK(refusal_of(args) == "none");
    for (const char* const args :
         {"{}", R"({"command":""})", R"({"command":7})", R"({"command":"a\u0000"})", R"({"cmd":"ls"})",
          R"({"command":"ls","cwd":1})", R"({"command":"ls","cwd":"a","dir_path":"a"})",
          R"({"command":"ls","timeoutMs":0})", R"({"command":"ls","timeoutMs":3600001})",
          R"({"command":"ls","timeoutMs":"5"})", R"({"command":"ls","description":[]})",
          R"({"command":"ls","shell":"zsh"})"}) {
        INFO(args);
        CHECK(refusal_of(args) == "INVALID_ARGUMENTS");
    }
    for (const char* const args :
         {R"({"command":"ls","cwd":"/etc"})", R"({"command":"ls","cwd":".."})",
          R"({"command":"ls","cwd":"a/../../b"})", R"({"command":"ls","cwd":"/workspaces"})",
          R"({"command":"ls","cwd":"/workspace/../etc"})"}) {
        INFO(args);
        CHECK(refusal_of(args) == "OUTSIDE_WORKSPACE");
    }
}

TEST_CASE("A command that is switched off is refused whatever its arguments are") {
    http::CommandForm form;
    form.context = R"({"a":1})";
    for (const char* const args : {R"({"command":"ls"})", "{}"}) {
        const Json result =
            Json::parse(http::read_command(Json::parse(args), {.run_command = false}, form).value());
        CHECK(result["success"] == false);
        CHECK(result["technicalDetails"]["errorCode"] == "TOOL_DISABLED");
        CHECK(result["context"] == Json{{"a", 1}});
    }
}

TEST_CASE("A command is told with its end and its output, and success is true for any exit code") {
    CommandStage stage;
    const auto call = stage.run(R"({"command":"make","cwd":"src","timeoutMs":9000,"description":"Build"})");
    CHECK(stage.play.spec.command == "make");
    CHECK(stage.play.spec.directory == "src");
    CHECK(stage.play.spec.timeout == base::Millis{9000});
    stage.play.observer->on_output(OutputKind::standard, "out\n");
    stage.play.observer->on_output(OutputKind::error, "err\n");
    stage.clock.advance(base::Millis{5});
    stage.play.observer->on_exit({3, 0, false});
    CHECK(stage.told.reply.empty());  // the holder may destroy the call then: not from inside the run
    CHECK(stage.result() == Json::parse(R"({"success":true,"data":{"exitCode":3,"signal":null,
        "timedOut":false,"stdout":"out\n","stderr":"err\n","truncated":{"stdout":false,"stderr":false},
        "durationMs":5},"userFeedback":"Build: exit code 3.","previewRefreshNeeded":false,
        "context":{"toolCallId":"c1"}})"));
    CHECK(stage.told.reply == R"({"success":true})");
    CHECK(stage.timers.idle());
}

TEST_CASE("A command that took too long, or wrote too much, says what to do instead") {
    CommandStage stage;
    const auto call = stage.run(R"({"command":"yes\nmore"})");
    stage.play.observer->on_output(OutputKind::error, std::string(100'000, 'y'));
    stage.play.observer->on_exit({0, 15, true});
    const Json result = stage.result();
    CHECK(result["data"]["signal"] == "SIGTERM");
    CHECK(result["data"]["exitCode"] == nullptr);
    CHECK(result["data"]["timedOut"] == true);
    CHECK(result["data"]["truncated"] == Json{{"stdout", false}, {"stderr", true}});
    CHECK(result["warnings"].size() == 2);
    CHECK(result["userFeedback"] == "yes: ended after 30000 ms.");
}

TEST_CASE("A command that runs for long tells the last line that it wrote") {
    CommandStage stage;
    const auto call = stage.run(R"({"command":"make"})");
    stage.timers.advance(base::k_tool_progress_interval);
    CHECK(stage.told.progress.empty());
    stage.play.observer->on_output(OutputKind::standard, "one\ntwo\r\n\n");
    stage.timers.advance(base::k_tool_progress_interval);
    CHECK(stage.told.progress == "two");
    stage.play.observer->on_output(OutputKind::error, "10 %\r20 %");
    stage.timers.advance(base::k_tool_progress_interval);
    CHECK(stage.told.progress == "20 %");
}

TEST_CASE("A command that cannot be run is a result that says why, or an error of the call") {
    const auto code = [](Errc errc) {
        CommandStage stage;
        const auto call = stage.run(R"({"command":"make"})");
        stage.play.observer->on_failed(Error(errc, "why"));
        stage.timers.advance(base::k_end_cause_wait, [&stage] { stage.settle(); });
        stage.settle();
        if (stage.told.failed)
            return std::string(base::code_name(*stage.told.failed));
        CHECK(stage.told.reply == R"({"success":false})");
        return stage.result()["technicalDetails"]["errorCode"].get<std::string>();
    };
    CHECK(code(Errc::invalid_cwd) == "NOT_A_DIRECTORY");
    CHECK(code(Errc::invalid_field) == "INVALID_ARGUMENTS");
    CHECK(code(Errc::too_many_processes) == "TOOL_UNAVAILABLE");
    CHECK(code(Errc::capacity) == "capacity");
    CHECK(code(Errc::bridge_failed) == "bridge_failed");
}

TEST_CASE("A call that is given up ends its command, also while it tells the end") {
    CommandStage stage;
    auto call = stage.run(R"({"command":"make"})");
    call.reset();
    CHECK(stage.play.observer == nullptr);
    CHECK(stage.timers.idle());

    auto other = stage.run(R"({"command":"make"})");
    stage.told.leave = [&other] { other.reset(); };
    stage.play.observer->on_exit({0, 0, false});
    stage.settle();
    CHECK(stage.told.reply == R"({"success":true})");
    CHECK(stage.told.text.empty());
    CHECK_FALSE(stage.told.has_ended);
}

TEST_CASE("A command that is switched off while its sandbox starts does not run") {
    bool is_starting = false;
    ApiServer server;
    const Json made = server.call_json("POST", "/v1/conversations", "{}");
    const std::string id = made["id"];
    const std::string sandbox = made["sandboxId"];
    REQUIRE(server.call_json("POST", "/v1/conversations/" + id + "/pause")["status"] == "paused");
    const std::size_t before = server.on_loop([&] { return server.world.operations; });
    server.on_loop([&] {
        // The start is committed before the request goes on.
        server.world.store.fails = [&] {
            if (!std::exchange(is_starting, true))
                server.world.timers.defer([&] {
                    conversation::PatchRequest off;
                    off.tools.run_command = false;
                    server.api().conversations.patch(id, off, [](const base::Result<conversation::View>&) {});
                });
            return false;
        };
    });
    const Json result = server.call_json("POST", "/v1/tools/run_command",
                                         R"({"args":{"command":"true"},"sandboxId":")" + sandbox + R"("})");
    CHECK(result["technicalDetails"]["errorCode"] == "TOOL_DISABLED");
    CHECK(server.on_loop([&] { return server.world.operations; }) == before);
    // Nothing starts for a command that is off at once.
    CHECK(server.call_json("GET", "/v1/sandboxes/" + sandbox)["status"] == "ready");
}

}  // namespace run_command_test
