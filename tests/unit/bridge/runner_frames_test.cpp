#include "bridge/runner/frames.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>

#include "core/base/execution_limits.hpp"

namespace runner_frames_test {

using namespace atl::bridge::runner;

namespace {

std::string own(const std::string& rest) {
    return R"({"run":"r","nonce":"n",)" + rest + "}";
}
std::string call(int id) {
    return own(R"("type":"call","name":"t","args":[1],"id":)" + std::to_string(id));
}

HostMachine running(Limits limits = {}) {
    HostMachine machine;
    REQUIRE(std::holds_alternative<Ready>(machine.receive(R"({"type":"ready","engine":"e","version":"1"})")));
    std::string out;
    REQUIRE(machine.start(out, {"r", "n", "javascript", "return 1", {"t"}, limits}));
    REQUIRE_FALSE(machine.start(out, {}));
    return machine;
}

bool breaks(HostMachine machine, const std::string& frame) {
    return std::holds_alternative<Violation>(machine.receive(frame));
}

}  // namespace

TEST_CASE("Frames of a runner are read back in any pieces") {
    std::string bytes;
    REQUIRE(append_frame(bytes, R"({"a":1})"));
    REQUIRE(append_frame(bytes, "{}"));
    FrameReader reader;
    std::string found;
    for (const char byte : bytes) {
        reader.push({&byte, 1});
        while (const auto frame = reader.next())
            found += *frame + ';';
    }
    CHECK(found == R"({"a":1};{};)");
    CHECK(reader.is_between_frames());
    reader.push({"\x00\x40\x00\x01", 4});
    CHECK_FALSE(reader.next());
    CHECK(reader.refused());
    CHECK_FALSE(reader.is_between_frames());
    reader.push({"\x00\x00\x00\x01x", 5});
    CHECK_FALSE(reader.next());  // nothing is read behind a refusal
    CHECK_FALSE(append_frame(bytes, std::string(k_runner_frame_bytes + 1, ' ')));
}

TEST_CASE("A frame is charged whole: what it has beside what is passed on has a bound of its own") {
    const std::string padding = R"(,"pad":")" + std::string(15'000, 'x') + "\"";
    const auto frames_until_violation = [](const std::function<std::string(int)>& frame) {
        HostMachine machine = running({.max_calls = 1'000, .max_log_bytes = 16 * 1024 * 1024});
        std::string out;
        for (int count = 0; count < 400; ++count) {
            const Received received = machine.receive(frame(count + 1));
            if (std::holds_alternative<Violation>(received))
                return count;
            if (std::holds_alternative<Call>(received))
                REQUIRE(machine.answer(out, static_cast<std::uint64_t>(count) + 1, "1"));
        }
        return 400;
    };
    const int most = static_cast<int>(k_runner_spare_bytes / 14'000);
    CHECK(frames_until_violation(
              [&](int) { return own(R"("type":"log","level":"log","text":"")" + padding); }) <= most);
    CHECK(frames_until_violation([&](int id) {
              return own(R"("type":"call","name":"t","args":[],"id":)" + std::to_string(id) + padding);
          }) <= most);
    // The control: as many bytes that are passed on have only the bounds of what they are.
    CHECK(frames_until_violation([&](int) {
              return own(R"("type":"log","level":"log","text":")" + std::string(15'000, 'x') + "\"");
          }) == 400);
    CHECK(frames_until_violation([&](int id) {
              return own(R"("type":"call","name":"t","args":[")" + std::string(15'000, 'x') + R"("],"id":)" +
                         std::to_string(id));
          }) == 400);
}

TEST_CASE("A runner logs, calls and ends once") {
    HostMachine machine = running();
    CHECK(std::get<Log>(machine.receive(own(R"("type":"log","level":"warn","text":"x")"))).level == "warn");
    CHECK(std::get<Log>(machine.receive(own(R"("type":"log","level":"log","text":"\u00e9\/\b\u0001\"")")))
              .text_json == "\"\xc3\xa9/\\b\\u0001\\\"\"");
    CHECK(std::get<Call>(machine.receive(call(1))).args_json == "[1]");
    std::get<Call>(machine.receive(call(2)));
    std::string out;
    CHECK(machine.answer(out, 2, "{\"b\":null}"));
    CHECK(out.substr(4) == R"({"type":"call_result","run":"r","nonce":"n","id":2,"result":{"b":null}})");
    CHECK_FALSE(machine.answer(out, 2, "1"));
    CHECK_FALSE(machine.answer(out, 3, "1"));
    for (const char* const no_value : {"", "1,\"id\":1", "1}", "{\"a\":", "1 2"})
        CHECK_FALSE(machine.answer(out, 1, no_value));
    CHECK_FALSE(machine.answer(out, 1, std::string(200, '[') + std::string(200, ']')));
    CHECK_FALSE(machine.answer_checked(out, 1, ""));
    CHECK(machine.answer_error(out, 1, "no \"way\" \xff"));
    const Ended ended = std::get<Ended>(machine.receive(own(R"("type":"result")")));
    CHECK_FALSE(ended.value_json);
    CHECK(machine.ended());
    CHECK(breaks(machine, own(R"("type":"result")")));
}

TEST_CASE("A run without an id or a nonce is not started") {
    HostMachine machine;
    std::get<Ready>(machine.receive(R"({"type":"ready","engine":"e","version":"1"})"));
    std::string out;
    CHECK_FALSE(machine.start(out, {"r", "", "javascript", "", {}, {}}));
    CHECK_FALSE(machine.start(out, {"", "n", "javascript", "", {}, {}}));
    CHECK(out.empty());
    CHECK(machine.start(out, {"r", "n", "javascript", "", {}, {}}));
}

TEST_CASE("A result has a value or an error of a known kind") {
    CHECK(std::get<Ended>(running().receive(own(R"("type":"result","value":null)"))).value_json == "null");
    const auto failed = std::get<Ended>(
        running().receive(own(R"("type":"result","error":{"kind":"syntax","message":"m","line":3})")));
    CHECK(failed.failure->line == 3U);
    CHECK(breaks(running(), own(R"("type":"result","error":{"kind":"timeout","message":"m"})")));
    CHECK(breaks(running(), own(R"("type":"result","value":1,"error":{"kind":"syntax","message":"m"})")));
}

TEST_CASE("The message of an error is cut between characters where it is too long, and says so") {
    constexpr std::size_t k_most = atl::base::k_max_execution_error_bytes;
    const auto message_of = [](const std::string& message) {
        const std::string frame =
            own(R"("type":"result","error":{"kind":"runtime","message":")" + message + "\"}");
        return std::get<Ended>(running().receive(frame)).failure.value().message;
    };
    CHECK(message_of(std::string(k_most, 'x')) == std::string(k_most, 'x'));
    for (const std::string piece : {"x", "\xc3\xa9", "\xe2\x82\xac"}) {
        std::string text;
        while (text.size() < 2 * k_most)
            text += piece;
        const std::string cut = message_of(text);
        const std::string mark = "\xe2\x80\xa6 (cut at 64 KiB)";
        REQUIRE(cut.ends_with(mark));
        CHECK(cut.size() <= k_most);
        CHECK(cut.size() > k_most - piece.size());
        CHECK((cut.size() - mark.size()) % piece.size() == 0);
        CHECK(text.starts_with(cut.substr(0, cut.size() - mark.size())));
    }
    // The length is checked here, too: the reader of the frame may have cut nothing.
    RunnerFrame frame = read_frame(own(R"("type":"result","error":{"kind":"runtime","message":"m"})"), 100);
    CHECK(std::holds_alternative<Ended>(running().take(frame, 0)));
    frame.at(RunnerFrame::Member::error_message) = std::string(k_most + 1, 'x');
    CHECK(std::holds_alternative<Violation>(running().take(frame, 0)));
}

TEST_CASE("What may not come then breaks the protocol") {
    CHECK(breaks({}, own(R"("type":"result")")));
    for (const std::string& frame :
         {std::string("x"), std::string("[]"), std::string(R"({"type":1})"), own(R"("type":"unknown")"),
          own(R"("type":"call_result","id":1)"),
          std::string(R"({"type":"ready","engine":"e","version":"1"})"),
          std::string(R"({"type":"result","run":"r","nonce":"wrong"})"),
          std::string(R"({"type":"result","run":"r"})"), call(0), call(2),
          own(R"("type":"call","name":"t","args":{},"id":1)"),
          own(R"("type":"call","name":"other","args":[],"id":1)"),
          own(R"("type":"log","level":"loud","text":"")"),
          own(R"("type":"result","value":)" + std::string(100'000, '[') + std::string(100'000, ']'))})
        CHECK(breaks(running(), frame));
    HostMachine machine = running();
    std::get<Call>(machine.receive(call(1)));
    CHECK(breaks(machine, call(1)));  // the same id again
}

TEST_CASE("Calls, logs and values of a run are bounded") {
    HostMachine machine = running();
    for (int id = 1; id <= 32; ++id)
        std::get<Call>(machine.receive(call(id)));
    CHECK(breaks(machine, call(33)));
    HostMachine few = running({.max_calls = 1, .max_value_bytes = 4, .max_log_bytes = 20});
    std::get<Log>(few.receive(own(R"("type":"log","level":"log","text":"abc")")));
    CHECK(breaks(few, own(R"("type":"log","level":"log","text":"ab")")));
    CHECK(breaks(few, own(R"("type":"log","level":"log","text":"")")));  // an entry counts by itself
    CHECK(breaks(few, own(R"("type":"result","value":"abc")")));
    std::get<Call>(few.receive(call(1)));
    CHECK(breaks(few, call(2)));
    std::string out;
    CHECK_FALSE(few.answer(out, 1, "12345"));
    CHECK_FALSE(few.answer_checked(out, 1, "12345"));
    CHECK(out.empty());
    CHECK(few.answer(out, 1, "1234"));
}

TEST_CASE("An integer beyond 2^53 in an answer is a tagged bigint for the program") {
    const auto told = [](const std::string& json) {
        HostMachine machine = running();
        std::get<Call>(machine.receive(call(1)));
        std::string out;
        REQUIRE(machine.answer(out, 1, json));
        const std::size_t at = out.find("\"result\":") + 9;
        return out.substr(at, out.size() - at - 1);
    };
    const auto tagged = [](const std::string& digits) {
        return R"({"$atoll":"bigint","value":")" + digits + "\"}";
    };
    CHECK(told("9007199254740992") == tagged("9007199254740992"));
    CHECK(told(R"({"id":-9007199254740993,"n":[18446744073709551615]})") ==
          R"({"id":)" + tagged("-9007199254740993") + R"(,"n":[)" + tagged("18446744073709551615") + "]}");
    for (const std::string same :
         {"9007199254740991", "-9007199254740991", "[1e+20,12345678901234567.5,null,true,-0.0]",
          R"({"9007199254740993":"a\"9007199254740993\\","b":"9007199254740993"})"})
        CHECK(told(same) == same);
}

TEST_CASE("A frame that others have read is judged as one that is read here") {
    using Member = RunnerFrame::Member;
    const std::string frame = own(R"("type":"call","name":"t","args":[1, 2],"id":1)");
    CHECK(std::get<Call>(running().take(read_frame(frame, 100), frame.size())).args_json == "[1,2]");
    CHECK(std::holds_alternative<Violation>(running().take({}, 0)));
    for (const Member member :
         {Member::type, Member::run, Member::nonce, Member::id, Member::name, Member::args}) {
        RunnerFrame changed = read_frame(frame, 100);
        changed.at(member) = "9";
        if (member != Member::args)
            CHECK(std::holds_alternative<Violation>(running().take(changed, 0)));
        changed.at(member).reset();
        CHECK(std::holds_alternative<Violation>(running().take(changed, 0)));
    }
    const std::string log = own(R"("type":"log","level":"log","text":"a\nb")");
    CHECK(std::get<Log>(running().take(read_frame(log, 100), log.size())).text_json == R"("a\nb")");
    for (const char* const bytes : {"0", "5", "18446744073709551615", "x"}) {
        RunnerFrame changed = read_frame(log, 100);
        changed.at(Member::text_bytes) = bytes;
        CHECK(std::holds_alternative<Violation>(running().take(changed, 0)));
    }
    // The limits are checked here, too: the reader of the frame may have let more through.
    CHECK(std::holds_alternative<Violation>(
        running({.max_value_bytes = 4}).take(read_frame(frame, 100), frame.size())));
    CHECK(std::holds_alternative<Violation>(running().take(read_frame(frame, 4), frame.size())));
    HostMachine early;
    CHECK(std::holds_alternative<Violation>(early.take(read_frame(frame, 100), frame.size())));
}

}  // namespace runner_frames_test
