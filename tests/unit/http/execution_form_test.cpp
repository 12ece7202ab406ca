// The forms of code mode.
#include "http/api/execution_form.hpp"

#include <catch2/catch_test_macros.hpp>

namespace execution_form_test {

using namespace atl;
using http::SandboxTools;

namespace {

http::Json parsed(const std::string& text) {
    return http::parse_json(text).value();
}

std::string fault(const std::string& text, SandboxTools of = SandboxTools::none) {
    const auto form = http::read_execute_form(parsed(text), 512, of);
    return form.has_error() ? form.error().pointer() : "none";
}

}  // namespace

TEST_CASE("A program is read with all that it may have, and with defaults where it says nothing") {
    const auto form = http::read_execute_form(
        parsed(
            R"({"code":"1","language":"python","executor":"python","userId":"u","timeoutMs":5,"memoryMb":64,
                   "cpuPercent":50,"maxOutputBytes":10,"maxCalls":3,"detached":true,
                   "tools":[{"name":"a","description":"d","inputSchema":{"type":"object"},"policy":"ask"},{"name":"b"}]})"),
        512, SandboxTools::none);
    REQUIRE(form.has_value());
    CHECK(form->request.code == "1");
    CHECK(form->language == execution::Language::python);
    CHECK(form->request.user_id == "u");
    CHECK(form->request.time == base::Millis{5});
    CHECK(form->request.memory_mb == 64);
    CHECK(form->request.max_calls == 3);
    CHECK(form->request.choice == execution::ExecutionRequest::Choice::named);
    CHECK(form->request.on_disconnect == execution::ExecutionRequest::OnDisconnect::finish);
    REQUIRE(form->tools.size() == 2);
    CHECK(form->tools[0].schema_json == R"({"type":"object"})");
    CHECK(form->tools[0].policy == execution::Policy::ask);
    CHECK(form->tools[1].policy == execution::Policy::allow);
    const auto least = http::read_execute_form(parsed(R"({"code":"1"})"), 96, SandboxTools::offered);
    REQUIRE(least.has_value());
    CHECK(least->executor == "auto");
    CHECK(least->request.choice == execution::ExecutionRequest::Choice::automatic);
    CHECK_FALSE(least->language);
    CHECK(least->request.memory_mb == 96);  // the server allows no more
    CHECK(least->sandbox_tools.size() == 6);
    CHECK(least->sandbox_tools.back() == "glob");  // run_command is there only by its name
    const auto named = http::read_execute_form(parsed(R"({"code":"1","sandboxTools":["run_command"]})"), 96,
                                               SandboxTools::offered);
    CHECK(named->sandbox_tools == std::vector<std::string>{"run_command"});
}

TEST_CASE("Memory and processor time of a run keep the ceilings of the key") {
    sandbox::LimitChanges ceilings;
    ceilings.memory_mb = 100;
    ceilings.cpu_percent = 50;
    const auto read = [&](const std::string& text, std::uint32_t max_memory_mb = 512) {
        return http::read_execute_form(parsed(text), max_memory_mb, SandboxTools::none, ceilings);
    };
    const auto least = read(R"({"code":"1"})");
    REQUIRE(least.has_value());
    CHECK(least->request.memory_mb == 100);
    CHECK(least->request.cpu_percent == 50);
    CHECK(read(R"({"code":"1"})", 96)->request.memory_mb == 96);
    const auto named = read(R"({"code":"1","memoryMb":99,"cpuPercent":49})");
    REQUIRE(named.has_value());
    CHECK(named->request.memory_mb == 99);
    CHECK(named->request.cpu_percent == 49);
    const auto large = read(R"({"code":"1","memoryMb":101})");
    REQUIRE(large.has_error());
    CHECK(large.error().code() == base::Errc::limit_not_allowed);
    CHECK(large.error().pointer() == "/memoryMb");
    CHECK(large.error().detail().find("`memoryMb` is 101") != std::string::npos);
    const auto fast = read(R"({"code":"1","cpuPercent":51})");
    REQUIRE(fast.has_error());
    CHECK(fast.error().pointer() == "/cpuPercent");
    CHECK(read(R"({"code":"1","memoryMb":513})").error().code() == base::Errc::invalid_field);
}

TEST_CASE("A program that is wrong is refused with the place of it") {
    CHECK(fault("{}") == "/code");
    CHECK(fault(R"({"source":"1"})") == "/source");
    CHECK(fault(R"({"code":""})") == "none");
    CHECK(fault(R"({"code":"1","memoryMb":513})") == "/memoryMb");
    CHECK(fault(R"({"code":"1","maxCalls":0})") == "/maxCalls");
    CHECK(fault(R"({"code":"1","tools":{}})") == "/tools");
    CHECK(fault(R"({"code":"1","tools":[{}]})") == "/tools/0/name");
    CHECK(fault(R"({"code":"1","tools":[{"name":"a","inputSchema":"x"}]})") == "/tools/0/inputSchema");
    CHECK(fault(R"({"code":"1","sandboxTools":"none"})") == "/sandboxTools");
    CHECK(fault(R"({"code":"1","sandboxTools":"all"})", SandboxTools::offered) == "/sandboxTools");
    CHECK(fault(R"({"code":"1","sandboxTools":["rm"]})", SandboxTools::offered) == "/sandboxTools");
    CHECK(fault(R"({"code":"1","sandboxTools":["glob","glob"]})", SandboxTools::offered) == "none");
}

TEST_CASE(
    "An entry of `tools` that names one of the sandbox's own tools gives it a policy, and nothing else") {
    const auto form = http::read_execute_form(
        parsed(R"({"code":"1","tools":[{"name":"read_file","policy":"ask"},{"name":"mine"}]})"), 512,
        SandboxTools::offered);
    REQUIRE(form.has_value());
    CHECK(form->tools[0].policy == execution::Policy::ask);
    const std::string described = R"({"code":"1","tools":[{"name":"mine"},{"name":"glob","description":""}])";
    const std::string with_schema = R"({"code":"1","tools":[{"name":"glob","inputSchema":{}}])";
    CHECK(fault(described + "}", SandboxTools::offered) == "/tools/1/description");
    CHECK(fault(with_schema + "}", SandboxTools::offered) == "/tools/0/inputSchema");
    // The name of a sandbox tool that is not offered is a name like any other.
    CHECK(fault(with_schema + R"(,"sandboxTools":["read_file"]})", SandboxTools::offered) == "none");
    CHECK(fault(with_schema + "}") == "none");
}

TEST_CASE("An answer is one of a result, an error and a decision") {
    const auto read = [](const std::string& text) { return http::read_call_answer(parsed(text)); };
    CHECK(read(R"({"output":1})").error().pointer() == "/output");
    CHECK(read(R"({"result":null})")->result_json == "null");
    CHECK(read(R"({"error":{"message":"no"}})")->error == "no");
    CHECK(read(R"({"decision":"deny"})")->decision == execution::CallAnswer::Decision::deny);
    for (const char* const text : {"{}", R"({"result":1,"decision":"allow"})", R"({"error":"no"})",
                                   R"({"error":{}})", R"({"decision":"maybe"})", R"({"result":1,"more":2})"})
        CHECK(read(text).has_error());
}

TEST_CASE("A frame of a client answers or cancels") {
    const auto read = [](const std::string& text) { return http::read_execution_frame(parsed(text)); };
    const auto answer = read(R"({"type":"answer","callId":"c1","result":[1],"id":"x"})");
    REQUIRE(answer.has_value());
    CHECK(answer->call_id == "c1");
    CHECK(answer->answer.result_json == "[1]");
    CHECK(answer->id == "\"x\"");
    CHECK(read(R"({"type":"cancel"})")->kind == http::ExecutionFrame::Kind::cancel);
    for (const char* const text :
         {"{}", R"({"type":"answer","result":1})", R"({"type":"answer","callId":"c1"})",
          R"({"type":"cancel","callId":"c1"})", R"({"type":"x"})"})
        CHECK(read(text).has_error());
}

TEST_CASE("An answer that was split is read as it was, but for its value, which is not looked at") {
    using Text = execution::CallAnswer::Text;
    const auto whole = http::read_call_answer(execution::SplitJson{R"({"result":null})", {"[1,2]"}});
    REQUIRE(whole.has_value());
    CHECK(whole->result_json == "[1,2]");
    CHECK(whole->result_text == Text::checked);
    const auto failed = http::read_call_answer(execution::SplitJson{R"({"error":{"message":"no"}})", {}});
    REQUIRE(failed.has_value());
    CHECK(failed->error == "no");
    CHECK_FALSE(failed->result_json);
    for (const std::string rest :
         {R"({"result":null,"more":1})", R"({"result":null,"decision":"allow"})", "[1]", "no json"})
        CHECK(http::read_call_answer(execution::SplitJson{rest, {"1"}}).has_error());
    // The longest message of an error fits, however it is escaped.
    const std::string message(16UL * 1024, '\x01');
    const http::Json error{{"error", {{"message", message}}}};
    CHECK(http::read_call_answer(execution::SplitJson{error.dump(), {}})->error == message);
    const http::Json longer{{"error", {{"message", message + message}}}};
    CHECK(http::read_call_answer(execution::SplitJson{longer.dump(), {}}).error().code() ==
          base::Errc::invalid_field);

    const auto frame = http::read_execution_frame(
        execution::SplitJson{R"({"type":"answer","callId":"c1","result":null,"id":4})", {"\"long\""}});
    REQUIRE(frame.has_value());
    CHECK(frame->call_id == "c1");
    CHECK(frame->id == "4");
    CHECK(frame->answer.result_json == "\"long\"");
    CHECK(frame->answer.result_text == Text::checked);
    CHECK(http::read_execution_frame(execution::SplitJson{R"({"type":"cancel","result":null})", {"1"}})
              .has_error());
}

TEST_CASE("Tools whose schemas were split off are read with them, in their order") {
    const execution::SplitJson body{
        R"({"code":"1","tools":[{"name":"a","inputSchema":{}},{"name":"b"},{"name":"c","inputSchema":{}}]})",
        {R"({"type":"array"})", "{}"}};
    const auto form = http::read_execute_form(body, 512, SandboxTools::none);
    REQUIRE(form.has_value());
    CHECK(form->tools[0].schema_json == R"({"type":"array"})");
    CHECK(form->tools[1].schema_json.empty());
    CHECK(form->tools[2].schema_json == "{}");
    CHECK(http::read_prompt_form(execution::SplitJson{R"({"tools":[{"name":"a","inputSchema":{}}]})", {}})
              .error()
              .code() == base::Errc::internal);
    // The rest has the bounds of any body.
    std::string many = R"({"code":"1","tools":[{})";
    for (std::size_t i = 0; i < base::k_max_json_nodes; ++i)
        many += ",{}";
    CHECK(http::read_execute_form(execution::SplitJson{many + "]}", {}}, 512, SandboxTools::none)
              .error()
              .code() == base::Errc::body_too_large);
}

}  // namespace execution_form_test
