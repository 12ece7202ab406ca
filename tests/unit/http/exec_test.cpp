// The form of an exec, its run over an operation that the test plays, and both forms of its answer.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/base/base64.hpp"
#include "http/api/exec_answer.hpp"
#include "http/api/exec_stream.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/played_run.hpp"

namespace http_exec_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using http::ExecForm;
using http::Json;
using sandbox::OutputKind;
using State = http::BodyStream::State;

namespace {

base::Result<ExecForm> read(const std::string& text) {
    const auto body = http::parse_json(text);
    REQUIRE(body.has_value());
    return http::read_exec_form(*body);
}

const auto k_one = base::ShareHolder::user("one");
const auto k_other = base::ShareHolder::user("other");
constexpr std::size_t k_reserved = 2 * base::k_exec_reserved_bytes;
constexpr base::BudgetSpec k_budget{"exec", "bytes", "", 12 * k_reserved, 0};

std::unique_ptr<http::ExecCollector> collector_of(base::Budget& budget, const base::ShareHolder& holder,
                                                  std::size_t limit_bytes) {
    return std::make_unique<http::ExecCollector>(
        budget.take(holder, http::reserved_output_bytes(limit_bytes)).value(), limit_bytes);
}

/// A sandbox with a lease, and what an exec needs.
struct Stage {
    FakeClock clock;
    FakeTimers timers{clock};
    int released = 0;
    conversation::LeaseTable book{timers, [this](conversation::LeaseUse) { ++released; }};
    PlayedRun play;
    base::Budget budget{k_budget};

    std::unique_ptr<conversation::Lease> lease() {
        std::unique_ptr<conversation::Lease> held;
        book.add("sandbox", conversation::LeaseUse::request,
                 [&held](auto reply) { held = std::move(*reply); });
        book.grant();
        settle();
        return held;
    }
    void settle() {
        while (timers.run_deferred()) {
        }
    }
    std::unique_ptr<http::ExecStream> stream(const std::string& form, http::EventNames names = {}) {
        ExecForm asked = *read(form);
        auto made = std::make_unique<http::ExecStream>(http::StreamLease(), names, asked.max_output_bytes);
        made->start(lease(), play, std::move(asked), clock, timers);
        return made;
    }
    std::unique_ptr<http::ExecRun> run(http::ExecSink& sink, const std::string& form) {
        return std::make_unique<http::ExecRun>(lease(), play, *read(form), sink, clock, timers);
    }
};

std::string pull(http::ExecStream& stream, State expected, std::size_t limit_bytes = 1 << 20) {
    std::string out;
    CHECK(stream.pull(out, limit_bytes) == expected);
    return out;
}

Json answer_of(std::unique_ptr<http::ExecCollector> collector, const http::ExecEnd& end) {
    collector->close();
    http::ExecAnswer answer(end, std::move(collector));
    std::string text;
    while (answer.next(text)) {
    }
    INFO(text);
    return Json::parse(text);
}

std::string all_bytes() {
    std::string bytes;
    for (int i = 0; i < 256; ++i)
        bytes.push_back(static_cast<char>(i));
    return bytes;
}

}  // namespace

TEST_CASE("input of an exec is in the budget until the program has taken it, or has ended") {
    Stage stage;
    const std::string form = R"({"command":"cat","stdin":")" + std::string(600, 'x') + R"("})";
    ExecForm asked = *read(form);
    asked.input_share = *stage.budget.take(k_one, asked.input.size());
    const auto collector = collector_of(stage.budget, k_other, 0);
    stage.play.room = 100;
    http::ExecRun run(stage.lease(), stage.play, std::move(asked), *collector, stage.clock, stage.timers);
    stage.play.observer->on_started(7);
    CHECK(stage.budget.used() == 600);
    SECTION("taken") {
        stage.play.room = SIZE_MAX;
        stage.play.observer->on_input_room();
        CHECK(stage.play.input.size() == 600);
    }
    SECTION("ended") {
        stage.play.observer->on_exit({0, 0, false});
    }
    CHECK(stage.budget.used() == 0);
}

TEST_CASE("base64 comes back as it went, and only in its one form") {
    std::string bytes = all_bytes();
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        std::string text;
        base::append_base64(text, std::string_view(bytes).substr(0, size));
        REQUIRE(base::decode_base64(text) == bytes.substr(0, size));
    }
    std::string text;
    base::append_base64(text, "foob");
    CHECK(text == "Zm9vYg==");
    for (const char* wrong :
         {"Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "=Zm9", "Zm9-", "Zg==Zg=="})
        CHECK_FALSE(base::decode_base64(wrong).has_value());
}

TEST_CASE("the form of an exec has defaults, and one of command and argv") {
    const auto shell = read(R"({"command":"ls"})");
    REQUIRE(shell.has_value());
    CHECK(shell->spec.command == "ls");
    CHECK(shell->spec.timeout == std::chrono::seconds(30));
    CHECK(shell->spec.directory.empty());
    CHECK(shell->spec.stdin_kind == sandbox::RunSpec::Stdin::none);
    CHECK(shell->max_output_bytes == 1024U * 1024);
    const auto full = read(
        R"({"argv":["a","","c"],"cwd":"x/y","env":{"A":"1"},"stdin":"","timeoutMs":1,"maxOutputBytes":0})");
    REQUIRE(full.has_value());
    CHECK(full->spec.argv == std::vector<std::string>{"a", "", "c"});
    CHECK(full->spec.directory == "x/y");
    CHECK(full->spec.env == sandbox::Environment{{"A", "1"}});
    CHECK(full->spec.stdin_kind == sandbox::RunSpec::Stdin::pipe);
    CHECK(full->spec.timeout == std::chrono::milliseconds(1));
    CHECK(full->max_output_bytes == 0U);
    CHECK(read(R"({"command":"cat","stdinBase64":"AP8="})")->input == std::string("\0\xff", 2));
}

TEST_CASE("the form of an exec refuses what it does not know, and says where") {
    struct Row {
        const char* body;
        Errc code;
        const char* pointer;
    };
    const Row rows[] = {
        {R"({})", Errc::invalid_field, ""},
        {R"({"command":"a","argv":["a"]})", Errc::invalid_field, ""},
        {R"({"command":""})", Errc::invalid_field, "/command"},
        {R"({"command":"a\u0000b"})", Errc::invalid_field, "/command"},
        {R"({"command":7})", Errc::invalid_field, "/command"},
        {R"({"command":null})", Errc::invalid_field, "/command"},
        {R"({"argv":[]})", Errc::invalid_field, "/argv"},
        {R"({"argv":"ls"})", Errc::invalid_field, "/argv"},
        {R"({"argv":[""]})", Errc::invalid_field, "/argv/0"},
        {R"({"argv":["a",1]})", Errc::invalid_field, "/argv/1"},
        {R"({"argv":["a","b","\u0000"]})", Errc::invalid_field, "/argv/2"},
        {R"({"command":"a","cwd":""})", Errc::invalid_field, "/cwd"},
        {R"({"command":"a","cwd":"a\u0000"})", Errc::invalid_field, "/cwd"},
        {R"({"command":"a","env":[]})", Errc::invalid_field, "/env"},
        {R"({"command":"a","env":{"A":1}})", Errc::invalid_field, "/env"},
        {R"({"command":"a","env":{"LD_PRELOAD":"x"}})", Errc::invalid_env, "/env"},
        {R"({"command":"a","env":{"ASH_SANDBOX_ID":"x"}})", Errc::invalid_env, "/env"},
        {R"({"command":"a","env":{"A=B":"x"}})", Errc::invalid_env, "/env"},
        {R"({"command":"a","env":{"A":"\u0000"}})", Errc::invalid_env, "/env"},
        {R"({"command":"a","stdin":"a","stdinBase64":"YQ=="})", Errc::invalid_field, "/stdinBase64"},
        {R"({"command":"a","stdinBase64":"a"})", Errc::invalid_field, "/stdinBase64"},
        {R"({"command":"a","timeoutMs":0})", Errc::invalid_field, "/timeoutMs"},
        {R"({"command":"a","timeoutMs":3600001})", Errc::invalid_field, "/timeoutMs"},
        {R"({"command":"a","timeoutMs":"1"})", Errc::invalid_field, "/timeoutMs"},
        {R"({"command":"a","maxOutputBytes":16777217})", Errc::invalid_field, "/maxOutputBytes"},
        {R"({"command":"a","maxOutputBytes":-1})", Errc::invalid_field, "/maxOutputBytes"},
        {R"({"command":"a","shell":"zsh"})", Errc::unknown_field, "/shell"},
        {R"([])", Errc::invalid_field, ""},
    };
    for (const Row& row : rows) {
        INFO(row.body);
        const auto form = read(row.body);
        REQUIRE(form.has_error());
        CHECK(form.error().code() == row.code);
        CHECK(form.error().pointer() == row.pointer);
    }
}

TEST_CASE("an argv has a bound of its own") {
    Json body = {{"argv", Json::array()}};
    for (std::size_t i = 0; i < base::k_max_exec_arguments; ++i)
        body["argv"].push_back("a");
    CHECK(read(body.dump())->spec.argv.size() == base::k_max_exec_arguments);
    body["argv"].push_back("a");
    const auto form = read(body.dump());
    REQUIRE(form.has_error());
    CHECK(form.error().code() == Errc::invalid_field);
    CHECK(form.error().pointer() == "/argv");
}

TEST_CASE("input goes to the program as it has room, then comes its end") {
    Stage stage;
    const auto collector = collector_of(stage.budget, k_one, 100);
    stage.play.room = 0;
    const auto run = stage.run(*collector, R"({"command":"cat","stdin":"hello"})");
    CHECK(stage.play.spec.stdin_kind == sandbox::RunSpec::Stdin::pipe);
    CHECK(stage.play.input.empty());
    stage.play.room = 2;
    stage.play.observer->on_started(7);
    CHECK(run->has_started());
    CHECK(stage.play.input == "he");
    CHECK_FALSE(stage.play.input_closed);
    stage.play.room = 10;
    stage.play.observer->on_input_room();
    CHECK(stage.play.input == "hello");
    CHECK(stage.play.input_closed);
}

TEST_CASE("a program that ended gives its lease back and says how long it took") {
    Stage stage;
    const auto collector = collector_of(stage.budget, k_one, 100);
    const auto run = stage.run(*collector, R"({"command":"true"})");
    int changes = 0;
    run->on_change([&changes] { ++changes; });
    stage.play.observer->on_started(7);
    stage.clock.advance(base::Millis(5));
    CHECK(stage.released == 0);
    stage.play.observer->on_exit({3, 0, false});
    REQUIRE(run->end().has_value());
    CHECK((*run->end())->exit == sandbox::RunExit{3, 0, false});
    CHECK((*run->end())->duration == base::Millis(5));
    CHECK(stage.released == 1);
    CHECK(stage.timers.idle());
    CHECK(changes == 2);
}

TEST_CASE("destroying an exec cancels its program and gives its lease back") {
    Stage stage;
    const auto collector = collector_of(stage.budget, k_one, 100);
    auto run = stage.run(*collector, R"({"command":"true"})");
    stage.play.observer->on_started(7);
    run.reset();
    CHECK(stage.play.observer == nullptr);
    CHECK(stage.released == 1);
    CHECK(stage.timers.idle());
}

TEST_CASE("an exec whose sandbox ends tells why, whichever end is heard first") {
    Stage stage;
    const auto collector = collector_of(stage.budget, k_one, 100);
    const auto lease_first = stage.run(*collector, R"({"command":"true"})");
    stage.book.end(conversation::action::LeaseScope::all, base::Error(Errc::sandbox_gone, "oom"));
    stage.settle();
    REQUIRE(lease_first->end().has_value());
    CHECK(lease_first->end()->error().code() == Errc::sandbox_gone);
    CHECK(stage.play.observer == nullptr);

    const auto bridge_first = stage.run(*collector, R"({"command":"true"})");
    stage.play.observer->on_failed(base::Error(Errc::bridge_failed, "closed"));
    CHECK(stage.play.observer == nullptr);
    CHECK_FALSE(bridge_first->end().has_value());
    stage.book.end(conversation::action::LeaseScope::all, base::Error(Errc::sandbox_gone, "oom"));
    stage.settle();
    REQUIRE(bridge_first->end().has_value());
    CHECK(bridge_first->end()->error().detail() == "oom");

    const auto alone = stage.run(*collector, R"({"command":"true"})");
    stage.play.observer->on_failed(base::Error(Errc::bridge_failed, "closed"));
    CHECK(stage.timers.fire_next());
    REQUIRE(alone->end().has_value());
    CHECK(alone->end()->error().code() == Errc::bridge_failed);
    CHECK(stage.timers.idle());
}

TEST_CASE("a guest that never ends a program is not waited for for ever") {
    Stage stage;
    const auto collector = collector_of(stage.budget, k_one, 100);
    const auto run = stage.run(*collector, R"({"command":"true","timeoutMs":1000})");
    stage.play.observer->on_started(7);
    stage.timers.advance(base::Millis(30'999));
    CHECK_FALSE(run->end().has_value());
    stage.timers.advance(base::Millis(1));
    REQUIRE(run->end().has_value());
    CHECK(run->end()->error().code() == Errc::deadline_exceeded);
    CHECK(stage.play.observer == nullptr);
}

TEST_CASE("output beyond the bound is dropped, and no character is cut by it") {
    Stage stage;
    auto collector = collector_of(stage.budget, k_one, 4);
    collector->take(OutputKind::standard, "ab\xC3");
    collector->take(OutputKind::standard, "\xA4\xC3\xA4");
    collector->take(OutputKind::error, "abc\xC3\xA4");
    CHECK_FALSE(collector->is_full());
    const Json answer = answer_of(std::move(collector), {{0, SIGKILL, true}, base::Millis(7)});
    CHECK(answer == Json::parse(R"({"exitCode":null,"signal":"SIGKILL","timedOut":true,"stdout":"abä",
        "stderr":"abc","truncated":{"stdout":true,"stderr":true},"durationMs":7})"));
}

TEST_CASE("output that is not UTF-8 comes as base64, byte for byte") {
    Stage stage;
    auto collector = collector_of(stage.budget, k_one, 500);
    collector->take(OutputKind::standard, all_bytes());
    collector->take(OutputKind::error, "ends open \xC3");
    const Json answer = answer_of(std::move(collector), {{5, 0, false}, base::Millis(0)});
    CHECK(answer["exitCode"] == 5);
    CHECK(answer["signal"].is_null());
    CHECK_FALSE(answer.contains("stdout"));
    CHECK_FALSE(answer.contains("stderr"));
    CHECK(base::decode_base64(answer["stdoutBase64"].get<std::string>()) == all_bytes());
    CHECK(base::decode_base64(answer["stderrBase64"].get<std::string>()) == "ends open \xC3");
    CHECK(answer["truncated"] == Json::parse(R"({"stdout":false,"stderr":false})"));
}

TEST_CASE("a long answer is made in pieces that fit together") {
    base::Budget budget{k_budget};
    const auto fill = [&budget](std::string_view text) {
        auto collector = collector_of(budget, k_one, 1 << 19);
        std::string long_text;
        while (long_text.size() < 200'000)
            long_text += text;
        collector->take(OutputKind::standard, long_text);
        const Json answer = answer_of(std::move(collector), {});
        const std::string found = answer.contains("stdout")
                                      ? answer["stdout"].get<std::string>()
                                      : *base::decode_base64(answer["stdoutBase64"].get<std::string>());
        CHECK(found == long_text);
    };
    fill("\"\\\n\x01 ä€𝄞");
    fill("\xff abc");
}

TEST_CASE("output that finds no room is dropped, the answer says why, and the program goes on") {
    Stage stage;
    const unsigned percent = GENERATE(50U, 100U);
    base::Budget budget{k_budget, percent};
    const auto others = budget.take(k_other, 4 * k_reserved);
    auto collector = collector_of(budget, k_one, base::k_max_exec_output_bytes);
    const std::string kept(base::k_exec_reserved_bytes + budget.room(k_one), 'x');
    const auto run = stage.run(*collector, R"({"command":"true"})");
    auto* const program = stage.play.observer;
    program->on_started(7);
    program->on_output(OutputKind::standard, kept + "\xC3\xA4");
    program->on_output(OutputKind::error, "y");
    CHECK(stage.play.observer != nullptr);
    program->on_output(OutputKind::standard, "z");
    CHECK_FALSE(collector->is_full());
    program->on_exit({3, 0, false});
    REQUIRE(run->end().has_value());
    const Json answer = answer_of(std::move(collector), **run->end());
    CHECK(answer["exitCode"] == 3);
    CHECK(answer["stdout"] == kept);
    CHECK(answer["stderr"] == "y");
    CHECK(answer["truncated"] == Json{{"stdout", true}, {"stderr", false}});
    CHECK(answer["truncatedBy"] == (percent == 100 ? "capacity" : "user_share"));
    CHECK(budget.held_by(k_one) == 0);
}

TEST_CASE("an exec that kept its output gives what it did not need back before its answer is sent") {
    base::Budget budget{k_budget};
    const auto collector = collector_of(budget, k_one, 1 << 19);
    collector->take(OutputKind::standard, "ab\xC3");
    collector->close();
    CHECK(budget.used() == 3);
}

TEST_CASE(
    "output of many blocks is answered byte for byte, and cut between characters at any of their borders") {
    constexpr std::size_t k_block = 192UL * 1024;
    std::string text;
    while (text.size() < 3 * k_block)
        text += "\xC3\xA4\"b\n";
    base::Budget budget{{"exec", "bytes", "", 64 * k_block, 0}};
    for (const std::size_t limit :
         {k_block - 1, k_block, k_block + 1, k_block + 2, 2 * k_block, text.size()}) {
        auto collector = collector_of(budget, k_one, limit);
        for (std::size_t at = 0; at < text.size(); at += 70'001)
            collector->take(OutputKind::standard, std::string_view(text).substr(at, 70'001));
        const std::size_t whole =
            limit - (limit == text.size() ? 0 : http::open_character(text.substr(limit - 3, 3)));
        CHECK(answer_of(std::move(collector), {})["stdout"] == text.substr(0, whole));
    }
}

// Eight such execs once made each exec of everybody answer `stdout: ""`.
TEST_CASE("execs of one user, however much they write, leave the others their output") {
    base::Budgets budgets;
    const std::string much(base::k_max_exec_output_bytes, 'x');
    std::vector<std::unique_ptr<http::ExecCollector>> greedy;
    while (budgets.exec.room(k_one) >= k_reserved) {
        greedy.push_back(collector_of(budgets.exec, k_one, base::k_max_exec_output_bytes));
        greedy.back()->take(OutputKind::standard, much);
        greedy.back()->take(OutputKind::error, "e");
        CHECK(greedy.back()->output(OutputKind::standard).bytes.size() >= base::k_exec_reserved_bytes);
        CHECK(greedy.back()->output(OutputKind::error).bytes.piece(0, 2) == "e");
    }
    CHECK(greedy.back()->truncated_by() == Errc::user_share);
    const auto other = collector_of(budgets.exec, k_other, base::k_max_exec_output_bytes);
    other->take(OutputKind::standard, much);
    CHECK(other->output(OutputKind::standard).bytes.size() == much.size());
}

TEST_CASE("output has no gap where room came back while its program ran") {
    base::Budget budget{k_budget};
    auto collector = collector_of(budget, k_one, base::k_max_exec_output_bytes);
    auto other = budget.take(k_other, 5 * k_reserved);
    collector->take(OutputKind::standard, std::string(base::k_exec_reserved_bytes, 'a'));
    auto same = budget.take(k_one, budget.room(k_one) - 1);
    collector->take(OutputKind::standard, "abc");
    *same = {};
    collector->take(OutputKind::standard, "d");
    CHECK(collector->output(OutputKind::standard).bytes.size() == base::k_exec_reserved_bytes + 1);
    CHECK(collector->output(OutputKind::standard).is_truncated);
}

TEST_CASE("a stream shows output in order, whole characters only, and the exit last") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true"})");
    CHECK(pull(*stream, State::waiting).empty());
    auto* const program = stage.play.observer;
    program->on_started(7);
    program->on_output(OutputKind::standard, "a\xE2\x82");
    program->on_output(OutputKind::error, "x\xff\xC3");
    CHECK(pull(*stream, State::waiting) ==
          "data: {\"type\":\"stdout\",\"text\":\"a\"}\n\n"
          "data: {\"type\":\"stderr\",\"base64\":\"eP8=\"}\n\n");
    program->on_output(OutputKind::standard, "\xAC!");
    program->on_exit({0, SIGTERM, true});
    CHECK(pull(*stream, State::finished) ==
          "data: {\"type\":\"stdout\",\"text\":\"€!\"}\n\n"
          "data: {\"type\":\"stderr\",\"base64\":\"ww==\"}\n\n"
          "data: {\"type\":\"exit\",\"exitCode\":null,\"signal\":\"SIGTERM\",\"timedOut\":true,"
          "\"durationMs\":0,\"truncated\":{\"stdout\":false,\"stderr\":false}}\n\n");
    CHECK(stage.released == 1);
}

TEST_CASE("a stream has names and a bound as the client asks for them") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true","maxOutputBytes":2})", http::EventNames::types);
    auto* const program = stage.play.observer;
    program->on_output(OutputKind::standard, "abc");
    program->on_output(OutputKind::error, "a\xC3\xA4");
    program->on_exit({1, 0, false});
    CHECK(pull(*stream, State::finished) ==
          "event: stdout\ndata: {\"type\":\"stdout\",\"text\":\"ab\"}\n\n"
          "event: stderr\ndata: {\"type\":\"stderr\",\"text\":\"a\"}\n\n"
          "event: exit\ndata: {\"type\":\"exit\",\"exitCode\":1,\"signal\":null,\"timedOut\":false,"
          "\"durationMs\":0,\"truncated\":{\"stdout\":true,\"stderr\":true}}\n\n");
}

TEST_CASE("a stream whose client names no bound has the default one, and its program goes on beyond it") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true"})");
    auto* const program = stage.play.observer;
    std::string text;
    const auto read_all = [&stream, &text](State expected) {
        std::string out = pull(*stream, expected, std::string::npos);
        for (std::size_t at = 0; (at = out.find("data: ", at)) != std::string::npos; ++at) {
            const Json frame = Json::parse(out.substr(at + 6, out.find('\n', at) - at - 6));
            text += frame.value("text", "");
        }
        return out;
    };
    const std::string piece(100'000, 'x');
    for (int i = 0; i < 20; ++i) {
        program->on_output(OutputKind::standard, piece);
        read_all(State::waiting);
    }
    CHECK(text == std::string(base::k_default_exec_output_bytes, 'x'));
    // Nobody reads, and what is dropped fills nothing.
    for (int i = 0; i < 20; ++i)
        program->on_output(OutputKind::standard, piece);
    CHECK_FALSE(program->is_full());
    program->on_output(OutputKind::error, "y");
    program->on_exit({0, 0, false});
    const std::string end = read_all(State::finished);
    CHECK(text.size() == base::k_default_exec_output_bytes + 1);
    CHECK(end.find("\"truncated\":{\"stdout\":true,\"stderr\":false}") != std::string::npos);
}

TEST_CASE(
    "Output that waits in a stream is of its user's share, and without room holds its program earlier") {
    base::Budget budget({"connections", "bytes", "", 1024UL * 1024}, 100);
    const auto ann = base::ShareHolder::user("ann");
    base::Share others = *budget.take(base::ShareHolder::user("bob"), budget.spec().total);
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true"})");
    stream->keep_within(http::OutputRoom(budget, ann));
    auto* const program = stage.play.observer;
    const std::string piece(10'000, 'x');
    std::size_t written = 0;
    while (!program->is_full()) {
        program->on_output(OutputKind::standard, piece);
        written += piece.size();
        REQUIRE(written < base::k_max_waiting_bytes);
    }
    CHECK(written < base::k_free_waiting_bytes + piece.size());
    CHECK(budget.held_by(ann) == 0);
    others = base::Share();
    std::string out;
    CHECK(stream->pull(out, 1) == State::more);
    CHECK(stage.play.resumes == 1);
    for (; !program->is_full(); written += piece.size())
        program->on_output(OutputKind::standard, piece);
    CHECK(written > base::k_max_waiting_bytes);
    CHECK(budget.held_by(ann) == base::k_max_waiting_bytes - base::k_free_waiting_bytes);
    CHECK(stream->pull(out, SIZE_MAX) == State::waiting);
    CHECK(budget.used() == 0);
}

TEST_CASE("a stream that is not read holds its program until there is room") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true","timeoutMs":1})");
    auto* const program = stage.play.observer;
    std::size_t written = 0;
    while (!program->is_full()) {
        program->on_output(OutputKind::standard, "x");
        program->on_output(OutputKind::error, "y");
        written += 2;
        REQUIRE(written < base::k_max_waiting_bytes);
    }
    // Its time is over, and the guest cannot tell.
    stage.timers.advance(base::Millis(40'000));
    CHECK(stage.play.observer != nullptr);
    CHECK(stage.play.resumes == 0);
    std::size_t frames = 0;
    std::string out;
    for (auto state = State::more; state == State::more; out.clear()) {
        state = stream->pull(out, 1024);
        CHECK(out.size() < 2048);
        for (std::size_t at = 0; (at = out.find("data:", at)) != std::string::npos; ++at)
            ++frames;
    }
    CHECK(frames == written);
    CHECK(stage.play.resumes == 1);
    CHECK_FALSE(program->is_full());
}

TEST_CASE("a stream that was full lately is not taken for a guest that is lost") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true","timeoutMs":1})");
    auto* const program = stage.play.observer;
    const auto fill = [program] {
        while (!program->is_full())
            program->on_output(OutputKind::standard, std::string(16UL * 1024, 'x'));
    };
    const auto empty = [&stream] {
        std::string out;
        while (stream->pull(out, 1024) == State::more)
            out.clear();
    };
    fill();
    empty();
    // At the moment of the timer there is room, and the rest of the output is on its way.
    stage.timers.advance(base::Millis(30'001));
    CHECK(stage.play.observer != nullptr);
    fill();
    stage.timers.advance(base::Millis(29'000));
    empty();
    stage.timers.advance(base::Millis(1'000));
    CHECK(stage.play.observer != nullptr);
    // The reader has all of it, and nothing comes.
    stage.timers.advance(base::Millis(29'999));
    CHECK(stage.play.observer != nullptr);
    stage.timers.advance(base::Millis(1));
    CHECK(stage.play.observer == nullptr);
    const std::string end = pull(*stream, State::finished);
    CHECK(end.find("\"code\":\"deadline_exceeded\"") != std::string::npos);
}

TEST_CASE("a stream whose program is lost ends with the reason") {
    Stage stage;
    const auto stream = stage.stream(R"({"command":"true"})");
    stage.play.observer->on_started(7);
    stage.book.end(conversation::action::LeaseScope::all, base::Error(Errc::sandbox_gone, "oom"));
    stage.settle();
    CHECK(pull(*stream, State::finished) ==
          "data: {\"type\":\"stream_closed\",\"code\":\"sandbox_gone\",\"detail\":\"oom\"}\n\n");
    std::string early;
    stream->end_early(Errc::shutting_down, early);
    CHECK(early.starts_with("data: {\"type\":\"stream_closed\",\"code\":\"shutting_down\""));
    std::string beat;
    stream->heartbeat(beat);
    CHECK(beat.starts_with(": "));
}

}  // namespace http_exec_test
