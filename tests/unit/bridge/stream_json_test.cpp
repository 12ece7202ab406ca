#include "bridge/adapters/stream_json.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "agent_protocol_lab.hpp"

namespace atl::test::stream_json_test {
namespace {

using Json = nlohmann::json;
using Lab = ProtocolLab<adapter::StreamJsonProtocol>;

Json stream(Json event) {
    return {{"type", "stream_event"}, {"event", std::move(event)}, {"parent_tool_use_id", nullptr}};
}

Json delta(const std::string& kind, const std::string& member, const std::string& text) {
    return stream(
        {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", kind}, {member, text}}}});
}

Json assistant(const std::string& id, Json block, const Json& parent = nullptr) {
    return {{"type", "assistant"},
            {"message", {{"id", id}, {"role", "assistant"}, {"content", Json::array({std::move(block)})}}},
            {"parent_tool_use_id", parent}};
}

Json tool(const std::string& id) {
    return {{"type", "tool_use"}, {"id", id}, {"name", "Bash"}, {"input", {{"command", "ls"}}}};
}

Json tool_result(const std::string& id, bool is_error) {
    return {{"type", "user"},
            {"message",
             {{"role", "user"},
              {"content", Json::array({{{"type", "tool_result"},
                                        {"tool_use_id", id},
                                        {"content", "ran"},
                                        {"is_error", is_error}}})}}},
            {"parent_tool_use_id", nullptr}};
}

Json can_use(const std::string& tool_id, const Json& suggestions = nullptr) {
    return {{"type", "control_request"},
            {"request_id", "p1"},
            {"request",
             {{"subtype", "can_use_tool"},
              {"tool_name", "Bash"},
              {"input", {{"command", "ls"}}},
              {"tool_use_id", tool_id},
              {"permission_suggestions", suggestions}}}};
}

const Json k_success = {{"type", "result"}, {"subtype", "success"}, {"is_error", false}, {"result", "ok"}};

void begin(Lab& lab) {
    const auto first = lab.to_agent();
    lab.agent({{"type", "control_response"},
               {"response",
                {{"subtype", "success"},
                 {"request_id", first.at(0)["request_id"]},
                 {"response", Json::object()}}}});
}

/// The decision that went to the agent.
Json decision(Lab& lab) {
    const auto told = lab.to_agent();
    return told.empty() ? Json() : told.back()["response"]["response"];
}

}  // namespace

TEST_CASE(
    "claude is started without the settings of the workspace, and with its session only if that is one") {
    using adapter::StreamJsonProtocol;
    const auto has = [](const std::vector<std::string>& flags, const std::string& flag) {
        return std::find(flags.begin(), flags.end(), flag) != flags.end();
    };
    const auto plain = StreamJsonProtocol::flags({});
    CHECK(plain.front() == "-p");
    CHECK(has(plain, "--setting-sources="));
    CHECK_FALSE(has(plain, "--resume"));
    CHECK_FALSE(has(plain, "--permission-mode"));
    const auto resumed = StreamJsonProtocol::flags({"bypassPermissions", "1111-22", "/workspace"});
    CHECK(has(resumed, "--resume"));
    CHECK(has(resumed, "1111-22"));
    CHECK(has(resumed, "--allow-dangerously-skip-permissions"));
    for (const char* hostile : {"--dangerous", "a b", "../x", "\xFF"})
        CHECK_FALSE(has(StreamJsonProtocol::flags({"", hostile, "/workspace"}), "--resume"));
}

TEST_CASE("a line of claude's beyond the bound is answered as its beginning asks, and ends what it would") {
    Lab lab({"", "", "/workspace"});
    const std::string first = lab.to_agent().at(0)["request_id"];
    SECTION("its answer to the first request") {
        lab.agent_head(R"({"type":"control_response","response":{"subtype":"success","request_id":")" +
                       first + R"(","response":{"x":")");
        CHECK(lab.event_names() == "ready");
        lab.query("t1", "hi");
        lab.to_agent();
        lab.agent_head(
            R"({"type":"control_request","request_id":"p1","request":{"subtype":"can_use_tool","tool_name":"Write","input":")");
        const auto told = lab.to_agent();
        REQUIRE(told.size() == 1);
        CHECK(told[0]["response"]["subtype"] == "error");
        CHECK(told[0]["response"]["request_id"] == "p1");
        lab.agent_head(R"({"type":"assistant","message":{"content":")");
        lab.agent_head(R"({"type":"result","subtype":"success","is_error":false,"result":")");
        CHECK(lab.are_taken());
        CHECK(lab.event_names() == "error error error turn_complete done");
    }
    SECTION("one that does not tell the request's id") {
        lab.agent_head(R"({"type":"control_response","response":{"response":{"x":")");
        CHECK(lab.wishes().failure.find("refused to initialize") == 0);
    }
    SECTION("what it is comes last") {
        const std::string filler(4096, 'x');
        lab.agent_long(R"({"response":{"response":{"x":")" + filler +
                       R"("},"subtype":"success","request_id":")" + first +
                       R"("},"type":"control_response"})");
        CHECK(lab.event_names() == "ready");
        lab.query("t1", "hi");
        lab.agent_long(R"({"result":")" + filler +
                       R"(","is_error":false,"subtype":"success","type":"result"})");
        CHECK(lab.event_names() == "error turn_complete done");
    }
}

TEST_CASE("all tools of a long turn are told, as long as not too many run at once") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "work");
    for (std::size_t i = 0; i < adapter::k_max_open_tools; ++i) {
        lab.agent(assistant("m1", tool("c" + std::to_string(i))));
        lab.agent(tool_result("c" + std::to_string(i), false));
    }
    lab.events();
    lab.agent(assistant("m1", tool("last")));
    lab.agent(tool_result("last", false));
    CHECK(lab.event_names() == "message tool_use message tool_result");
    for (std::size_t i = 0; i <= adapter::k_max_open_tools; ++i)
        lab.agent(assistant("m1", tool("o" + std::to_string(i))));
    const auto events = lab.events();
    const auto told = std::count_if(events.begin(), events.end(),
                                    [](const Json& event) { return event["ev"] == "tool_use"; });
    CHECK(static_cast<std::size_t>(told) == adapter::k_max_open_tools);
}

TEST_CASE("the pieces of claude's text come once, and its objects as they are") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    CHECK(lab.event_names() == "ready");
    lab.query("t1", "hi");
    CHECK(lab.to_agent().at(0) == Json{{"type", "user"},
                                       {"message", {{"role", "user"}, {"content", "hi"}}},
                                       {"parent_tool_use_id", nullptr},
                                       {"session_id", ""}});
    lab.agent({{"type", "system"}, {"subtype", "init"}, {"session_id", "1111-2222"}});
    CHECK(lab.wishes().session == "1111-2222");
    CHECK(lab.event_names() == "message");
    lab.agent(stream({{"type", "message_start"}, {"message", {{"id", "m1"}}}}));
    lab.agent(delta("thinking_delta", "thinking", "hmm"));
    lab.agent(delta("text_delta", "text", "Hel"));
    lab.agent(delta("input_json_delta", "partial_json", "{"));
    lab.agent(delta("text_delta", "text", "lo"));
    lab.agent(assistant("m1", {{"type", "text"}, {"text", "Hello"}}));
    // A text that did not come in pieces.
    lab.agent(assistant("m2", {{"type", "text"}, {"text", "!"}}));
    lab.agent_text(R"({ "type":"result", "subtype":"success", "total":1.0, "is_error":false })");
    CHECK(lab.are_taken());
    CHECK(lab.wishes().to_host.find(
              R"("data":{ "type":"result", "subtype":"success", "total":1.0, "is_error":false }})") !=
          std::string::npos);
    CHECK(lab.event_names() ==
          "thinking_delta text_delta text_delta message message text_delta message turn_complete done");
}

TEST_CASE("the text of claude comes once, however it names and tells its messages") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "hi");
    lab.events();
    const auto text = [&lab] {
        std::string all;
        for (const Json& event : lab.events())
            if (event["ev"] == "text_delta")
                all += event["data"]["delta"].get<std::string>();
        return all;
    };
    const auto whole = [&lab](const std::string& id, const std::string& said) {
        lab.agent(assistant(id, {{"type", "text"}, {"text", said}}));
    };
    SECTION("pieces without the begin of their message") {
        lab.agent(delta("text_delta", "text", "Hel"));
        lab.agent(delta("text_delta", "text", "lo"));
        whole("m1", "Hello");
        whole("m2", "!");
        lab.agent(delta("text_delta", "text", "Bye"));
        whole("m3", "Bye");
        CHECK(text() == "Hello!Bye");
    }
    SECTION("a message that has no id in its pieces, or nowhere") {
        const std::string id = GENERATE(as<std::string>{}, "m1", "");
        lab.agent(stream({{"type", "message_start"}, {"message", Json::object()}}));
        lab.agent(delta("text_delta", "text", "Hello"));
        whole(id, "Hello");
        whole("", "!");
        CHECK(text() == "Hello!");
    }
    SECTION("a content that is a text") {
        lab.agent({{"type", "assistant"}, {"message", {{"id", "m1"}, {"content", "Hello"}}}});
        lab.agent(k_success);
        CHECK(text() == "Hello");
    }
    SECTION("a result without a message") {
        lab.agent(k_success);
        CHECK(text() == "ok");
    }
}

TEST_CASE("claude is ready with its first request answered, or with its session") {
    Lab lab({"", "", "/workspace"});
    const Json init = {{"type", "system"}, {"subtype", "init"}, {"session_id", "1111-2222"}};
    lab.agent(init);
    CHECK(lab.event_names() == "ready");
    CHECK(lab.wishes().session == "1111-2222");
    lab.agent(init);
    begin(lab);
    CHECK(lab.event_names().empty());
}

TEST_CASE("a session that claude lacks at its first prompt leaves the turn to the next start") {
    Lab lab({"", "1111-2222", "/workspace"});
    begin(lab);
    lab.host({{"cmd", "resume"}, {"turns", Json::array({{{"content", "a"}, {"text", "b"}}})}});
    lab.query("t2", "go on");
    CHECK(lab.to_agent().at(0)["message"]["content"] == "go on");
    lab.agent({{"type", "result"},
               {"subtype", "error_during_execution"},
               {"is_error", true},
               {"errors", Json::array({"No conversation found with session ID: 1111-2222"})}});
    CHECK(lab.event_names() == "ready message");
    CHECK(lab.wishes().renews);
    Lab next({"", "", "/workspace", lab.protocol().left()});
    begin(next);
    const std::string prompt = next.to_agent().at(0)["message"]["content"];
    CHECK(prompt.find("User: a\nYou: b\n") != std::string::npos);
    CHECK(prompt.ends_with("\n\ngo on"));
    next.agent(k_success);
    CHECK(next.event_names() == "message text_delta turn_complete done");
}

TEST_CASE("a permission of claude is asked with its tool, and answered as was chosen") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "tool");
    lab.to_agent();
    lab.events();
    lab.agent(assistant("m1", tool("t1")));
    lab.agent(can_use("t1", Json::array({{{"type", "addRules"}}})));
    const auto events = lab.events();
    REQUIRE(events.size() == 3);
    CHECK(events[1]["data"] == Json{{"id", "t1"}, {"name", "Bash"}, {"input", {{"command", "ls"}}}});
    CHECK(events[2]["ev"] == "permission_request");
    REQUIRE(events[2]["data"]["options"].size() == 3);
    const auto choose = [&](const std::string& kind) {
        for (const Json& option : events[2]["data"]["options"])
            if (option["kind"] == kind)
                lab.host({{"cmd", "permission"},
                          {"turn", "t1"},
                          {"id", events[2]["data"]["id"]},
                          {"optionId", option["optionId"]}});
    };
    SECTION("once") {
        choose("allow_once");
        CHECK(decision(lab) == Json{{"behavior", "allow"}, {"updatedInput", {{"command", "ls"}}}});
    }
    SECTION("always") {
        choose("allow_always");
        CHECK(decision(lab)["updatedPermissions"] == Json::array({{{"type", "addRules"}}}));
    }
    SECTION("refused") {
        choose("reject_once");
        CHECK(decision(lab)["behavior"] == "deny");
    }
    SECTION("cancelled") {
        lab.host({{"cmd", "permission"}, {"turn", "t1"}, {"id", events[2]["data"]["id"]}});
        CHECK(decision(lab)["behavior"] == "deny");
    }
    SECTION("an option that it did not have is none") {
        lab.host(
            {{"cmd", "permission"}, {"turn", "t1"}, {"id", events[2]["data"]["id"]}, {"optionId", "root"}});
        CHECK(decision(lab)["behavior"] == "deny");
    }
    SECTION("the turn ends first") {
        lab.agent(k_success);
        CHECK(decision(lab)["behavior"] == "deny");
    }
    lab.events();
    lab.to_agent();
    choose("allow_once");
    CHECK(lab.to_agent().empty());
}

TEST_CASE("a permission that claude takes back is asked no more") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "tool");
    lab.agent(can_use("t1"));
    lab.to_agent();
    const Json asked = lab.events().back()["data"]["id"];
    lab.agent({{"type", "control_cancel_request"}, {"request_id", "p0"}});
    lab.agent({{"type", "control_cancel_request"}, {"request_id", 5}});
    lab.agent({{"type", "control_cancel_request"}});
    CHECK(lab.events().empty());
    lab.agent({{"type", "control_cancel_request"}, {"request_id", "p1"}});
    CHECK(lab.are_taken());
    CHECK(lab.events() == std::vector<Json>{Json{{"ev", "permission_cancel"}, {"data", {{"id", asked}}}}});
    lab.host({{"cmd", "permission"}, {"turn", "t1"}, {"id", asked}, {"optionId", "allow"}});
    CHECK(lab.to_agent().empty());
}

TEST_CASE("tools of claude and of its subagents are told once, with their results") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "tool");
    lab.events();
    lab.agent(assistant("m1", tool("a")));
    lab.agent(assistant("m2", tool("b"), "a"));
    lab.agent(assistant("m2", {{"type", "text"}, {"text", "of the subagent"}}, "a"));
    lab.agent(tool_result("a", true));
    lab.agent(tool_result("a", false));
    lab.agent(tool_result("never", false));
    std::vector<Json> tools;
    for (const Json& event : lab.events())
        if (event["ev"] != "message")
            tools.push_back(event);
    REQUIRE(tools.size() == 3);
    CHECK_FALSE(tools[0]["data"].contains("parentToolUseId"));
    CHECK(tools[1]["data"]["parentToolUseId"] == "a");
    CHECK(tools[2] ==
          Json{{"ev", "tool_result"}, {"data", {{"toolUseId", "a"}, {"content", "ran"}, {"isError", true}}}});
}

TEST_CASE("an interrupt of claude is no error; a result that is one is") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "hang");
    lab.to_agent();
    lab.events();
    const Json aborted = {{"type", "result"},
                          {"subtype", "error_during_execution"},
                          {"is_error", true},
                          {"terminal_reason", "aborted_streaming"}};
    SECTION("an interrupt") {
        lab.host({{"cmd", "interrupt"}, {"turn", "t1"}});
        CHECK(lab.to_agent().at(0)["request"]["subtype"] == "interrupt");
        lab.agent(aborted);
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"]["result"] == "interrupted");
        lab.query("t2", "again");
        lab.agent(k_success);
        CHECK(lab.event_names() == "message text_delta turn_complete done");
    }
    SECTION("an error") {
        lab.agent({{"type", "result"}, {"subtype", "error_max_turns"}, {"is_error", true}});
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"]["code"] == "error_max_turns");
    }
    SECTION("an error with a list of texts") {
        lab.agent({{"type", "result"},
                   {"subtype", "error_during_execution"},
                   {"is_error", true},
                   {"errors", Json::array({"no such file", 7, "gave up"})}});
        CHECK(lab.events().at(1)["data"]["message"] == "no such file; gave up");
    }
    SECTION("a success that is none") {
        lab.agent({{"type", "result"}, {"subtype", "success"}, {"is_error", true}, {"result", "no key"}});
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"] == Json{{"code", "agent_error"}, {"message", "no key"}});
    }
}

TEST_CASE("a control request of claude that this client does not know is refused") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.agent(
        {{"type", "control_request"}, {"request_id", "x"}, {"request", {{"subtype", "hook_callback"}}}});
    const auto told = lab.to_agent();
    CHECK(told.at(0)["response"]["subtype"] == "error");
    CHECK(told.at(0)["response"]["request_id"] == "x");
}

}  // namespace atl::test::stream_json_test
