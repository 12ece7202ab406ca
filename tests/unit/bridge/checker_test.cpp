// The process that checks what takes long: what it answers, whose turn it is, and what becomes of work when
// it dies or stands still.
#include "bridge/checker/checker.hpp"

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "../isolation/fixture.hpp"
#include "bridge/checker/fields.hpp"
#include "bridge/checker/worker.hpp"
#include "core/base/limits.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/server_process.hpp"

namespace checker_test {

namespace {

using namespace atl;
using bridge::checker::Checker;
using bridge::checker::Worker;
using bridge::runner::RunnerFrame;
using Member = RunnerFrame::Member;
using Outcome = std::optional<base::Result<void>>;

std::string fields_of(const std::vector<std::string>& fields) {
    std::string out;
    for (const std::string& field : fields)
        bridge::checker::append_field(out, field);
    return out;
}

std::vector<std::string> answer_of(Worker& worker, const std::vector<std::string>& request) {
    const std::string answer = worker.answer(fields_of(request));
    std::vector<std::string> out;
    const auto fields = bridge::checker::split_fields(answer);
    REQUIRE(fields);
    for (const auto field : *fields)
        out.emplace_back(field);
    return out;
}

struct Bench {
    explicit Bench(bridge::checker::CheckerConfig config = {}) {
        if (config.program.empty())
            config.program = test::build_path("bin/atoll-checker");
        // Only an end of hangs: a busy machine may be slow.
        if (config.deadline == base::Millis(base::k_checker_deadline))
            config.deadline = test::k_client_deadline;
        checker.emplace(loop.context.get_executor(), loop.timers, std::move(config));
    }
    // SIGPIPE is ignored until here, as in the server: a write to a process that died is an error.
    ~Bench() { ::signal(SIGPIPE, sigpipe); }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;
    /// A check of arguments that fit or do not.
    std::unique_ptr<execution::OffloadedJob> ask(Outcome& outcome, const std::string& args = "[1]",
                                                 const std::string& user = "") {
        return checker->check(user, "t", R"({"type":"array","items":{"type":"number"}})", args,
                              [&outcome](base::Result<void> result) { outcome = std::move(result); });
    }
    base::Result<void> check(const std::string& args) {
        Outcome outcome;
        const auto work = ask(outcome, args);
        CHECK_FALSE(outcome);  // never from inside
        REQUIRE(loop.run_until([&] { return outcome.has_value(); }));
        return *outcome;
    }
    sighandler_t sigpipe = ::signal(SIGPIPE, SIG_IGN);
    test::Loop loop;
    std::optional<Checker> checker;
};

// Never to all processes: where none runs, its pid is -1.
int signal_to(pid_t pid, int number) {
    return pid > 0 ? ::kill(pid, number) : -1;
}

std::string state_of(pid_t pid, const std::string& key) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key))
            return line.substr(line.find_first_not_of(" \t", key.size()));
    return {};
}

}  // namespace

TEST_CASE("checker: fields are read back, and what is none is refused") {
    const std::string message = fields_of({"a", "", std::string("\0b", 2)});
    CHECK(bridge::checker::split_fields(message)->size() == 3);
    CHECK(bridge::checker::split_fields(message)->back() == std::string_view("\0b", 2));
    for (std::size_t cut = 1; cut < 5; ++cut)
        CHECK_FALSE(bridge::checker::split_fields(std::string_view(message).substr(0, cut)));
    CHECK_FALSE(
        bridge::checker::split_fields("\xff\xff\xff\xff"
                                      "a"));
}

TEST_CASE("checker: work is what the loop itself would do") {
    Worker worker;
    using Texts = std::vector<std::string>;
    CHECK(answer_of(worker, {"verify", "a", "{}", "b", R"({"type":"array"})"}) == Texts{"ok", ""});
    CHECK(answer_of(worker, {"verify", "a", R"({"$ref":"x"})"})[1].starts_with(R"([{"tool":"a",)"));
    const std::string deep = R"({"a":)" + std::string(40, '[') + std::string(40, ']') + "}";
    const Texts refused = answer_of(worker, {"verify", "a", "{}", "b", deep});
    CHECK(refused[0] == "no");
    CHECK(refused[1].find("'b': inputSchema: nested deeper") != std::string::npos);
    CHECK(answer_of(worker, {"declare", "a", "{}", "says"})[1].find("\"a\"(") != std::string::npos);
    for (int twice = 0; twice < 2; ++twice) {
        CHECK(answer_of(worker, {"check", "t", R"({"type":"array","maxItems":1})", "[1]"}) == Texts{"ok"});
        CHECK(answer_of(worker, {"check", "t", R"({"type":"array","maxItems":1})", "[1,2]"})[0] == "no");
    }
    CHECK(answer_of(worker, {"check", "t", "no schema", "[1]"})[0] == "no");
    CHECK(answer_of(worker, {"value", R"( {"a" : ["b\u00e9", 1.0]} )"}) ==
          Texts{"ok", "{\"a\":[\"b\xc3\xa9\",1.0]}"});
    CHECK(answer_of(worker, {"value", '"' + std::string(base::k_max_execution_value_bytes, 'x') + '"'}) ==
          Texts{"ok", ""});
    CHECK(answer_of(worker, {"value", "1,\"result\":2"})[2] == "invalid_json");
    CHECK(answer_of(worker, {"value", "\"\xff\""})[2] == "invalid_utf8");
    for (const Texts& nothing :
         {Texts{}, Texts{"other"}, Texts{"check", "t"}, Texts{"frame"}, Texts{"split", "k"}, Texts{"value"}})
        CHECK(answer_of(worker, nothing)[0] == "failed");
}

TEST_CASE("checker: a frame passes through it as it is read") {
    Worker worker;
    for (const std::string json :
         {R"({"type":"call","run":"r","nonce":"n","id":3,"name":"t","args":[1,"a"]})",
          R"({"type":"log","level":"warn","text":"","run":"r"})", R"({"type":"result","value":"too long"})",
          R"({"type":"result","error":{"kind":"runtime","message":"m","line":2}})", "no json", "[]"}) {
        const std::string request = fields_of({"frame", "6", json});
        const std::string answer = worker.answer(request);
        auto fields = bridge::checker::split_fields(answer).value();
        REQUIRE(fields.front() == "ok");
        fields.erase(fields.begin());
        const auto frame = bridge::checker::frame_of(fields);
        REQUIRE(frame);
        INFO(json);
        CHECK((frame->texts == bridge::runner::read_frame(json, 6).texts));
        fields.pop_back();
        CHECK_FALSE(bridge::checker::frame_of(fields));
    }
}

TEST_CASE(
    "checker: an answer is split into compact JSON, and refused for what the loop would refuse it for") {
    Worker worker;
    using Texts = std::vector<std::string>;
    CHECK(answer_of(worker, {"split", "result", R"( {"result" : [1, {"a" :"b\u00e9"}] , "id": 7} )"}) ==
          Texts{"ok", R"({"id":7,"result":null})", "[1,{\"a\":\"b\xc3\xa9\"}]"});
    CHECK(answer_of(worker, {"split", "result", R"({"error": {}})"}) == Texts{"ok", R"({"error":{}})"});
    CHECK(answer_of(worker, {"split", "result", "[ 1]"}) == Texts{"ok", "[1]"});
    // Shorter as it was sent.
    std::string many = R"({"result":[1e9)";
    while (many.size() < 500'000)
        many += ",1e9";
    CHECK(answer_of(worker, {"split", "result", many + "]}"}) == Texts{"ok", R"({"result":null})", ""});
    const std::string deep(base::k_max_json_depth, '[');
    for (const auto& [json, code] : std::vector<std::pair<std::string, std::string>>{
             {R"({"result":1)", "invalid_json"},
             {R"({"result":1,"result":2})", "invalid_json"},
             {R"({"result":{"a":1,"a":2}})", "invalid_json"},
             {R"({"result":1},"run":"r")", "invalid_json"},
             {R"({"result":)" + deep + std::string(deep.size(), ']') + "}", "invalid_json"},
             {std::string("{\"result\":1}\0", 13), "invalid_json"},
             {"{\"result\":\"\xff\"}", "invalid_utf8"}}) {
        INFO(json);
        const Texts refused = answer_of(worker, {"split", "result", json});
        REQUIRE(refused.size() == 3);
        CHECK(refused[0] == "no");
        CHECK(refused[2] == code);
    }
}

TEST_CASE("checker: schemas are split off a body with tools, and nothing else is") {
    Worker worker;
    using Texts = std::vector<std::string>;
    const std::string tools = R"({"tools":[{"name":"a","inputSchema":{"b":[1, 2]}},{"inputSchema":7},3,)"
                              R"({"inputSchema":{}}],"inputSchema":{"x":1}})";
    CHECK(answer_of(worker, {"split", "tools", tools}) ==
          Texts{"ok",
                R"({"inputSchema":{"x":1},"tools":[{"inputSchema":{},"name":"a"},{"inputSchema":7},3,)"
                R"({"inputSchema":{}}]})",
                R"({"b":[1,2]})", "{}"});
    for (const char* const no_list : {R"({"tools":null})", R"({"tools":"x"})", "[1]", R"({"code":""})"})
        CHECK(answer_of(worker, {"split", "tools", no_list}) == Texts{"ok", no_list});
    const std::string name(2 * execution::k_schema_limit_bytes, 'n');
    const Texts cut =
        answer_of(worker, {"split", "tools", R"({"tools":[{"inputSchema":{")" + name + "\":1}}]}"});
    REQUIRE(cut.size() == 3);
    CHECK(cut[2].size() == execution::k_schema_limit_bytes + 1);
}

TEST_CASE("checker: its process splits the longest answers") {
    Bench bench;
    std::optional<base::Result<execution::SplitJson>> parts;
    const auto split = [&](std::string json) {
        parts.reset();
        const auto work =
            bench.checker->split("", "result", std::move(json),
                                 [&](base::Result<execution::SplitJson> told) { parts = std::move(told); });
        REQUIRE(bench.loop.run_until([&] { return parts.has_value(); }));
        return *parts;
    };
    std::string json = R"({"result":")";
    json.append(base::k_max_body_bytes - json.size() - 2, 'x').append("\"}");
    const auto whole = split(json);
    REQUIRE(whole.has_value());
    CHECK(whole->rest == R"({"result":null})");
    CHECK(whole->values == std::vector{json.substr(10, json.size() - 11)});
    CHECK(split(json.substr(1)).error().code() == base::Errc::invalid_json);
    CHECK(split("\xff").error().code() == base::Errc::invalid_utf8);
    CHECK(split("{}")->values.empty());
}

TEST_CASE("checker: its process starts with the first work and has no system call to do anything else") {
    Bench bench;
    CHECK(bench.checker->pid() == -1);
    CHECK(bench.check("[1]").has_value());
    const pid_t first = bench.checker->pid();
    REQUIRE(first > 0);
    const auto refused = bench.check("[\"a\"]");
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::invalid_field);
    CHECK(refused.error().detail().find("t: args/0") != std::string::npos);
    CHECK(bench.checker->pid() == first);
    // Meant for the server, sent to all of its unit.
    REQUIRE(signal_to(first, SIGHUP) == 0);
    CHECK(bench.check("[1]").has_value());
    CHECK(bench.checker->pid() == first);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(state_of(first, "Seccomp:") == "2");
    CHECK(state_of(first, "NoNewPrivs:") == "1");
#endif
}

TEST_CASE("checker: the longest arguments and frames pass through") {
    Bench bench;
#ifdef __SANITIZE_ADDRESS__  // the longest take the checker more than its second of the processor
    constexpr std::size_t k_bytes = 256UL * 1024;
#else
    constexpr std::size_t k_bytes = 1024UL * 1024;
#endif
    std::string args = "[1";
    while (args.size() < k_bytes)
        args += ",1";
    CHECK(bench.check(args + "]").has_value());
    CHECK(bench.check(args + ",\"a\"]").has_error());
    std::string json = R"({"type":"result","value":")";
    json.append(bridge::runner::k_runner_frame_bytes - json.size() - 2, 'x').append("\"}");
    std::optional<base::Result<RunnerFrame>> read;
    const auto work = bench.checker->read("", json, bridge::runner::k_runner_frame_bytes,
                                          [&](base::Result<RunnerFrame> frame) { read = std::move(frame); });
    REQUIRE(bench.loop.run_until([&] { return read.has_value(); }));
    REQUIRE(read->has_value());
    CHECK((*read)->find(Member::value)->size() ==
          json.size() - std::string_view(R"({"type":"result","value":})").size());
}

TEST_CASE(
    "checker: the loop goes on while the process stands still, and after its end that work is done by "
    "another") {
    Bench bench;
    CHECK(bench.check("[1]").has_value());
    const pid_t first = bench.checker->pid();
    REQUIRE(signal_to(first, SIGSTOP) == 0);
    Outcome in_work;
    Outcome behind;
    // More than a pipe takes.
    const auto work = bench.ask(in_work, "[1" + std::string(300'000, ' ') + "]");
    const auto next = bench.ask(behind);
    int turns = 0;
    std::function<void()> turn = [&] {
        if (++turns < 20)
            bench.loop.timers.arm(base::Millis{1}, turn);
    };
    turn();
    REQUIRE(bench.loop.run_until([&] { return turns == 20; }));
    CHECK_FALSE(in_work);
    CHECK(bench.checker->pending() == 2);
    SECTION("killed") {
        REQUIRE(signal_to(first, SIGKILL) == 0);
        REQUIRE(bench.loop.run_until([&] { return in_work && behind; }));
        CHECK(in_work->has_value());
        CHECK(bench.checker->deaths() == 1);
        CHECK(bench.checker->pid() != first);
    }
    SECTION("it goes on") {
        REQUIRE(signal_to(first, SIGCONT) == 0);
        REQUIRE(bench.loop.run_until([&] { return in_work && behind; }));
        CHECK(in_work->has_value());
        CHECK(bench.checker->deaths() == 0);
    }
    CHECK(behind->has_value());
    CHECK(bench.checker->pending() == 0);
}

TEST_CASE("checker: work that its process dies of twice fails, in its order and without harm to the next") {
    const test::TempFolder folder;
    const std::string deaths = GENERATE("1", "2");
    CAPTURE(deaths);
    // Dies so many times at its first work, and then is what it should be.
    test::write_text(folder / "program",
                     "#!/bin/bash\necho start >> " + (folder / "starts").string() + "\n[ $(wc -l < " +
                         (folder / "starts").string() + ") -gt " + deaths +
                         " ] || { head -c 20 >/dev/null; exit 1; }\nexec " +
                         test::build_path("bin/atoll-checker") + "\n",
                     0755);
    Bench bench({.program = folder / "program"});
    std::string order;
    std::vector<std::unique_ptr<execution::OffloadedJob>> works;
    for (const std::string name : {"a1", "a2", "b1"})
        works.push_back(bench.checker->check(
            name.substr(0, 1), "t", "{}", "[1]",
            [&order, name](const base::Result<void>& result) { order += name + (result ? " " : "! "); }));
    REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 0; }));
    CHECK(order == (deaths == "1" ? "a1 b1 a2 " : "a1! b1 a2 "));
    CHECK(bench.checker->deaths() == (deaths == "1" ? 1 : 2));
}

TEST_CASE("checker: work that nobody wants any more is not tried again") {
    const test::TempFolder folder;
    const std::filesystem::path starts = folder / "starts";
    test::write_text(
        folder / "program",
        "#!/bin/bash\necho start >> " + starts.string() + "\nhead -c 20 >/dev/null\n" + "exec sleep 100\n",
        0755);
    Bench bench({.program = folder / "program"});
    Outcome dropped;
    auto work = bench.ask(dropped);
    REQUIRE(bench.loop.run_until([&] { return std::filesystem::exists(starts); }));
    const pid_t first = bench.checker->pid();
    work.reset();
    REQUIRE(signal_to(first, SIGKILL) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 0; }));
    CHECK(bench.checker->deaths() == 1);
    CHECK(bench.checker->pid() == -1);
    CHECK_FALSE(dropped);
}

TEST_CASE("checker: work that takes too long ends, and the next has another process") {
    Bench bench({.program = "", .deadline = base::Millis{300}});
    Outcome warm;
    const auto first_work = bench.ask(warm);
    REQUIRE(bench.loop.run_until([&] { return warm.has_value(); }));
    const pid_t first = bench.checker->pid();
    if (first > 0)
        REQUIRE(signal_to(first, SIGSTOP) == 0);
    Outcome slow;
    const auto work = bench.ask(slow);
    REQUIRE(bench.loop.run_until([&] { return slow.has_value(); }));
    if (first > 0) {
        REQUIRE(slow->has_error());
        CHECK(slow->error().code() == base::Errc::deadline_exceeded);
        CHECK(bench.checker->timeouts() >= 1);
        CHECK(bench.checker->pid() == -1);
    }
}

TEST_CASE("checker: work that uses up its processor time ends, however long others are waited for") {
    test::TempDir dir;
    const std::filesystem::path spinning = dir.path() / "spins";
    std::ofstream(spinning) << "#!/bin/sh\nwhile :; do :; done\n";
    std::filesystem::permissions(spinning, std::filesystem::perms::owner_all);
    Bench bench({.program = spinning, .processor_time = base::Millis{50}});
    Outcome slow;
    const auto work = bench.ask(slow);
    REQUIRE(bench.loop.run_until([&] { return slow.has_value(); }));
    REQUIRE(slow->has_error());
    CHECK(slow->error().code() == base::Errc::deadline_exceeded);
    CHECK(bench.checker->timeouts() == 1);
}

TEST_CASE("checker: users take turns, and the clients of one have so much waiting at most") {
    Bench bench({.program = "", .waiting_per_user = 3});
    CHECK(bench.check("[1]").has_value());
    const pid_t process = bench.checker->pid();
    REQUIRE(signal_to(process, SIGSTOP) == 0);
    std::string order;
    std::vector<std::unique_ptr<execution::OffloadedJob>> works;
    const auto ask = [&](const std::string& user) {
        works.push_back(bench.checker->split(
            user, "result", "[1]", [&order, user](const base::Result<execution::SplitJson>& result) {
                order += result ? user : result.error().code() == base::Errc::too_many_executions ? "!" : "?";
            }));
    };
    for (int i = 0; i < 5; ++i)
        ask("a");
    ask("b");
    ask("c");
    REQUIRE(bench.loop.run_until([&] { return order == "!"; }));
    works[1].reset();  // the second of a is not wanted any more
    REQUIRE(signal_to(process, SIGCONT) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 0; }));
    CHECK(order == "!abcaa");
}

TEST_CASE("checker: what waits of one user's clients leaves others room in bytes") {
    Bench bench({.program = "", .waiting_bytes = 6UL * 1024 * 1024});
    CHECK(bench.check("[1]").has_value());
    const pid_t process = bench.checker->pid();
    REQUIRE(signal_to(process, SIGSTOP) == 0);
    std::string order;
    std::vector<std::unique_ptr<execution::OffloadedJob>> works;
    const auto answer = [&](const std::string& user) {
        works.push_back(bench.checker->split(
            user, "result", '"' + std::string(900'000, 'x') + '"',
            [&order](const base::Result<execution::SplitJson>& result) {
                order += result ? 's' : result.error().code() == base::Errc::user_share ? '!' : '?';
            }));
    };
    for (int i = 0; i < 4; ++i)
        answer("a");
    answer("b");
    REQUIRE(bench.loop.run_until([&] { return order == "!"; }));
    CHECK(bench.checker->waiting().used() > 3'600'000);
    REQUIRE(signal_to(process, SIGCONT) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 0; }));
    CHECK(order == "!ssss");
    CHECK(bench.checker->waiting().used() == 0);
}

TEST_CASE("checker: what a run sends is taken however much of its user's clients waits") {
    Bench bench({.program = "", .waiting_per_user = 1, .waiting_bytes = 4096});
    CHECK(bench.check("[1]").has_value());
    const pid_t process = bench.checker->pid();
    REQUIRE(signal_to(process, SIGSTOP) == 0);
    std::string order;
    std::vector<std::unique_ptr<execution::OffloadedJob>> works;
    const auto answer = [&](const std::string& user, std::size_t bytes) {
        works.push_back(bench.checker->split(
            user, "result", '"' + std::string(bytes, 'x') + '"',
            [&order](const base::Result<execution::SplitJson>& result) { order += result ? 's' : '!'; }));
    };
    for (int i = 0; i < 3; ++i)
        answer("a", 1);
    answer("b", 4096);  // more than there is room for in bytes, all users together
    REQUIRE(bench.loop.run_until([&] { return order == "!!"; }));
    std::vector<Outcome> checked(4);
    for (Outcome& outcome : checked)
        works.push_back(bench.ask(outcome));
    std::optional<base::Result<RunnerFrame>> frame;
    works.push_back(bench.checker->read("a", R"({"type":"ready"})", 100,
                                        [&](base::Result<RunnerFrame> read) { frame = std::move(read); }));
    std::optional<base::Result<std::string>> value;
    works.push_back(bench.checker->read_value(
        "a", "[ 1]", [&](base::Result<std::string> read) { value = std::move(read); }));
    REQUIRE(signal_to(process, SIGCONT) == 0);
    REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 0 && frame && value; }));
    CHECK(order == "!!ss");
    CHECK(frame->has_value());
    CHECK(value->value() == "[1]");
    for (const Outcome& outcome : checked)
        CHECK((outcome && outcome->has_value()));
}

TEST_CASE("checker: a frame in which something could end an event is none") {
    RunnerFrame frame;
    frame.texts.at(static_cast<std::size_t>(Member::type)) = "log";
    const auto read_back = [&](Member member, const std::string& json) {
        RunnerFrame sent = frame;
        sent.texts.at(static_cast<std::size_t>(member)) = json;
        std::string fields;
        bridge::checker::append_frame_fields(fields, sent);
        return bridge::checker::frame_of(*bridge::checker::split_fields(fields)).has_value();
    };
    for (const Member member : {Member::text, Member::args, Member::value}) {
        CHECK(read_back(member, R"("a\n\u0000b")"));
        CHECK_FALSE(read_back(member, "\"a\n\nevent: done\""));
        CHECK_FALSE(read_back(member, std::string("\"a\0\"", 4)));
    }
}

TEST_CASE("checker: work that nobody wants any more, and a checker that is gone, call nobody back") {
    Bench bench;
    CHECK(bench.check("[1]").has_value());
    REQUIRE(signal_to(bench.checker->pid(), SIGSTOP) == 0);
    Outcome dropped;
    Outcome behind;
    auto work = bench.ask(dropped);
    auto next = bench.ask(behind);
    SECTION("dropped") {
        REQUIRE(bench.loop.run_until([&] { return bench.checker->pending() == 2; }));
        work.reset();
        REQUIRE(signal_to(bench.checker->pid(), SIGCONT) == 0);
        REQUIRE(bench.loop.run_until([&] { return behind.has_value(); }));
        CHECK(behind->has_value());
    }
    SECTION("closed") {
        bench.checker->close();
        next = bench.ask(behind);
        bench.loop.context.restart();
        bench.loop.context.run();  // nothing is left to wait for
        CHECK_FALSE(behind);
        bench.checker.reset();
    }
    CHECK_FALSE(dropped);
}

TEST_CASE("checker: a program that is missing, or says what nobody asked for, fails the work") {
    const test::TempFolder folder;
    std::string body;
    SECTION("missing") {}
    SECTION("it ends at once") {
        body = "exit 0";
    }
    SECTION("an answer of no fields") {
        body = "head -c 20 >/dev/null; printf '\\x02\\0\\0\\0ab'; exec sleep 100";
    }
    SECTION("an answer without end") {
        body = "head -c 20 >/dev/null; printf '\\xff\\xff\\xff\\xff'; exec sleep 100";
    }
    SECTION("an answer to what it has not read yet, and more behind it") {
        body = "printf '\\x06\\0\\0\\0\\x02\\0\\0\\0okmore'; exec sleep 100";
    }
    if (!body.empty())
        test::write_text(folder / "program", "#!/bin/bash\n" + body + "\n", 0755);
    Bench bench({.program = folder / "program"});
    const auto checked = bench.check("[1]");
    REQUIRE(checked.has_error());
    CHECK(checked.error().code() == base::Errc::internal);
    CHECK(bench.checker->deaths() == (body.empty() ? 0 : 2));
}

}  // namespace checker_test
