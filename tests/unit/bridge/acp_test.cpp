#include "bridge/adapters/acp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "acp_lab.hpp"

namespace atl::test::acp_test {

using acp_lab::begin;
using acp_lab::chunk;
using acp_lab::Json;
using acp_lab::k_resumes;
using acp_lab::Lab;
using acp_lab::permission;
using acp_lab::refusal;
using acp_lab::reply;
using acp_lab::update;

TEST_CASE("an ACP agent is ready once it has a session, whose id is kept") {
    Lab lab({"", "", "/workspace"});
    const auto first = lab.to_agent();
    REQUIRE(first.size() == 1);
    CHECK(first[0]["method"] == "initialize");
    CHECK(first[0]["params"]["protocolVersion"] == 1);
    CHECK(first[0]["params"]["clientCapabilities"]["terminal"] == false);
    lab.agent(reply(1, {{"protocolVersion", 1}, {"agentCapabilities", k_resumes}}));
    const auto second = lab.to_agent();
    REQUIRE(second.size() == 1);
    CHECK(second[0]["method"] == "session/new");
    CHECK(second[0]["params"] == Json{{"cwd", "/workspace"}, {"mcpServers", Json::array()}});
    CHECK(lab.event_names().empty());
    lab.agent(reply(2, {{"sessionId", "s1"}}));
    CHECK(lab.event_names() == "ready");
    CHECK(lab.wishes().session == "s1");
}

TEST_CASE("an ACP agent takes up its session by what it can, and begins another one where it cannot") {
    const bool resumes = GENERATE(true, false);
    Lab lab({"", "old", "/workspace"});
    lab.to_agent();
    lab.agent(reply(1, {{"protocolVersion", 1},
                        {"agentCapabilities", resumes ? k_resumes : Json{{"loadSession", true}}}}));
    const auto asked = lab.to_agent();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0]["method"] == (resumes ? "session/resume" : "session/load"));
    CHECK(asked[0]["params"]["sessionId"] == "old");
    SECTION("it does") {
        lab.agent(chunk("agent_message_chunk", "replayed"));
        lab.agent(reply(2, Json::object()));
        if (!resumes) {
            // It may replay more behind its answer, but not behind the next one.
            CHECK(lab.event_names().empty());
            lab.agent(chunk("agent_message_chunk", "replayed"));
            CHECK(lab.to_agent().at(0)["method"] == "_atoll/settle");
            CHECK(lab.wishes().settles);
            switch (GENERATE(0, 1, 2)) {
                case 0:
                    lab.agent(reply(3, Json::object()));
                    break;
                case 1:
                    lab.agent(refusal(3, -32601, "unknown"));
                    break;
                default:
                    // An agent that does not answer what it does not know, or does so late.
                    lab.protocol().settled();
                    lab.agent(refusal(3, -32601, "unknown"));
            }
        }
        CHECK(lab.event_names() == "ready");
        CHECK(lab.wishes().session.empty());
        lab.host({{"cmd", "resume"}, {"turns", Json::array({{{"content", "a"}, {"text", "b"}}})}});
        lab.query("t2", "go on");
        CHECK(lab.to_agent()[0]["params"]["prompt"][0]["text"] == "go on");
    }
    SECTION("it does not") {
        lab.agent(refusal(2, -32602, "no such session"));
        CHECK(lab.to_agent()[0]["method"] == "session/new");
        lab.agent(reply(3, {{"sessionId", "new"}}));
        CHECK(lab.event_names() == "ready");
        CHECK(lab.wishes().session == "new");
        lab.host({{"cmd", "resume"}, {"turns", Json::array({{{"content", "a"}, {"text", "b"}}})}});
        lab.query("t2", "go on");
        const std::string prompt = lab.to_agent()[0]["params"]["prompt"][0]["text"];
        CHECK(prompt.find("User: a\nYou: b\n") != std::string::npos);
        CHECK(prompt.ends_with("\n\ngo on"));
        // The agent knows them from now on.
        lab.agent(reply(4, {{"stopReason", "end_turn"}}));
        lab.query("t3", "more");
        CHECK(lab.to_agent()[0]["params"]["prompt"][0]["text"] == "more");
    }
}

TEST_CASE("an ACP agent that resumes no session may load it") {
    Lab lab({"", "old", "/workspace"});
    lab.agent(reply(
        1, {{"protocolVersion", 1},
            {"agentCapabilities", {{"loadSession", true}, {"sessionCapabilities", {{"resume", true}}}}}}));
    CHECK(lab.to_agent().back()["method"] == "session/resume");
    lab.agent(refusal(2, -32601, "unknown"));
    const auto asked = lab.to_agent();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0]["method"] == "session/load");
    CHECK(asked[0]["params"]["sessionId"] == "old");
    const bool loads = GENERATE(true, false);
    lab.agent(loads ? reply(3, Json::object()) : refusal(3, -32602, "no such session"));
    CHECK(lab.to_agent().at(0)["method"] == (loads ? "_atoll/settle" : "session/new"));
}

TEST_CASE("a session that an ACP agent lacks at its first prompt leaves the turn to the next start") {
    Lab lab({"", "old", "/workspace"});
    lab.agent(reply(1, {{"protocolVersion", 1}, {"agentCapabilities", k_resumes}}));
    lab.agent(reply(2, Json::object()));
    lab.host({{"cmd", "resume"}, {"turns", Json::array({{{"content", "a"}, {"text", "b"}}})}});
    lab.query("t2", "go on");
    CHECK(lab.to_agent().back()["params"]["prompt"][0]["text"] == "go on");
    lab.events();
    const Json refused = refusal(3, -32603, "Session not found");
    SECTION("it has said nothing") {
        lab.agent(refused);
        CHECK(lab.events().empty());
        CHECK(lab.wishes().renews);
        CHECK(lab.wishes().log.find("Session not found") != std::string::npos);
        CHECK(lab.protocol().leaves_turn("it has ended"));
        SECTION("and does the turn in another one") {
            Lab next({"", "", "/workspace", lab.protocol().left()});
            begin(next);
            CHECK(next.events().empty());
            const std::string prompt = next.to_agent().back()["params"]["prompt"][0]["text"];
            CHECK(prompt.find("User: a\nYou: b\n") != std::string::npos);
            CHECK(prompt.ends_with("\n\ngo on"));
            // Once.
            next.agent(refused);
            CHECK_FALSE(next.wishes().renews);
            CHECK(next.event_names() == "error done");
            // Perhaps it did not see the past.
            next.query("t3", "more");
            CHECK(next.to_agent().back()["params"]["prompt"][0]["text"].get<std::string>().starts_with(
                "The conversation so far"));
        }
        SECTION("and is interrupted before that") {
            const bool is_old = GENERATE(true, false);
            if (is_old) {
                lab.host({{"cmd", "interrupt"}, {"turn", "t2"}});
                CHECK(lab.event_names() == "turn_complete done");
            }
            Lab next({"", "", "/workspace", lab.protocol().left()});
            if (!is_old) {
                next.host({{"cmd", "interrupt"}, {"turn", "t2"}});
                const auto events = next.events();
                REQUIRE(events.size() == 2);
                CHECK(events[0]["data"]["result"] == "interrupted");
            }
            begin(next);
            CHECK(next.events().empty());
            CHECK(next.to_agent().back()["method"] == "session/new");
            next.query("t3", "more");
            CHECK(next.to_agent().back()["params"]["prompt"][0]["text"].get<std::string>().starts_with(
                "The conversation so far"));
        }
        SECTION("and does not start again") {
            Lab next({"", "", "/workspace", lab.protocol().left()});
            next.protocol().agent_ended("it has ended");
            CHECK(next.event_names() == "error");
        }
        return;
    }
    SECTION("it has said something") {
        lab.agent(chunk("agent_message_chunk", "one"));
        lab.agent(refused);
        CHECK(lab.event_names() == "text_delta error done");
    }
    SECTION("it only lacks a key") {
        lab.agent(refusal(3, -32000, "log in"));
        CHECK(lab.event_names() == "error done");
    }
    SECTION("it has answered before") {
        lab.agent(reply(3, {{"stopReason", "end_turn"}}));
        lab.query("t3", "more");
        lab.events();
        lab.agent(refusal(4, -32603, "Session not found"));
        CHECK(lab.event_names() == "error done");
    }
    SECTION("it was interrupted") {
        lab.host({{"cmd", "interrupt"}, {"turn", "t2"}});
        lab.agent(refused);
        CHECK(lab.event_names() == "turn_complete done");
    }
    CHECK_FALSE(lab.wishes().renews);
}

TEST_CASE("an ACP agent that cannot begin says why") {
    Lab lab({"yolo", "", "/workspace"});
    SECTION("another version") {
        lab.agent(reply(1, {{"protocolVersion", 2}}));
        CHECK(lab.wishes().failure.find("version 2 of ACP") != std::string::npos);
    }
    SECTION("no version, as agents of before the first one") {
        lab.agent(GENERATE(reply(1, Json::object()), reply(1, {{"protocolVersion", "0.1"}})));
        CHECK(lab.wishes().failure ==
              "tells no version of ACP; this server speaks version 1: install another release of it");
    }
    SECTION("a method that it does not have") {
        lab.agent(refusal(1, -32601, "Method not found"));
        CHECK(lab.wishes().failure == "refused to initialize: Method not found");
    }
    SECTION("a flood of lines") {
        const std::string noise(1023, 'n');
        for (std::size_t lines = 0; lines <= 1024; ++lines) {
            CHECK(lab.wishes().failure.empty());
            lab.agent_text(noise);
        }
        lab.agent_text(noise);
        CHECK(lab.wishes().failure.starts_with("floods its stdout"));
    }
    SECTION("a line without an end") {
        lab.protocol().agent_long_line("nnnn");
        CHECK(lab.wishes().failure.starts_with("floods its stdout"));
    }
    SECTION("no key") {
        lab.agent(reply(1, {{"protocolVersion", 1}}));
        lab.agent(refusal(2, -32000, "log in"));
        CHECK(lab.wishes().failure.find("authenticated") != std::string::npos);
        CHECK(lab.wishes().failure.find("log in") != std::string::npos);
    }
    SECTION("an unknown mode") {
        lab.agent(reply(1, {{"protocolVersion", 1}}));
        lab.agent(reply(2, {{"sessionId", "s1"}}));
        CHECK(lab.event_names().empty());
        lab.agent(refusal(3, -32602, "unknown mode"));
        CHECK(lab.wishes().failure.find("yolo") != std::string::npos);
    }
}

TEST_CASE("the mode of a recipe is a mode of the session or an option of it") {
    const bool is_option = GENERATE(true, false);
    Lab lab({is_option ? "allow_all=true" : "yolo", "", "/workspace"});
    begin(lab);
    const auto asked = lab.to_agent();
    CHECK(asked.back()["method"] == (is_option ? "session/set_config_option" : "session/set_mode"));
    CHECK(asked.back()["params"] ==
          (is_option ? Json{{"sessionId", "s1"}, {"configId", "allow_all"}, {"value", "true"}}
                     : Json{{"sessionId", "s1"}, {"modeId", "yolo"}}));
    lab.agent(reply(3, Json::object()));
    CHECK(lab.event_names() == "ready");
}

TEST_CASE("texts, thoughts and plans of ACP are events in order, and the turn ends once") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "hello");
    CHECK(lab.to_agent().back()["params"]["prompt"] == Json::array({{{"type", "text"}, {"text", "hello"}}}));
    lab.events();
    lab.agent(chunk("agent_thought_chunk", "hmm"));
    lab.agent(chunk("agent_message_chunk", "one "));
    lab.agent(chunk("agent_message_chunk", "two"));
    lab.agent(update({{"sessionUpdate", "plan"}, {"entries", Json::array({{{"content", "step"}}})}}));
    lab.agent(update({{"sessionUpdate", "of_tomorrow"}, {"x", 1}}));
    lab.agent({{"jsonrpc", "2.0"}, {"method", "_vendor/unknown"}, {"params", Json::object()}});
    lab.agent_text("a stray line");
    lab.agent(reply(3, {{"stopReason", "end_turn"}}));
    lab.agent(reply(3, {{"stopReason", "end_turn"}}));
    CHECK(lab.are_taken());
    const auto events = lab.events();
    REQUIRE(events.size() == 7);
    CHECK(events[0] == Json{{"ev", "thinking_delta"}, {"data", {{"delta", "hmm"}}}});
    CHECK(events[1]["data"]["delta"] == "one ");
    CHECK(events[2]["data"]["delta"] == "two");
    CHECK(events[3] == Json{{"ev", "plan"}, {"data", {{"entries", Json::array({{{"content", "step"}}})}}}});
    CHECK(events[4] == Json{{"ev", "message"}, {"data", {{"sessionUpdate", "of_tomorrow"}, {"x", 1}}}});
    CHECK(events[5] == Json{{"ev", "turn_complete"}, {"data", {{"result", "end_turn"}}}});
    CHECK(events[6]["ev"] == "done");
    CHECK(lab.wishes().log.find("a stray line") != std::string::npos);
}

TEST_CASE("an interrupt cancels an ACP turn and what it asks, and the next turn works") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "write");
    lab.agent(permission(7, {{"toolCallId", "c1"}}));
    lab.to_agent();
    lab.events();
    lab.host({{"cmd", "interrupt"}, {"turn", "t0"}});
    CHECK(lab.to_agent().empty());
    lab.host({{"cmd", "interrupt"}, {"turn", "t1"}});
    const auto told = lab.to_agent();
    REQUIRE(told.size() == 2);
    CHECK(told[0] == reply(7, {{"outcome", {{"outcome", "cancelled"}}}}));
    CHECK(told[1]["method"] == "session/cancel");
    CHECK_FALSE(told[1].contains("id"));
    // Nobody is asked any more.
    lab.agent(permission(8, {{"toolCallId", "c2"}}));
    CHECK(lab.to_agent() == std::vector<Json>{reply(8, {{"outcome", {{"outcome", "cancelled"}}}})});
    SECTION("it says that it was cancelled") {
        lab.agent(reply(3, {{"stopReason", "cancelled"}}));
    }
    SECTION("it calls that an error") {
        lab.agent(refusal(3, -32603, "aborted"));
    }
    const auto events = lab.events();
    CHECK(events.at(events.size() - 2)["data"]["result"] == "interrupted");
    CHECK(events.back()["ev"] == "done");
    for (const auto& event : events)
        CHECK(event["ev"] != "error");
    lab.query("t2", "again");
    lab.agent(chunk("agent_message_chunk", "here"));
    lab.agent(reply(4, {{"stopReason", "end_turn"}}));
    CHECK(lab.event_names() == "text_delta turn_complete done");
}

TEST_CASE("a prompt that an ACP agent refuses is an error, and a request that nobody knows is answered") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "hello");
    lab.to_agent();
    lab.events();
    lab.agent({{"jsonrpc", "2.0"}, {"id", "x"}, {"method", "fs/read_text_file"}, {"params", Json::object()}});
    CHECK(lab.to_agent().at(0)["error"]["code"] == -32601);
    lab.agent(refusal(3, -32603, "no credit"));
    const auto events = lab.events();
    REQUIRE(events.size() == 2);
    CHECK(events[0] == Json{{"ev", "error"}, {"data", {{"code", "agent_error"}, {"message", "no credit"}}}});
    CHECK(events[1]["ev"] == "done");
}

TEST_CASE(
    "a line of an ACP agent beyond the bound is answered as its beginning asks, and ends what it would") {
    Lab lab({"", "", "/workspace"});
    SECTION("before the agent is ready") {
        lab.agent_head(R"({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":")");
        CHECK(lab.wishes().failure.find("refused to initialize: the agent wrote a line beyond") == 0);
        return;
    }
    begin(lab);
    lab.query("t1", "write");
    lab.query("t2", "next");
    lab.to_agent();
    lab.events();
    lab.agent_head(
        R"({"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"rawInput":")");
    CHECK(lab.to_agent() == std::vector<Json>{reply(7, {{"outcome", {{"outcome", "cancelled"}}}})});
    lab.agent_head(R"({"jsonrpc":"2.0","id":"w","method":"fs/write_text_file","params":{"content":")");
    CHECK(lab.to_agent().at(0)["error"]["code"] == -32601);
    lab.agent_head(R"({"jsonrpc":"2.0","method":"session/update","params":{"update":")");
    lab.agent_head(R"(noise)");
    CHECK(lab.to_agent().empty());
    CHECK(lab.event_names() == "error error error error");
    SECTION("the turn ends well") {
        lab.agent_head(R"({"jsonrpc":"2.0","id":3,"result":{"stopReason":"max_tokens","_meta":{"x":")");
        CHECK(lab.are_taken());
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"]["result"] == "max_tokens");
        CHECK(events[2]["ev"] == "done");
    }
    SECTION("what it says of its turn comes last") {
        lab.agent_long(R"({"result":{"_meta":{"x":[")" + std::string(4096, 'x') +
                       R"("]},"stopReason":"refusal"},"jsonrpc":"2.0","id":3})");
        CHECK(lab.are_taken());
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"]["result"] == "refusal");
        CHECK(events[2]["ev"] == "done");
    }
    SECTION("the prompt is refused") {
        lab.agent_head(R"({"jsonrpc":"2.0","id":3,"error":{"message":"no credit","data":")");
        const auto events = lab.events();
        REQUIRE(events.size() == 3);
        CHECK(events[1]["data"]["message"] == "no credit");
        CHECK(events[2]["ev"] == "done");
    }
    CHECK(lab.to_agent().at(0)["params"]["prompt"][0]["text"] == "next");
}

TEST_CASE("a query that comes before the end of an abandoned turn begins after it") {
    Lab lab({"", "", "/workspace"});
    begin(lab);
    lab.query("t1", "slow");
    lab.host({{"cmd", "interrupt"}, {"turn", "t1"}});
    lab.to_agent();
    lab.query("t2", "next");
    CHECK(lab.to_agent().empty());
    lab.agent(reply(3, {{"stopReason", "cancelled"}}));
    CHECK(lab.to_agent().at(0)["params"]["prompt"][0]["text"] == "next");
}

}  // namespace atl::test::acp_test
