// An engine that a test plays, on the stdin and stdout of an exec: what is passed on, and how it ends.
#include "bridge/runner/program_run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "bridge/runner/frames.hpp"
#include "core/base/execution_limits.hpp"

namespace program_run_test {

using namespace atl;
using Json = nlohmann::json;

namespace {

struct Pipe final : sandbox::Run {
    explicit Pipe(std::size_t& free_bytes, std::string& to) : room(free_bytes), written(to) {}
    std::size_t write(std::string_view bytes) override {
        const std::size_t taken = std::min(bytes.size(), room);
        room -= taken;
        written.append(bytes.substr(0, taken));
        return taken;
    }
    void close_input() override {}
    void signal(int) override {}
    void resume() override { ++resumed; }
    int resumed = 0;
    std::size_t& room;
    std::string& written;
};

/// Takes one program and leaves the rest.
struct Inside final : sandbox::Operations {
    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec& asked, sandbox::RunObserver& watcher) override {
        spec = asked;
        observer = &watcher;
        return std::make_unique<Pipe>(room, written);
    }
    std::unique_ptr<sandbox::Question> start_process(const sandbox::ProcessSpec&,
                                                     sandbox::Answer<pid_t>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Question> list_processes(
        const std::string&, sandbox::Answer<std::vector<sandbox::ProcessInfo>>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Question> control_process(const std::string&, const sandbox::ProcessControl&,
                                                       sandbox::Answer<void>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Run> attach(const std::string&, std::uint64_t, sandbox::RunObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Run> feed(const std::string&, sandbox::RunObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t, sandbox::DialObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Call> call(const sandbox::CallSpec&, sandbox::CallObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Watch> watch(sandbox::WatchObserver&) override { return nullptr; }

    sandbox::RunSpec spec;
    sandbox::RunObserver* observer = nullptr;
    std::size_t room = 1UL << 20;
    std::string written;
};

/// Answers when the test says.
struct Reader final : bridge::runner::FrameReading {
    struct One final : execution::OffloadedJob {
        explicit One(int& count) : living(++count) {}
        ~One() override { --living; }
        int& living;
    };
    std::unique_ptr<execution::OffloadedJob> read(const std::string& whose, std::string text,
                                                  std::uint64_t max_value_bytes, Callback answer) override {
        user = whose;
        json = std::move(text);
        most = max_value_bytes;
        told = std::move(answer);
        return std::make_unique<One>(living);
    }
    void answers() { told(bridge::runner::read_frame(json, most)); }
    std::string user;
    std::string json;
    std::uint64_t most = 0;
    Callback told;
    int living = 0;
};

struct Lab final : execution::ProgramObserver {
    explicit Lab(std::uint64_t max_calls = 2) {
        engine.name = "container";
        engine.argv = {"/agent/node", "runner/container.mjs"};
        execution::ProgramSpec spec;
        spec.code = "return 1";
        spec.tools = {"add"};
        spec.max_calls = max_calls;
        spec.max_value_bytes = 1000;
        spec.max_log_bytes = 100;
        spec.user = "ann";
        program = bridge::runner::RunnerPrograms(&reader).start(inside, engine, *this);
        program->run(std::move(spec), *this);
    }
    void on_running() override { told += "running "; }
    void on_log(const std::string& level, const std::string& text_json) override {
        told += level + ":" + Json::parse(text_json).get<std::string>() + " ";
    }
    void on_call(std::uint64_t id, const std::string& name, const std::string& args) override {
        told += name + std::to_string(id) + args + " ";
        if (holds)
            program->hold();
    }
    void on_end(std::optional<std::string> value, std::optional<execution::Failure> failure) override {
        told += "end:" + value.value_or("none") + (failure ? failure->kind : "");
        program.reset();
    }
    void on_broken(execution::Failure failure) override {
        told += failure.kind;
        message = failure.message;
        program.reset();
    }
    void on_lost(const base::Error&) override {
        told += "lost";
        program.reset();
    }

    void says(Json frame) {
        if (!start.is_null()) {
            frame["run"] = start["run"];
            frame["nonce"] = start["nonce"];
        }
        std::string bytes;
        REQUIRE(bridge::runner::append_frame(bytes, frame.dump()));
        inside.observer->on_output(sandbox::OutputKind::standard, bytes);
    }
    void ready() {
        inside.observer->on_started(5);
        says({{"type", "ready"}, {"engine", "container"}, {"version", "1"}});
        start = next_frame();
    }
    Json next_frame() {
        bridge::runner::FrameReader frames;
        frames.push(std::exchange(inside.written, {}));
        return Json::parse(frames.next().value());
    }

    Inside inside;
    Reader reader;
    execution::Engine engine;
    bool holds = false;
    Json start;
    std::string told;
    std::string message;
    std::unique_ptr<execution::Program> program;
};

}  // namespace

TEST_CASE("A program is told to its engine once that is ready, and its calls and logs come back") {
    Lab lab;
    CHECK(lab.inside.spec.argv == lab.engine.argv);
    CHECK(lab.inside.spec.directory == "/agent");
    CHECK(lab.inside.spec.stdin_kind == sandbox::RunSpec::Stdin::pipe);
    lab.ready();
    CHECK(lab.start["code"] == "return 1");
    CHECK(lab.start["language"] == "javascript");
    CHECK(lab.start["run"] != lab.start["nonce"]);
    lab.says({{"type", "log"}, {"level", "warn"}, {"text", "careful"}});
    lab.says({{"type", "call"}, {"id", 1}, {"name", "add"}, {"args", {2, 3}}});
    CHECK_FALSE(lab.program->answer(2, "5"));
    CHECK(lab.program->answer(1, "5"));
    CHECK_FALSE(lab.program->answer(1, "5"));
    CHECK(lab.next_frame()["result"] == 5);
    lab.says({{"type", "result"}, {"value", 5}});
    CHECK(lab.told == "running warn:careful add1[2,3] end:5");
}

TEST_CASE("An engine that was ready before it has a program is told it at once, and tells whose it is then") {
    struct First final : execution::ProgramObserver {
        void on_ready() override { ++ready; }
        void on_running() override {}
        void on_log(const std::string&, const std::string&) override {}
        void on_call(std::uint64_t, const std::string&, const std::string&) override {}
        void on_end(std::optional<std::string>, std::optional<execution::Failure>) override {}
        void on_broken(execution::Failure) override { ++broken; }
        void on_lost(const base::Error&) override {}
        int ready = 0;
        int broken = 0;
    } first;
    Lab lab;
    lab.program = bridge::runner::RunnerPrograms().start(lab.inside, lab.engine, first);
    lab.inside.observer->on_started(5);
    lab.says({{"type", "ready"}, {"engine", "container"}, {"version", "1"}});
    CHECK(first.ready == 1);
    CHECK(lab.inside.written.empty());
    SECTION("and begins with its program") {
        execution::ProgramSpec spec;
        spec.code = "return 2";
        spec.max_value_bytes = 1000;
        lab.program->run(std::move(spec), lab);
        lab.start = lab.next_frame();
        CHECK(lab.start["code"] == "return 2");
        lab.says({{"type", "result"}, {"value", 2}});
        CHECK(lab.told == "running end:2");
    }
    SECTION("and may say nothing before") {
        lab.says({{"type", "result"}, {"value", 2}, {"run", ""}, {"nonce", ""}});
        CHECK(first.broken == 1);
    }
}

TEST_CASE("What the engine may not say ends the program as protocol") {
    Lab lab;
    SECTION("another engine") {
        lab.inside.observer->on_started(5);
        lab.says({{"type", "ready"}, {"engine", "vm2"}, {"version", "1"}});
        CHECK(lab.told == "protocol");
    }
    SECTION("an empty frame") {
        lab.inside.observer->on_output(sandbox::OutputKind::standard, std::string_view("\0\0\0\0", 4));
        CHECK(lab.told == "protocol");
    }
    SECTION("a forged frame") {
        lab.ready();
        lab.start["nonce"] = "another";
        lab.says({{"type", "result"}, {"value", 1}});
        CHECK(lab.told == "running protocol");
    }
    SECTION("but what it writes to stderr is dropped") {
        lab.ready();
        lab.inside.observer->on_output(sandbox::OutputKind::error, std::string_view("\0\0\0\0", 4));
        CHECK(lab.told == "running ");
    }
}

TEST_CASE("An engine that ends, cannot be started, or is lost is told apart") {
    Lab lab;
    SECTION("it ends") {
        lab.ready();
        lab.inside.observer->on_exit({0, 9, false});
        CHECK(lab.told == "running crashed");
        CHECK(lab.message.find("signal 9") != std::string::npos);
    }
    SECTION("it cannot be started") {
        lab.inside.observer->on_failed(base::Error(base::Errc::invalid_field, "no such file"));
        CHECK(lab.told == "crashed");
    }
    SECTION("its guest is gone") {
        lab.ready();
        lab.inside.observer->on_failed(base::Error(base::Errc::bridge_failed, "gone"));
        CHECK(lab.told == "running lost");
    }
}

TEST_CASE("A long frame is read elsewhere, and what comes behind it waits") {
    Lab lab;
    lab.ready();
    const std::string space(base::k_small_runner_frame_bytes, ' ');
    const Json args{"a", 1};
    lab.says({{"type", "call"}, {"id", 1}, {"name", "add"}, {"args", args}, {"more", space}});
    CHECK(lab.reader.user == "ann");
    CHECK(lab.inside.observer->is_full());
    lab.says({{"type", "log"}, {"level", "log"}, {"text", "behind"}});
    CHECK(lab.told == "running ");
    SECTION("it is told in its turn") {
        lab.reader.answers();
        CHECK(lab.told == "running add1[\"a\",1] log:behind ");
        CHECK_FALSE(lab.inside.observer->is_full());
    }
    SECTION("it is judged like any other") {
        bridge::runner::RunnerFrame forged;
        forged.at(bridge::runner::RunnerFrame::Member::type) = "result";
        lab.reader.told(std::move(forged));
        CHECK(lab.told == "running protocol");
    }
    SECTION("it cannot be read") {
        lab.reader.told(base::Error(base::Errc::deadline_exceeded, "it took too long"));
        CHECK(lab.told == "running crashed");
        CHECK(lab.message == "what the engine sent could not be read: it took too long");
    }
    SECTION("nobody waits for it any more") {
        lab.program.reset();
    }
    CHECK(lab.reader.living == 0);
}

TEST_CASE("A long frame before the run is none that anybody reads") {
    Lab lab;
    lab.inside.observer->on_started(5);
    const std::string space(base::k_small_runner_frame_bytes, ' ');
    lab.says({{"type", "ready"}, {"engine", "container"}, {"version", "1"}, {"more", space}});
    CHECK(lab.told == "protocol");
    CHECK(lab.reader.json.empty());
}

TEST_CASE("A program that is held says nothing until it goes on, not even its end") {
    Lab lab;
    lab.ready();
    lab.holds = true;
    std::string bytes;
    for (Json frame : {Json{{"type", "call"}, {"id", 1}, {"name", "add"}, {"args", Json::array({1})}},
                       Json{{"type", "call"}, {"id", 2}, {"name", "add"}, {"args", Json::array({2})}},
                       Json{{"type", "result"}, {"value", 5}}}) {
        frame["run"] = lab.start["run"];
        frame["nonce"] = lab.start["nonce"];
        REQUIRE(bridge::runner::append_frame(bytes, frame.dump()));
    }
    lab.inside.observer->on_output(sandbox::OutputKind::standard, bytes);
    CHECK(lab.told == "running add1[1] ");
    CHECK(lab.inside.observer->is_full());
    CHECK(lab.program->answer_checked(1, "7"));  // answers pass
    CHECK(lab.next_frame()["result"] == 7);
    CHECK_FALSE(lab.program->answer_checked(1, "7"));
    lab.program->resume();
    CHECK(lab.told == "running add1[1] add2[2] ");
    lab.program->resume();
    CHECK(lab.told == "running add1[1] add2[2] end:5");
}

TEST_CASE("What its stdin has no room for waits for room") {
    Lab lab;
    lab.inside.room = 10;
    lab.inside.observer->on_started(5);
    lab.says({{"type", "ready"}, {"engine", "container"}, {"version", "1"}});
    CHECK(lab.inside.written.size() == 10);
    lab.inside.room = 1UL << 20;
    lab.inside.observer->on_input_room();
    CHECK(lab.next_frame()["type"] == "start");
}

TEST_CASE("A program that does not read its answers is not heard until it does") {
    constexpr std::uint64_t k_calls = 2000;
    Lab lab(k_calls);
    lab.ready();
    lab.inside.room = 0;
    const auto call = [](std::uint64_t id) {
        return Json{{"type", "call"}, {"id", id}, {"name", "add"}, {"args", Json::array({1})}};
    };
    std::uint64_t id = 0;
    while (!lab.inside.observer->is_full() && id < k_calls) {
        lab.says(call(++id));
        REQUIRE(lab.program->answer_checked(id, '"' + std::string(900, 'x') + '"'));
    }
    REQUIRE(id < k_calls);
    lab.told.clear();
    lab.says(call(++id));
    CHECK(lab.told.empty());
    lab.inside.room = 100;
    lab.inside.observer->on_input_room();
    CHECK(lab.told.empty());
    lab.inside.room = 1UL << 21;
    lab.inside.observer->on_input_room();
    CHECK(lab.told == "add" + std::to_string(id) + "[1] ");
    CHECK_FALSE(lab.inside.observer->is_full());
}

}  // namespace program_run_test
