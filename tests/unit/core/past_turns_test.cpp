// The earlier turns that a program is told of when it starts anew as the agent.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/plain/utf8.hpp"
#include "house.hpp"
#include "tests/support/result_printer.hpp"

namespace past_turns_test {

using namespace atl;
using namespace atl::conversation;

namespace {

using Json = nlohmann::json;
using Kind = sandbox::AgentSpec::Kind;

ManagerSettings settings_of(Kind kind) {
    ManagerSettings settings;
    settings.agents = {sandbox::AgentSpec{"shell", kind, {"agent"}, {}, {}}};
    return settings;
}

/// A conversation with a program as its agent.
struct PastHouse : test::House {
    explicit PastHouse(ManagerSettings settings = settings_of(Kind::command))
        : House({1, {}}, std::move(settings)) {
        const auto made = create();
        id = made->record.id;
        sandbox_id = made->record.sandbox_id;
    }

    void message(const std::string& content) {
        conversations->message(id, {content, "", "somebody"}, MessageReply::at_once,
                               [](const base::Result<TurnTicket>& ticket) { REQUIRE(ticket); });
        settle();
    }
    /// The agent of the open turn says something.
    void say(const std::string& name, const Json& data = Json::object()) {
        REQUIRE_FALSE(world.queries.empty());
        const auto query = world.queries.back();
        REQUIRE(query->observer != nullptr);
        const std::string text = data.dump();
        query->observer->on_event({name, text});
        if (name == "done") {
            if (query->observer != nullptr)
                world.end_query(*query, sandbox::QueryEnd::done);
            std::erase(world.queries, query);
        }
        settle();
    }
    void answer_with(const std::string& text) {
        say("text_delta", {{"delta", text}});
        say("turn_complete", {{"result", "success"}});
        say("done");
    }
    void turn(const std::string& content, const std::string& text) {
        message(content);
        answer_with(text);
    }
    void pause() {
        REQUIRE(answer([&](auto reply) { conversations->pause(id, PauseMode::cold, std::move(reply)); }));
    }
    base::Result<View> resume() {
        return answer([&](auto reply) { conversations->resume(id, std::move(reply)); });
    }
    void begin_anew() {
        pause();
        REQUIRE(resume());
    }
    /// The first line of the agent that runs; empty: it got none.
    std::string line() const {
        REQUIRE(world.processes.size() == 1);
        return world.processes.begin()->second->resume;
    }
    Json told() const { return Json::parse(line()); }
    /// The contents of the turns that it was told of.
    std::vector<std::string> contents() const {
        std::vector<std::string> found;
        const Json all = told();
        for (const Json& one : all.at("turns"))
            found.push_back(one.at("content"));
        return found;
    }
    Status status() { return test::get(*conversations, id)->record.status; }

    std::string id;
    std::string sandbox_id;
};

/// The store answers when the test says so.
struct Late {
    explicit Late(test::FakeStore& store) : store_(store) {
        store.later = [this](std::function<void()> answer) { waiting.push_back(std::move(answer)); };
    }
    ~Late() { store_.later = nullptr; }
    Late(const Late&) = delete;
    Late& operator=(const Late&) = delete;
    void give() {
        REQUIRE_FALSE(waiting.empty());
        const auto answer = std::move(waiting.front());
        waiting.pop_front();
        answer();
    }
    std::deque<std::function<void()>> waiting;

  private:
    test::FakeStore& store_;
};

using Contents = std::vector<std::string>;

}  // namespace

TEST_CASE("past turns: a program of a later generation is told of the finished turns, the oldest first") {
    PastHouse house;
    CHECK(house.line().empty());
    house.turn("one", "first answer");
    house.message("two \"quoted\"\n");
    house.say("text_delta",
              {{"x", {{"delta", "not told"}}}, {"delta", "second "}, {"y", {1, Json::object()}}});
    house.say("thinking_delta", {{"delta", "not told"}});
    house.say("text_delta", {{"delta", "ans\twer"}, {"stream", "stderr"}});
    house.say("error", {{"code", "odd"}, {"message", "not told"}});
    house.say("done");
    house.message("three");
    house.say("done");
    const bool by_message = GENERATE(false, true);
    house.pause();
    if (by_message)
        house.message("open");
    else
        REQUIRE(house.resume());
    CHECK(house.told() ==
          Json{{"cmd", "resume"},
               {"sessionId", house.id},
               {"generation", 2},
               {"turns",
                {{{"turn", "t1"}, {"content", "one"}, {"text", "first answer"}, {"result", "success"}},
                 {{"turn", "t2"},
                  {"content", "two \"quoted\"\n"},
                  {"text", "second ans\twer"},
                  {"result", "odd"}},
                 {{"turn", "t3"}, {"content", "three"}, {"text", ""}, {"result", nullptr}}}}});
    CHECK(house.line().starts_with("{\"cmd\":\"resume\","));
    if (by_message)
        house.answer_with("and so on");
    house.begin_anew();
    CHECK(house.told().at("generation") == 3);
    CHECK(house.contents().size() == (by_message ? 4 : 3));
}

TEST_CASE(
    "past turns: nothing is told to a built-in agent, and none to a program whose conversation has none") {
    PastHouse shell(settings_of(Kind::shell));
    shell.turn("one", "answer");
    shell.begin_anew();
    CHECK(shell.line().empty());
    PastHouse house;
    house.begin_anew();
    CHECK(house.told().at("turns").empty());
    CHECK(house.told().at("generation") == 2);
}

TEST_CASE("past turns: after the death of a server all is read from the store, and the turn it cut is told") {
    PastHouse house;
    house.turn("one", "answer");
    house.message("cut");
    house.say("text_delta", {{"delta", "half of"}});
    house.restart();
    REQUIRE(house.resume());
    const Json turns = house.told().at("turns");
    REQUIRE(turns.size() == 2);
    CHECK(turns[0].at("text") == "answer");
    CHECK(turns[1] ==
          Json{{"turn", "t2"}, {"content", "cut"}, {"text", "half of"}, {"result", "server_restart"}});
}

TEST_CASE("past turns: a crash in a turn is told, however short ago it was") {
    PastHouse house;
    house.message("dies");
    house.say("text_delta", {{"delta", "last words"}});
    const auto process = house.world.processes.begin()->second;
    house.world.process_dies(process, {sandbox::ExitClass::signalled, 9, "died"});
    house.settle();
    REQUIRE(house.resume());
    const Json turns = house.told().at("turns");
    REQUIRE(turns.size() == 1);
    CHECK(turns[0].at("text") == "last words");
    CHECK(turns[0].at("result") == "sandbox_crashed");
}

TEST_CASE("past turns: a program that is started again in the same generation is told, too") {
    PastHouse house;
    house.turn("one", "answer");
    std::unique_ptr<Lease> lease;
    house.conversations->lease(
        house.sandbox_id, LeaseUse::process,
        [&](base::Result<std::unique_ptr<Lease>> granted) { lease = std::move(*granted); });
    house.settle();
    REQUIRE(lease);
    const auto process = house.world.processes.begin()->second;
    std::exchange(process->on_agent_exit, nullptr)("exited 1");
    house.settle();
    house.message("two");
    CHECK(house.told().at("generation") == 1);
    CHECK(house.contents() == Contents{"one"});
    house.answer_with("answer");
    CHECK(house.status() == Status::active);
}

TEST_CASE("past turns: of many the newest are told, as many as fit into the bound") {
    PastHouse house;
    for (int turn = 1; turn <= 100; ++turn)
        house.turn("question " + std::to_string(turn), std::string(5000, 'a'));
    if (GENERATE(false, true))
        house.restart();
    house.begin_anew();
    const std::string line = house.line();
    CHECK(line.size() < sandbox::k_max_resume_bytes);
    CHECK(line.size() > sandbox::k_max_resume_bytes - 5500);
    const Contents contents = house.contents();
    REQUIRE(contents.size() > 40);
    CHECK(contents.back() == "question 100");
    for (std::size_t at = 0; at < contents.size(); ++at)
        CHECK(contents[at] == "question " + std::to_string(101 - contents.size() + at));
}

TEST_CASE("past turns: the log is not read without end for turns of few words") {
    PastHouse house;
    const std::string thought(500'000, 't');
    for (int turn = 1; turn <= 20; ++turn) {
        house.message("question " + std::to_string(turn));
        house.say("thinking_delta", {{"delta", thought}});
        house.answer_with("short");
    }
    house.begin_anew();
    const Contents contents = house.contents();
    CHECK(contents.size() == 8);  // 4 MiB
    CHECK(contents.back() == "question 20");
}

TEST_CASE("past turns: a newest turn that is too long is told with the end of its text") {
    PastHouse house;
    house.turn("before", "short");
    const bool is_content_long = GENERATE(false, true);
    const std::string content = is_content_long ? std::string(300'000, '\n') + "never" : "why?";
    house.message(content);
    // Three bytes a character, and pieces that end at any of them.
    std::string text;
    for (int piece = 0; piece < 40; ++piece) {
        std::string delta(static_cast<std::size_t>(piece), 'x');
        for (int i = 0; i < 7000; ++i)
            delta += "\xE2\x82\xAC";
        text += delta;
        house.say("text_delta", {{"delta", delta}});
    }
    house.say("text_delta", {{"delta", "\x01the end"}});
    text += "\x01the end";
    house.say("done");
    house.begin_anew();
    const std::string line = house.line();
    CHECK(line.size() < sandbox::k_max_resume_bytes);
    CHECK(line.size() > sandbox::k_max_resume_bytes - 600);
    CHECK(base::is_utf8(line));
    const Json turns = house.told().at("turns");
    REQUIRE(turns.size() == 1);
    const auto told = turns[0].at("text").get<std::string>();
    REQUIRE(told.starts_with("\xE2\x80\xA6"));
    CHECK(told.size() > 100'000);
    CHECK(text.ends_with(told.substr(3)));
    const auto asked = turns[0].at("content").get<std::string>();
    if (!is_content_long) {
        CHECK(asked == content);
    } else {
        CHECK(asked.size() > 60'000);
        REQUIRE(asked.ends_with("\xE2\x80\xA6"));
        CHECK(content.starts_with(asked.substr(0, asked.size() - 3)));
    }
}

TEST_CASE("past turns: a message that is too long alone leaves its answer whole") {
    PastHouse house;
    // At whatever byte of a character the bound is.
    std::string content(GENERATE(std::size_t{0}, 1, 2), 'x');
    for (int i = 0; i < 100'000; ++i)
        content += "\xE2\x82\xAC";
    house.turn(content, "a short answer");
    house.begin_anew();
    CHECK(house.line().size() > sandbox::k_max_resume_bytes - 600);
    const Json turn = house.told().at("turns").at(0);
    CHECK(turn.at("text") == "a short answer");
    const auto asked = turn.at("content").get<std::string>();
    REQUIRE(asked.ends_with("\xE2\x82\xAC\xE2\x80\xA6"));
    CHECK(content.starts_with(asked.substr(0, asked.size() - 3)));
}

TEST_CASE("past turns: turns whose beginning was cut from the log are not told") {
    ManagerSettings settings = settings_of(Kind::command);
    settings.log_bounds = {4000, 8000};
    PastHouse house(settings);
    for (int turn = 1; turn <= 20; ++turn)
        house.turn("question " + std::to_string(turn), std::string(1500, 'a'));
    house.begin_anew();
    const Contents contents = house.contents();
    CHECK(contents.size() == 4);
    CHECK(contents.back() == "question 20");
}

TEST_CASE("past turns: turns that were cut by events outside turns are not told, and keep their names") {
    ManagerSettings settings = settings_of(Kind::command);
    settings.log_bounds = {4000, 8000};
    PastHouse house(settings);
    for (int turn = 1; turn <= 3; ++turn)
        house.turn("question", "answer");
    const auto record = [&house] { return test::get(*house.conversations, house.id)->record; };
    const std::uint64_t last_seq = record().last_seq;
    for (int round = 0; round < 200 && record().first_seq <= last_seq; ++round)
        house.begin_anew();
    REQUIRE(record().first_seq > last_seq);
    house.pause();
    // The rows are purged, and the conversation is unloaded.
    house.world.timers.advance(base::Millis{5'000}, [&house] { house.settle(); });
    REQUIRE(house.conversations->loaded() == 0);
    REQUIRE(house.world.store.events.begin()->second->seq > last_seq);
    REQUIRE(house.resume());
    CHECK(house.contents().empty());
    const auto ticket = house.answer<TurnTicket>([&](auto reply) {
        house.conversations->message(house.id, {"question", "", "somebody"}, MessageReply::at_once,
                                     std::move(reply));
    });
    REQUIRE(ticket);
    CHECK(ticket->turn == 4);
}

TEST_CASE("past turns: a start waits for a store that answers later") {
    PastHouse house;
    house.turn("one", "answer");
    house.pause();
    house.restart();
    Late late(house.world.store);
    std::optional<base::Result<View>> resumed;
    house.conversations->resume(house.id, [&](base::Result<View> view) { resumed = std::move(view); });
    house.settle();
    late.give();  // the conversation is loaded
    house.settle();
    REQUIRE(late.waiting.size() == 1);
    CHECK(house.world.processes.empty());
    late.give();  // its log
    house.settle();
    REQUIRE(house.world.processes.size() == 1);
    CHECK(house.contents() == Contents{"one"});
    while (!late.waiting.empty()) {
        late.give();
        house.settle();
    }
    REQUIRE(resumed);
    CHECK(*resumed);
}

TEST_CASE("past turns: the last place is kept for the start that reads") {
    PastHouse house;
    house.turn("one", "answer");
    house.pause();
    const auto other = house.create();
    REQUIRE(other);
    const std::string rival = other->record.id;
    REQUIRE(house.answer(
        [&](auto reply) { house.conversations->pause(rival, PauseMode::cold, std::move(reply)); }));
    house.restart();
    REQUIRE(house.answer([&](auto reply) {
        house.conversations->patch(rival, conversation::PatchRequest{}, std::move(reply));  // it is loaded
    }));
    std::optional<Late> late(std::in_place, house.world.store);
    std::optional<base::Result<View>> resumed;
    house.conversations->resume(house.id, [&](base::Result<View> view) { resumed = std::move(view); });
    house.settle();
    late->give();  // the conversation is loaded
    house.settle();
    REQUIRE(late->waiting.size() == 1);  // its log is read
    std::optional<base::Result<View>> refused;
    house.conversations->resume(rival, [&](base::Result<View> view) { refused = std::move(view); });
    house.settle();
    REQUIRE(refused);
    REQUIRE_FALSE(*refused);
    CHECK(refused->error().code() == base::Errc::capacity);
    while (!late->waiting.empty()) {
        late->give();
        house.settle();
    }
    late.reset();
    REQUIRE(resumed);
    CHECK(*resumed);
    CHECK(test::get(*house.conversations, rival)->record.status == Status::paused);
    // Given back with the generation.
    house.pause();
    CHECK(house.answer([&](auto reply) { house.conversations->resume(rival, std::move(reply)); }));
}

namespace {

/// A resume of it waits for the store.
struct ReadingHouse : PastHouse {
    ReadingHouse() {
        turn("one", "answer");
        pause();
        restart();
        late.emplace(world.store);
        conversations->resume(id, [this](base::Result<View> view) { resumed = std::move(view); });
        settle();
        late->give();
        settle();
        REQUIRE(late->waiting.size() == 1);
        read = std::move(late->waiting.front());
        late.reset();
        settle();
        REQUIRE_FALSE(resumed);
        REQUIRE(world.processes.empty());
    }

    std::optional<Late> late;
    std::function<void()> read;
    std::optional<base::Result<View>> resumed;
};

}  // namespace

TEST_CASE("past turns: a pause during the read ends it, and the next start reads again") {
    ReadingHouse house;
    house.pause();
    REQUIRE(house.resumed);
    CHECK_FALSE(*house.resumed);
    CHECK(house.status() == Status::paused);
    house.read();
    house.settle();
    CHECK(house.world.processes.empty());
    REQUIRE(house.resume());
    CHECK(house.contents() == Contents{"one"});
    CHECK(house.told().at("generation") == 2);
}

TEST_CASE("past turns: a resume at once after a pause during the read starts one generation") {
    ReadingHouse house;
    house.conversations->pause(house.id, PauseMode::cold, [](const base::Result<View>&) {});
    REQUIRE(house.resume());
    house.read();
    house.settle();
    CHECK(house.contents() == Contents{"one"});
    CHECK(house.told().at("generation") == 2);
}

TEST_CASE("past turns: a conversation can be deleted during the read") {
    ReadingHouse house;
    const auto removed =
        house.answer<void>([&](auto reply) { house.conversations->remove(house.id, std::move(reply)); });
    CHECK(removed);
    house.read();
    house.settle();
    CHECK(house.world.processes.empty());
    CHECK(house.world.store.conversations.empty());
    REQUIRE(house.resumed);
    CHECK_FALSE(*house.resumed);
}

TEST_CASE("past turns: the server can stop during the read") {
    ReadingHouse house;
    bool is_down = false;
    house.conversations->shut_down([&] { is_down = true; });
    house.settle();
    CHECK(is_down);
    house.read();
    house.settle();
    CHECK(house.world.processes.empty());
}

TEST_CASE("past turns: a store that does not answer in time leaves them out") {
    ReadingHouse house;
    while (house.world.processes.empty()) {
        REQUIRE(house.world.timers.fire_next());
        house.settle();
    }
    CHECK(house.told().at("turns").empty());
    CHECK(house.told().at("generation") == 2);
    REQUIRE(house.resumed);
    CHECK(*house.resumed);
    house.read();
    house.settle();
    house.turn("two", "answer");
    house.begin_anew();
    CHECK(house.contents() == Contents{"one", "two"});
}

TEST_CASE("past turns: a read that fails leaves out what is older, and the conversation goes on") {
    PastHouse house;
    for (int turn = 1; turn <= 20; ++turn)
        house.turn("question " + std::to_string(turn), std::string(10'000, 'a'));
    house.pause();
    house.restart();
    const int good = GENERATE(0, 2);
    house.world.store.read_fails = [left = good]() mutable { return left-- <= 0; };
    REQUIRE(house.resume());
    const Contents contents = house.contents();
    CHECK(contents.empty() == (good == 0));
    CHECK((contents.empty() || contents.back() == "question 20"));
    CHECK(contents.size() < 20);
    house.turn("more", "answer");
    CHECK(house.status() == Status::active);
}

}  // namespace past_turns_test
