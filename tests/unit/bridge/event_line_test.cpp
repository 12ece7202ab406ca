#include "bridge/event_line.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "bridge/event_shape.hpp"
#include "bridge/protocol.hpp"
#include "core/base/limits.hpp"
#include "core/plain/utf8.hpp"

namespace atl::bridge::event_line_test {
namespace {

std::string nested(std::size_t depth) {
    std::string text;
    for (std::size_t i = 1; i < depth; ++i)
        text += "{\"a\":";
    text += "{}";
    return text.append(depth - 1, '}');
}

std::string message(std::string_view data) {
    return "{\"ev\":\"message\",\"data\":" + std::string(data) + "}";
}

constexpr std::array<std::string_view, 17> k_good = {
    R"({"ev":"text_delta","data":{"delta":"x"}})",
    R"({"ev":"text_delta","data":{"delta":"","stream":"stdout"}})",
    R"({"ev":"text_delta","data":{"stream":"std\u0065rr","delta":"x","mine":{"delta":1}}})",
    R"({"data":{"delta":"x"},"ev":"thinking_delta"})",
    R"({"ev":"tool_use","data":{"id":"1","name":"n","input":{"id":2}}})",
    R"({"ev":"tool_result","data":{"toolUseId":"1","content":"x","isError":false}})",
    R"({"ev":"tool_result","data":{"toolUseId":"1","content":[{"type":"text"}],"isError":true}})",
    R"({"ev":"tool_result","data":{"toolUseId":"1","content":null,"isError":true}})",
    R"({"ev":"message","data":{"delta":1,"code":[],"isError":"x"}})",
    R"({"ev":"turn_complete","data":{"result":"success"}})",
    R"({"ev":"turn_complete","data":{"result":"","exitCode":-1,"signal":"SIGINT"}})",
    R"({"ev":"error","data":{"code":"c","message":"m"}})",
    R"({"ev":"permission_request","data":{"id":"p","toolUseId":"","options":[{"optionId":"y"}]}})",
    R"({"ev":"permission_cancel","data":{"id":"p"}})",
    R"({"ev":"plan","data":{"entries":[]}})",
    R"({"ev":"done","data":{"id":1}})",
    R"({"ev":"done"})"};

}  // namespace

TEST_CASE("an event's payload is the agent's own text, byte for byte") {
    const std::string data =
        GENERATE(as<std::string>{}, "{}", "{ }", R"({"a":1.0,"b":1,"c":1e2,"d":-0.0})",
                 R"({"big":123456789012345678901234567890})", R"({"z":1,"a":2,"z":3})",
                 R"({"s":"\u00e9\/\ud83d\ude00\n"})", "{\"s\":\"\xC3\xA9\xF0\x9F\x98\x80\"}",
                 R"({"ev":"done","data":{"data":[]}})", R"({"a":[1,[2,{"b":"}]\""}]] , "c":null})",
                 R"({"nul":"\u0000"})", R"({"tiny":1e-400})");
    CAPTURE(data);
    const std::string line = message(data);
    const auto event = parse_event_line(line);
    REQUIRE(event.has_value());
    CHECK(event->name == "message");
    CHECK(event->data == data);
    CHECK(event->data.data() == line.data() + line.find(data));
}

TEST_CASE("members may come in any order, with white space, and unknown ones are ignored") {
    const auto event =
        parse_event_line(R"( { "id" : [1,{"ev":"x"}] , "data" : {"a" : 1} , "n":null, "ev" : "message" } )");
    REQUIRE(event.has_value());
    CHECK(event->name == "message");
    CHECK(event->data == R"({"a" : 1})");
    CHECK(parse_event_line("{\"ev\":\"done\",\"data\":{}}\r").has_value());
}

TEST_CASE("every event that an agent may write is known, and its name may be escaped") {
    for (const std::string_view line : k_good)
        CHECK(parse_event_line(line).has_value());
    for (const EventShape& shape : k_event_shapes)
        CHECK(std::any_of(k_good.begin(), k_good.end(), [&](std::string_view line) {
            return parse_event_line(line).value().name == shape.event;
        }));
    CHECK(parse_event_line(R"({"ev":"d\u006fne"})").value().name == "done");
}

TEST_CASE("done needs no data, everything else does") {
    const auto event = parse_event_line(R"({"ev":"done"})");
    REQUIRE(event.has_value());
    CHECK(event->data == "{}");
    CHECK_FALSE(parse_event_line(R"({"ev":"message"})").has_value());
}

TEST_CASE("a line that is not an event is refused with a sentence that quotes it and lists what is allowed") {
    const std::string line = GENERATE(
        as<std::string>{}, "", " ", "garbage", "null", "1", "\"ev\"", "[]", "{}", "{", "{\"ev\"",
        "{\"ev\":\"done\"", R"({"ev":"done"}x)", R"({"ev":"done"}{"ev":"done"})", R"({"ev":"done",})",
        R"({"ev":"ready","data":{}})", R"({"ev":"agent_exit","data":{}})",
        R"({"ev":"session_start","data":{}})", R"({"ev":"","data":{}})", R"({"ev":1,"data":{}})",
        R"({"ev":null,"data":{}})", R"({"ev":["done"],"data":{}})", R"({"ev":{"done":1},"data":{}})",
        R"({"ev":true,"data":{}})", R"({"data":{}})", R"({"ev":"message","data":[]})",
        R"({"ev":"message","data":"x"})", R"({"ev":"message","data":null})", R"({"ev":"message","data":1})",
        R"({"ev":"message","data":true})", R"({"ev":"done","ev":"done"})",
        R"({"ev":"message","data":{},"data":{}})", R"({"ev":"message","data":{"a":01}})",
        R"({"ev":"message","data":{"a":NaN}})", R"({"ev":"message","data":{"a":1e400}})",
        R"({"ev":"message","data":{'a':1}})", R"({"ev":"message","data":{"a":1,}})",
        R"({"ev":"message","data":{/**/}})", R"({"ev":"message","data":{"a":"\ud800"}})",
        R"({"ev":"message","data":{"a":"\x"}})", "{\"ev\":\"message\",\"data\":{\"a\":\"\xFF\"}}",
        "{\"ev\":\"message\",\"data\":{\"a\":\"\xC0\x80\"}}",
        "{\"ev\":\"message\",\"data\":{\"a\":\"\xED\xA0\x80\"}}",
        "{\"ev\":\"message\",\"data\":{\"a\":\"\xE2\x82\"}}", "{\"ev\":\"message\",\"data\":{\"a\":\"\t\"}}",
        "{\"ev\":\"message\",\"data\":{\"a\":\r1}}", "{\"ev\":\"done\"}\nx",
        std::string("{\"ev\":\"done\"}\0x", 15), std::string("{\"ev\":\"done\"}\0", 14));
    CAPTURE(line);
    const auto event = parse_event_line(line);
    REQUIRE_FALSE(event.has_value());
    CHECK(event.error().code() == base::Errc::bridge_failed);
    const std::string why = event.error().detail();
    CHECK(base::is_utf8(why));
    CHECK(why.find("; the line: ") != std::string::npos);
    CHECK((why.find("text_delta, message, done") != std::string::npos ||
           why.find("its `data` is ") != std::string::npos));
    CHECK(why.size() < 600);
}

TEST_CASE(
    "a refusal quotes the line as it came: cut between characters, repaired and escaped by nobody yet") {
    CHECK(
        parse_event_line("say \"hi\"\\n \xC3\xA9").error().detail() ==
        "a line that is not valid JSON in UTF-8; the line: say \"hi\"\\n \xC3\xA9; an event is "
        "{\"ev\":NAME,\"data\":{\xE2\x80\xA6}} with one of the names text_delta, message, done, error, "
        "thinking_delta, tool_use, tool_result, turn_complete, permission_request, permission_cancel, plan");
    const std::string unknown = parse_event_line(R"({"ev":"text\ndel\"ta","data":{}})").error().detail();
    CHECK(
        unknown.starts_with("`text\ndel\"ta` is no event of an agent; the line: "
                            R"({"ev":"text\ndel\"ta","data":{}}; an event is )"));
    const std::string odd(base::k_quoted_line_bytes - 1, 'x');
    CHECK(parse_event_line(odd + "\xC3\xA9").error().detail().find("line: " + odd + "\xE2\x80\xA6;") !=
          std::string::npos);
    CHECK(parse_event_line("\xFF").error().detail().find("line: \xEF\xBF\xBD;") != std::string::npos);
    const std::string name(1000, 'n');
    CHECK(parse_event_line("{\"ev\":\"" + name + "\",\"data\":{}}").error().detail().size() < 500);
}

TEST_CASE("data that is not as documented is refused by the name of its member") {
    const auto [line, why] = GENERATE(table<std::string, std::string>(
        {{R"({"ev":"text_delta","data":{}})", "`delta` of `text_delta` is missing"},
         {R"({"ev":"text_delta","data":{"delta":1}})", "`delta` of `text_delta` is not a string"},
         {R"({"data":{"delta":{"delta":"x"}},"ev":"text_delta"})", "`delta` of `text_delta` is not a string"},
         {R"({"ev":"text_delta","data":{"delta":"a","delta":"b"}})",
          "`delta` of `text_delta` is given twice"},
         {R"({"ev":"text_delta","data":{"delta":"a","stream":"stdin"}})",
          "`stream` of `text_delta` is not \"stdout\" or \"stderr\""},
         {R"({"ev":"text_delta","data":{"delta":"a","stream":null}})",
          "`stream` of `text_delta` is not \"stdout\" or \"stderr\""},
         {R"({"ev":"thinking_delta","data":{"delta":null}})", "`delta` of `thinking_delta` is not a string"},
         {R"({"ev":"tool_use","data":{"id":"1","name":"n"}})", "`input` of `tool_use` is missing"},
         {R"({"ev":"tool_use","data":{"id":"1","name":"n","input":[]}})",
          "`input` of `tool_use` is not an object"},
         {R"({"ev":"tool_use","data":{"id":1,"name":"n","input":{}}})", "`id` of `tool_use` is not a string"},
         {R"({"ev":"tool_result","data":{"toolUseId":"1","isError":true}})",
          "`content` of `tool_result` is missing"},
         {R"({"ev":"tool_result","data":{"toolUseId":"1","content":"","isError":"no"}})",
          "`isError` of `tool_result` is not a boolean"},
         {R"({"ev":"turn_complete","data":{}})", "`result` of `turn_complete` is missing"},
         {R"({"ev":"turn_complete","data":{"result":"x","exitCode":1.5}})",
          "`exitCode` of `turn_complete` is not an integer"},
         {R"({"ev":"turn_complete","data":{"result":"x","exitCode":"0"}})",
          "`exitCode` of `turn_complete` is not an integer"},
         {R"({"ev":"error","data":{"code":"x"}})", "`message` of `error` is missing"},
         {R"({"ev":"error","data":{"code":[],"message":""}})", "`code` of `error` is not a string"},
         {R"({"ev":"error"})", "`error` without `data`"}}));
    CAPTURE(line);
    const auto event = parse_event_line(line);
    REQUIRE_FALSE(event.has_value());
    CHECK(event.error().detail().starts_with(why + "; the line: " + line.substr(0, 60)));
    CHECK(event.error().detail().find("; its `data` is {") != std::string::npos);
}

TEST_CASE("nesting is bounded, and 100,000 levels cost nothing") {
    CHECK(parse_event_line(message(nested(base::k_max_event_depth))).has_value());
    const auto deeper = parse_event_line(message(nested(base::k_max_event_depth + 1)));
    REQUIRE_FALSE(deeper.has_value());
    CHECK(deeper.error().detail().starts_with("JSON nested too deep; the line: "));
    for (const char bracket : {'[', '{'}) {
        const auto hostile = parse_event_line(message("{\"a\":" + std::string(100'000, bracket)));
        REQUIRE_FALSE(hostile.has_value());
    }
}

TEST_CASE("every prefix of an event is refused") {
    const std::string line = message(R"({"a":[1,{"b":"\u00e9"}],"c":-1.5e3})");
    REQUIRE(parse_event_line(line).has_value());
    for (std::size_t size = 0; size < line.size(); ++size)
        CHECK_FALSE(parse_event_line(std::string_view(line).substr(0, size)).has_value());
}

TEST_CASE("what the built-in agents write passes the host's check") {
    std::string lines;
    const std::string text = "a\"\\\n\r\t\x01\x7f \xE2\x82\xAC";
    append_text_deltas(lines, text);
    append_text_deltas(lines, text, "stderr");
    lines += encode_error_event("c", text);
    lines += k_done_line;
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t newline = lines.find('\n', at);
        CHECK(parse_event_line(std::string_view(lines).substr(at, newline - at)).has_value());
        at = newline + 1;
    }
}

TEST_CASE("a long text is cut into deltas between characters, each within the host's line bound") {
    std::string text(1, 'x');
    while (text.size() < 3 * k_max_delta_bytes)
        text += "\xF0\x9F\x98\x80";
    text.append(k_max_delta_bytes, '\x01');
    std::string lines;
    append_text_deltas(lines, text);
    std::size_t deltas = 0;
    for (std::size_t at = 0; at < lines.size(); ++deltas) {
        const std::size_t newline = lines.find('\n', at);
        CHECK(newline - at <= base::k_max_event_line_bytes);
        CHECK(parse_event_line(std::string_view(lines).substr(at, newline - at)).has_value());
        at = newline + 1;
    }
    CHECK(deltas == 5);
}

}  // namespace atl::bridge::event_line_test
