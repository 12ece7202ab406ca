#include "http/api/transcript.hpp"

#include <catch2/catch_test_macros.hpp>

namespace transcript_test {

using namespace atl;
using conversation::EventType;
using http::TranscriptFormat;
using http::TranscriptWriter;

namespace {

/// A transcript of events that a test adds.
struct Transcript {
    TranscriptWriter writer;
    std::string text;
    std::uint64_t seq = 0;

    explicit Transcript(TranscriptFormat format) : writer(format) {}
    void add(EventType type, const std::string& data) {
        writer.add(*conversation::make_event(++seq, type, base::WallTime{}, 1, data), text);
    }
    std::string finished() {
        writer.end(text);
        return text;
    }
};

conversation::View view() {
    conversation::View made;
    made.record.id = "c1";
    made.record.agent = "shell";
    made.record.title = "A title\nin two lines";
    return made;
}

constexpr const char* k_at = R"("at":"1970-01-01T00:00:00.000Z")";

}  // namespace

TEST_CASE("A transcript in Markdown has questions, answers, tools and errors, and nothing of the sandbox") {
    Transcript made(TranscriptFormat::markdown);
    made.writer.begin(view(), made.text);
    made.add(EventType::sandbox_ready, R"({"generation":1})");
    made.add(EventType::turn_start, R"({"by":"eve","content":"What is\n# this?"})");
    made.add(EventType::thinking_delta, R"({"delta":"hm"})");
    made.add(EventType::text_delta, R"({"delta":"It is "})");
    made.add(EventType::text_delta, R"({"delta":"a test."})");
    made.add(EventType::tool_use, R"({"id":"u","name":"read","input":{"path":"a"}})");
    made.add(EventType::tool_result, R"({"toolUseId":"u","content":"x\ny","isError":true})");
    made.add(EventType::text_delta, R"({"delta":"one\n# no","stream":"stdout"})");
    made.add(EventType::text_delta, R"({"delta":" head\n","stream":"stderr"})");
    made.add(EventType::error, R"({"code":"oom","message":"too much"})");
    made.add(EventType::turn_complete, R"({"result":"failed","exitCode":3})");
    made.add(EventType::done, "{}");
    CHECK(made.finished() == R"(# A title in two lines

Agent shell, created 1970-01-01T00:00:00.000Z.

## User (eve)

> What is
> # this?

## shell

It is a test.

**Tool** read

    {"path":"a"}

**Result** (error)

    x
    y

    one
    # no head

**Error** oom

    too much

_Exit code 3_

)");
}

TEST_CASE("A transcript in JSON Lines has one object a line, text deltas joined") {
    Transcript made(TranscriptFormat::jsonl);
    made.writer.begin(view(), made.text);
    made.add(EventType::turn_start, R"({"content":"a \"b\""})");
    made.add(EventType::text_delta, R"({"delta":"one \"x\"\n"})");
    made.add(EventType::text_delta, R"({"delta":"two"})");
    made.add(EventType::message, R"({"type":"assistant"})");
    made.add(EventType::tool_use, R"({"id":"u","name":"read","input":{}})");
    made.add(EventType::tool_result, R"({"toolUseId":"u","content":"x","isError":false})");
    made.add(EventType::turn_complete, R"({"result":"success"})");
    made.add(EventType::text_delta, R"({"delta":"end"})");
    const std::string at = std::string(R"(","turn":"t1",)") + k_at;
    CHECK(made.finished() ==
          R"({"role":"user)" + at + R"(,"content":"a \"b\""})" + "\n" + R"({"role":"assistant)" + at +
              R"(,"content":"one \"x\"\ntwo"})" + "\n" + R"({"role":"assistant)" + at +
              R"(,"message":{"type":"assistant"}})" + "\n" + R"({"role":"assistant)" + at +
              R"(,"toolUse":{"id":"u","name":"read","input":{}}})" + "\n" + R"({"role":"tool)" + at +
              R"(,"toolResult":{"toolUseId":"u","content":"x","isError":false}})" + "\n" +
              R"({"role":"system)" + at + R"(,"type":"turn_complete","data":{"result":"success"}})" + "\n" +
              R"({"role":"assistant)" + at + R"(,"content":"end"})" + "\n");
}

TEST_CASE("Nothing is built of values in the data of events: a transcript has their text as it is") {
    const std::string many = R"([{},{ },1e2,{"b":[ ],"a":-0.0}])";
    const std::string result =
        R"({"toolUseId":"u","isError":false,"content":)" + many + R"(,"x":)" + many + '}';
    Transcript lines(TranscriptFormat::jsonl);
    lines.add(EventType::tool_result, result);
    lines.add(EventType::turn_complete, R"({"result":"failed", "x":)" + many + '}');
    CHECK(lines.finished().find(",\"toolResult\":" + result + "}\n") != std::string::npos);
    CHECK(lines.text.find(R"(,"data":{"result":"failed", "x":)" + many + "}}\n") != std::string::npos);
    Transcript page(TranscriptFormat::markdown);
    page.add(EventType::tool_use, R"({"x":)" + many + R"(,"name":"read","input":{"a" :)" + many + "}}");
    page.add(EventType::tool_result, result);
    page.add(EventType::tool_result, R"({"content":null})");
    page.add(EventType::text_delta, R"({"x":)" + many + R"(,"delta":"text"})");
    page.add(EventType::turn_complete, R"({"exitCode":-1})");
    page.add(EventType::turn_complete, R"({"exitCode":0})");
    CHECK(page.finished() == "**Tool** read\n\n    {\"a\" :" + many + "}\n\n**Result**\n\n    " + many +
                                 "\n\n**Result**\n\n    null\n\ntext\n\n_Exit code -1_\n\n");
}

TEST_CASE("A transcript that is broken off says so") {
    for (const auto format : {TranscriptFormat::markdown, TranscriptFormat::jsonl}) {
        Transcript made(format);
        made.add(EventType::text_delta, R"({"delta":"half"})");
        made.writer.break_off(base::Error(base::Errc::token_expired, "gone"), made.text);
        CHECK(made.text.find(format == TranscriptFormat::markdown
                                 ? "half\n\n_The transcript is not complete (token_expired)._\n"
                                 : R"(half"}
{"role":"system","turn":null,"at":null,"type":"transcript_incomplete","data":{"code":"token_expired")") !=
              std::string::npos);
    }
}

TEST_CASE("A transcript leaves out events whose data has another form") {
    Transcript made(TranscriptFormat::markdown);
    made.add(EventType::text_delta, R"({"delta":7})");
    made.add(EventType::tool_use, R"([])");
    CHECK(made.finished().empty());
}

TEST_CASE("No line break leaves the block of a transcript that it is in") {
    Transcript made(TranscriptFormat::markdown);
    auto of = view();
    of.record.title = "a\r# b\nc";
    made.writer.begin(of, made.text);
    made.add(EventType::turn_start, R"({"by":"eve\n# x","content":"one\rtwo"})");
    made.add(EventType::text_delta, R"({"delta":"x\r## User\r\ny","stream":"stdout"})");
    CHECK(made.finished().find("# a # b c\n") == 0);
    CHECK(made.text.find("## User (eve # x)\n\n> one\r> two\n") != std::string::npos);
    CHECK(made.text.find("    x\r    ## User\r    \n    y") != std::string::npos);
}

TEST_CASE("A line that ends with an event of a transcript, and a name of an agent's, leave no block either") {
    Transcript made(TranscriptFormat::markdown);
    made.add(EventType::text_delta, R"({"delta":"x\r","stream":"stdout"})");
    made.add(EventType::text_delta, R"({"delta":"## User\n","stream":"stdout"})");
    made.add(EventType::tool_use, R"({"id":"u","name":"read\n\n## User","input":{}})");
    made.add(EventType::error, R"({"code":"oom\r\r## User","message":""})");
    CHECK(made.finished() ==
          "    x\r    ## User\n\n**Tool** read  ## User\n\n    {}\n\n"
          "**Error** oom  ## User\n\n\n");
}

}  // namespace transcript_test
