#include "bridge/adapters/acp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "acp_lab.hpp"

namespace atl::test::acp_tools_test {

using acp_lab::begin;
using acp_lab::chunk;
using acp_lab::Json;
using acp_lab::Lab;
using acp_lab::permission;
using acp_lab::reply;
using acp_lab::update;

TEST_CASE("the words of another session of an ACP agent are messages, and its tools are told") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "go");
    lab.events();
    for (const char* kind : {"agent_message_chunk", "agent_thought_chunk"}) {
        Json foreign = chunk(kind, "of a helper");
        foreign["params"]["sessionId"] = "s2";
        lab.agent(foreign);
        const auto events = lab.events();
        REQUIRE(events.size() == 1);
        CHECK(events[0]["ev"] == "message");
        CHECK(events[0]["data"]["sessionId"] == "s2");
        CHECK(events[0]["data"]["content"]["text"] == "of a helper");
    }
    Json foreign = update({{"sessionUpdate", "tool_call"}, {"toolCallId", "c1"}, {"status", "in_progress"}});
    foreign["params"]["sessionId"] = "s2";
    lab.agent(foreign);
    CHECK(lab.event_names() == "tool_use");
    Json nameless = chunk("agent_message_chunk", "one");
    nameless["params"].erase("sessionId");
    lab.agent(nameless);
    CHECK(lab.event_names() == "text_delta");
}

TEST_CASE("an ACP permission has options of kinds of the agent's own, as far as these say what they are") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.to_agent();
    lab.events();
    Json asked = permission(7, {{"toolCallId", "c1"}});
    SECTION("they do") {
        asked["params"]["options"] =
            Json::array({{{"optionId", "s"}, {"name", "S"}, {"kind", "allow_session"}},
                         {{"optionId", "d"}, {"name", "D"}, {"kind", "deny"}},
                         {{"optionId", "e"}, {"name", "E"}, {"kind", "edit"}}});
        lab.agent(asked);
        const Json options = lab.events().back()["data"]["options"];
        REQUIRE(options.size() == 2);
        CHECK(options[0]["kind"] == "allow_always");
        CHECK(options[1]["kind"] == "reject_once");
        CHECK(lab.to_agent().empty());
    }
    SECTION("none does") {
        asked["params"]["options"] = Json::array({{{"optionId", "e"}, {"name", "E"}, {"kind", "edit"}}});
        lab.agent(asked);
        CHECK(lab.are_taken());
        CHECK(lab.event_names() == "tool_use permission_request permission_cancel");
        CHECK(lab.to_agent() == std::vector<Json>{reply(7, {{"outcome", {{"outcome", "cancelled"}}}})});
        lab.agent(reply(3, {{"stopReason", "end_turn"}}));
        CHECK(lab.event_names() == "tool_result turn_complete done");
    }
}

TEST_CASE("an ACP tool is told once, with the input that was filled in, and so is its result") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.events();
    SECTION("the input comes with the permission") {
        lab.agent(update({{"sessionUpdate", "tool_call"},
                          {"toolCallId", "c1"},
                          {"title", "Write a.txt"},
                          {"kind", "edit"},
                          {"status", "pending"},
                          {"rawInput", Json::object()}}));
        CHECK(lab.event_names().empty());
        lab.agent(permission(7, {{"toolCallId", "c1"}, {"rawInput", {{"path", "a.txt"}}}}));
        CHECK(lab.are_taken());
        const auto events = lab.events();
        REQUIRE(events.size() == 2);
        CHECK(events[0]["data"] ==
              Json{{"id", "c1"}, {"name", "edit"}, {"title", "Write a.txt"}, {"input", {{"path", "a.txt"}}}});
        CHECK(events[1]["ev"] == "permission_request");
        CHECK(events[1]["data"]["toolUseId"] == "c1");
        CHECK(events[1]["data"]["options"][0] ==
              Json{{"optionId", "y"}, {"name", "Yes"}, {"kind", "allow_once"}});
        lab.to_agent();
        lab.host({{"cmd", "permission"}, {"turn", "t1"}, {"id", events[1]["data"]["id"]}, {"optionId", "y"}});
        CHECK(lab.to_agent() ==
              std::vector<Json>{reply(7, {{"outcome", {{"outcome", "selected"}, {"optionId", "y"}}}})});
    }
    SECTION("no tool_call came before the permission") {
        const Json diff = Json::array({{{"type", "diff"}, {"path", "a.txt"}, {"newText", "x"}}});
        lab.agent(permission("seven", {{"toolCallId", "c1"}, {"title", "Write"}, {"content", diff}}));
        const auto events = lab.events();
        REQUIRE(events.size() == 2);
        CHECK(events[0]["data"] == Json{{"id", "c1"},
                                        {"name", "other"},
                                        {"title", "Write"},
                                        {"input", Json::object()},
                                        {"details", diff}});
        CHECK(events[1]["ev"] == "permission_request");
    }
    SECTION("it begins without an input") {
        lab.agent(update({{"sessionUpdate", "tool_call"}, {"toolCallId", "c1"}, {"status", "in_progress"}}));
        CHECK(lab.event_names() == "tool_use");
    }
    lab.events();
    lab.agent(update({{"sessionUpdate", "tool_call_update"}, {"toolCallId", "c1"}, {"title", "no end"}}));
    CHECK(lab.event_names().empty());
    for (int i = 0; i < 2; ++i)
        lab.agent(update({{"sessionUpdate", "tool_call_update"},
                          {"toolCallId", "c1"},
                          {"status", "failed"},
                          {"rawOutput", {{"ok", false}}}}));
    const auto results = lab.events();
    REQUIRE(results.size() == 1);
    CHECK(results[0] ==
          Json{{"ev", "tool_result"},
               {"data", {{"toolUseId", "c1"}, {"content", {{"ok", false}}}, {"isError", true}}}});
}

TEST_CASE("an ACP tool that was refused has a result, also where the agent tells none") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.agent(permission(7, {{"toolCallId", "c1"}}));
    const std::string id = lab.events().back()["data"]["id"];
    const bool is_told = GENERATE(true, false);
    const std::string option = GENERATE(as<std::string>{}, "y", "n", "none of them");
    lab.host({{"cmd", "permission"}, {"turn", "t1"}, {"id", id}, {"optionId", option}});
    if (is_told)
        lab.agent(update({{"sessionUpdate", "tool_call_update"},
                          {"toolCallId", "c1"},
                          {"status", "failed"},
                          {"rawOutput", "its own words"}}));
    lab.agent(reply(3, {{"stopReason", "end_turn"}}));
    const auto events = lab.events();
    const bool has_result = is_told || option != "y";
    REQUIRE(events.size() == (has_result ? 3 : 2));
    if (has_result)
        CHECK(events[0]["data"] == Json{{"toolUseId", "c1"},
                                        {"content", is_told ? "its own words" : "it was not permitted"},
                                        {"isError", true}});
}

TEST_CASE("the result of an ACP tool is its texts, or all that it has where that is a diff") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.events();
    const Json diff = {{"type", "diff"}, {"path", "a"}, {"oldText", "x"}, {"newText", "y"}};
    const Json text = {{"type", "content"}, {"content", {{"type", "text"}, {"text", "done"}}}};
    const auto result = [&](const Json& content) {
        static int count = 0;
        lab.agent(update({{"sessionUpdate", "tool_call_update"},
                          {"toolCallId", "c" + std::to_string(++count)},
                          {"status", "completed"},
                          {"content", content}}));
        return lab.events().at(1)["data"]["content"];
    };
    CHECK(result(Json::array({text, text})) == "done\ndone");
    CHECK(result(Json::array({text, diff})) == Json::array({text, diff}));
    CHECK(result(Json::array()) == "");
}

TEST_CASE("an ACP tool whose end tells nothing more has the result that its updates told last") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.events();
    const auto tool = [&lab](Json members) {
        members["toolCallId"] = "c1";
        members["sessionUpdate"] = "tool_call_update";
        lab.agent(update(std::move(members)));
    };
    const auto block = [](const std::string& text) {
        return Json{{"type", "content"}, {"content", {{"type", "text"}, {"text", text}}}};
    };
    const Json diff = {{"type", "diff"}, {"path", "a"}, {"oldText", "x"}, {"newText", "y"}};
    const auto result = [&lab] { return lab.events().back()["data"]; };
    SECTION("texts that grow") {
        tool({{"status", "in_progress"}, {"content", Json::array({block("on")})}});
        CHECK_FALSE(lab.events().at(0)["data"].contains("details"));
        tool({{"content", Json::array({block("one"), block("two")})}});
        tool({{"status", "completed"}, {"content", Json::array()}});
        CHECK(result() == Json{{"toolUseId", "c1"}, {"content", "one\ntwo"}, {"isError", false}});
    }
    SECTION("an output") {
        tool({{"status", "in_progress"}, {"rawInput", {{"command", "ls"}}}});
        tool({{"rawOutput", {{"exit", 1}}}});
        tool({{"status", "failed"}});
        CHECK(result() == Json{{"toolUseId", "c1"}, {"content", {{"exit", 1}}}, {"isError", true}});
    }
    SECTION("a diff that came with the input") {
        tool({{"status", "pending"}, {"rawInput", {{"path", "a"}}}, {"content", Json::array({diff})}});
        CHECK(lab.events().at(0)["data"]["details"] == Json::array({diff}));
        const bool has_output = GENERATE(true, false);
        tool(has_output ? Json{{"status", "completed"}, {"rawOutput", "written"}}
                        : Json{{"status", "completed"}});
        CHECK(result() ==
              Json{{"toolUseId", "c1"}, {"content", has_output ? "written" : ""}, {"isError", false}});
    }
    SECTION("a diff that came while it ran") {
        tool({{"status", "in_progress"}, {"rawInput", {{"path", "a"}}}});
        lab.events();
        tool({{"content", Json::array({diff})}});
        tool({{"status", "completed"}, {"rawOutput", "written"}});
        CHECK(result() == Json{{"toolUseId", "c1"},
                               {"content", "written"},
                               {"details", Json::array({diff})},
                               {"isError", false}});
    }
    SECTION("all of it in its first update") {
        tool({{"status", "completed"}, {"content", Json::array({diff})}});
        const auto events = lab.events();
        REQUIRE(events.size() == 2);
        CHECK_FALSE(events[0]["data"].contains("details"));
        CHECK(events[1]["data"]["content"] == Json::array({diff}));
    }
    tool({{"status", "completed"}});
    CHECK(lab.event_names().empty());
}

TEST_CASE("what the updates of ACP tools tell is kept within a bound") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "work");
    const std::string output(1000UL * 1000, 'x');
    const auto tool = [&lab](int index, Json members) {
        members["toolCallId"] = "c" + std::to_string(index);
        members["sessionUpdate"] = "tool_call_update";
        lab.agent(update(std::move(members)));
    };
    for (int index = 0; index < 6; ++index)
        tool(index, {{"status", "in_progress"}, {"rawOutput", output}});
    lab.events();
    std::size_t kept = 0;
    for (int index = 0; index < 6; ++index) {
        tool(index, {{"status", "completed"}});
        kept += lab.events().at(0)["data"]["content"] == output ? 1 : 0;
    }
    CHECK(kept == 4);
    // Their room is free again.
    tool(6, {{"status", "in_progress"}, {"rawOutput", output}});
    tool(6, {{"status", "completed"}});
    CHECK(lab.events().at(1)["data"]["content"] == output);
}

TEST_CASE("a permission that an ACP agent takes back is asked no more") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.agent(permission(7, {{"toolCallId", "c1"}}));
    lab.agent(permission("8", {{"toolCallId", "c2"}}));
    lab.to_agent();
    const Json asked = lab.events().back()["data"]["id"];
    const auto cancel = [&lab](const Json& id) {
        lab.agent({{"jsonrpc", "2.0"}, {"method", "$/cancel_request"}, {"params", {{"requestId", id}}}});
    };
    cancel(8);
    CHECK(lab.events().empty());
    cancel("8");
    CHECK(lab.are_taken());
    CHECK(lab.events() == std::vector<Json>{Json{{"ev", "permission_cancel"}, {"data", {{"id", asked}}}}});
    const auto told = lab.to_agent();
    REQUIRE(told.size() == 1);
    CHECK(told[0]["id"] == "8");
    CHECK(told[0]["error"]["code"] == -32800);
    lab.host({{"cmd", "permission"}, {"turn", "t1"}, {"id", asked}});
    CHECK(lab.to_agent().empty());
}

}  // namespace atl::test::acp_tools_test
