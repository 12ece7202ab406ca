#include "bridge/agents/timed_agent.hpp"

#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

#include "bridge/guest/command.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::test::timed_agent_test {
namespace {

/// Does in a turn what the test tells it.
struct ToldAgent final : guest::AgentRuntime {
    void start(OnReady on_ready, OnExit) override { on_ready({}); }
    guest::Begun begin(const guest::TurnRequest&, guest::TurnSink& own) override {
        sink = &own;
        return begun;
    }
    void resume(guest::TurnSink& own) override { is_resumed = &own == sink; }
    void abandon(guest::TurnSink& own) override { is_abandoned = &own == sink; }
    bool interrupt(std::string_view turn) override { return turn == "t1"; }
    void stop(std::function<void()> on_stopped) override { on_stopped(); }

    guest::Begun begun = guest::Begun::yes;
    guest::TurnSink* sink = nullptr;
    bool is_resumed = false;
    bool is_abandoned = false;
};

struct HostSink final : guest::TurnSink {
    void write(std::string_view lines) override { text += lines; }
    bool wants_more() const override { return false; }
    void finish() override { ++ends; }
    void break_off() override { ends += 10; }

    std::string text;
    int ends = 0;
};

struct Lab {
    /// The lines so far without their times.
    std::string told() {
        std::string text;
        for (const std::string& line : std::exchange(lines, {}))
            text += line.substr(0, line.find(" ms=")) + "\n";
        return text;
    }

    std::vector<std::string> lines;
    std::unique_ptr<ToldAgent> owned = std::make_unique<ToldAgent>();
    ToldAgent& inner = *owned;
    guest::TimedAgent agent{std::move(owned), "shell",
                            [this](std::string_view line) { lines.emplace_back(line); }};
    HostSink host;
};

}  // namespace

TEST_CASE("an agent with times tells them in the log, and passes its turns on as they are") {
    Lab lab;
    lab.agent.start([](const std::string& error) { CHECK(error.empty()); }, [](const std::string&) {});
    CHECK(lab.told() ==
          "timing agent=shell what=started\ntiming agent=shell what=first_line\ntiming agent=shell "
          "what=ready\n");
    CHECK(lab.agent.begin({"t1", "hi", "{}"}, lab.host) == guest::Begun::yes);
    REQUIRE(lab.inner.sink != nullptr);
    CHECK_FALSE(lab.inner.sink->wants_more());
    const std::string lines =
        "{\"ev\":\"text_delta\",\"data\":{\"delta\":\"a\"}}\n"
        "{\"ev\":\"text_delta\",\"data\":{\"delta\":\"b\"}}\n"
        "{ \"data\":{\"id\":\"c\"}, \"ev\":\"tool_use\"}\n"
        "{\"ev\":\"done\",\"data\":{}}\n";
    lab.inner.sink->write(lines);
    CHECK(lab.host.text == lines);
    CHECK(lab.told() ==
          "timing agent=shell turn=t1 what=first_delta\ntiming agent=shell turn=t1 what=tool_use\n"
          "timing agent=shell turn=t1 what=done\n");
    lab.agent.resume(lab.host);
    CHECK(lab.inner.is_resumed);
    CHECK(lab.agent.interrupt("t1"));
    SECTION("it ends") {
        lab.inner.sink->finish();
        CHECK(lab.host.ends == 1);
    }
    SECTION("it breaks off") {
        lab.inner.sink->break_off();
        CHECK(lab.host.ends == 10);
    }
    SECTION("it is abandoned") {
        lab.agent.abandon(lab.host);
        CHECK(lab.inner.is_abandoned);
        CHECK(lab.host.ends == 0);
    }
    // The turn is over for it, too.
    lab.inner.is_abandoned = false;
    lab.agent.abandon(lab.host);
    CHECK_FALSE(lab.inner.is_abandoned);
}

TEST_CASE("an agent with times that had no room may begin the same turn again") {
    Lab lab;
    lab.inner.begun = guest::Begun::no_room;
    CHECK(lab.agent.begin({"t1", "hi", "{}"}, lab.host) == guest::Begun::no_room);
    lab.agent.abandon(lab.host);
    CHECK_FALSE(lab.inner.is_abandoned);
    lab.inner.begun = guest::Begun::yes;
    CHECK(lab.agent.begin({"t1", "hi", "{}"}, lab.host) == guest::Begun::yes);
    lab.inner.sink->finish();
    CHECK(lab.host.ends == 1);
}

TEST_CASE("an adapter tells the times of its agent itself, unless it has become the agent") {
    const auto lacks = [](std::vector<std::string> argv) {
        return guest::lacks_times({"command", std::move(argv), {}});
    };
    CHECK(guest::lacks_times({"shell", {}, {}}));
    CHECK(lacks({"python3", "agent.py"}));
    CHECK(lacks({base::k_inner_agent, R"({"name":"a","adapter":"lines","env":{"adapter":"acp"}})"}));
    CHECK_FALSE(lacks({base::k_inner_agent, R"({"name":"a","adapter":"acp"})"}));
    CHECK_FALSE(lacks({base::k_inner_agent, R"({"adapter":"stream-json","name":"a"})"}));
}

}  // namespace atl::test::timed_agent_test
