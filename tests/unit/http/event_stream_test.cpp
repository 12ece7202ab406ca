#include "http/api/event_stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <deque>

namespace event_stream_test {

using namespace atl::http;
using atl::base::Errc;
using atl::base::Error;
using atl::conversation::Batch;
using atl::conversation::Cursor;
using atl::conversation::Event;
using atl::conversation::EventType;
using State = BodyStream::State;

namespace {

atl::conversation::EventPtr event(std::uint64_t seq, EventType type, std::uint64_t turn) {
    return std::make_shared<Event>(Event{seq, type, turn, "{\"seq\":" + std::to_string(seq) + "}"});
}

class ScriptedFeed final : public EventFeed {
  public:
    explicit ScriptedFeed(std::deque<atl::base::Result<Batch>> script) : script_(std::move(script)) {}
    atl::base::Result<Batch> next(std::size_t) override {
        if (script_.empty())
            return Batch{};
        auto batch = std::move(script_.front());
        script_.pop_front();
        if (batch && !batch->events.empty())
            cursor_ = batch->events.back()->seq;
        return batch;
    }
    void on_wake(atl::http::StreamWake) override {}
    std::uint64_t cursor() const noexcept override { return cursor_; }
    std::string_view epoch() const noexcept override { return "e1"; }

  private:
    std::deque<atl::base::Result<Batch>> script_;
    std::uint64_t cursor_ = 0;
};

EventStream stream(std::deque<atl::base::Result<Batch>> script, std::uint64_t turn,
                   EventNames names = EventNames::none) {
    return EventStream(std::make_unique<ScriptedFeed>(std::move(script)), turn, names);
}

}  // namespace

TEST_CASE("an event is one frame with its number and text, and with its type if that is asked for") {
    std::string out;
    write_sse_event(out, *event(17, EventType::error, 1), "e1", EventNames::none);
    CHECK(out == "id: 17-e1\ndata: {\"seq\":17}\n\n");
    out.clear();
    write_sse_event(out, *event(17, EventType::error, 1), "", EventNames::types);
    CHECK(out == "id: 17\nevent: error\ndata: {\"seq\":17}\n\n");
}

TEST_CASE("the last word of a stream is an object with a type, and has a name if that is asked for") {
    for (const auto names : {EventNames::none, EventNames::types}) {
        auto all = stream({}, 0, names);
        std::string out;
        all.end_early(Errc::token_expired, out);
        const std::string name = names == EventNames::types ? "event: stream_closed\n" : "";
        CHECK(out.starts_with(
            name + R"(data: {"logEpoch":"e1","type":"stream_closed","code":"token_expired","detail":")"));
        CHECK(out.ends_with("\"after\":0}\n\n"));
    }
}

TEST_CASE("a turn's stream has that turn's events only and ends with its done") {
    auto turn = stream({Batch{{event(1, EventType::done, 1), event(2, EventType::message, 2)}},
                        Batch{{event(3, EventType::sandbox_ready, 0), event(4, EventType::done, 2),
                               event(5, EventType::message, 3)}}},
                       2);
    std::string out;
    CHECK(turn.pull(out, 4096) == State::finished);
    CHECK(out == "id: 2-e1\ndata: {\"seq\":2}\n\nid: 4-e1\ndata: {\"seq\":4}\n\n");
}

TEST_CASE("a conversation's stream goes on, with a hint when to reconnect") {
    auto all = stream({Batch{{event(1, EventType::done, 1)}}}, 0);
    std::string out;
    CHECK(all.pull(out, 4096) == State::waiting);
    CHECK(out == "retry: 1000\n\nid: 1-e1\ndata: {\"seq\":1}\n\n");
    out.clear();
    CHECK(all.pull(out, 4096) == State::waiting);
    CHECK(out.empty());
}

TEST_CASE("a long replay gives way at the bound") {
    auto all =
        stream({Batch{{event(1, EventType::message, 1)}}, Batch{{event(2, EventType::message, 1)}}}, 0);
    std::string out;
    CHECK(all.pull(out, 1) == State::more);
    CHECK(out.find("id: 2") == std::string::npos);
    CHECK(all.pull(out, 1) == State::more);
    CHECK(all.pull(out, 1) == State::waiting);
}

TEST_CASE("a stream that ends early says why and where to go on, without an id") {
    auto gone = stream({Batch{{event(7, EventType::message, 1)}, true}}, 0);
    std::string out;
    CHECK(gone.pull(out, 4096) == State::finished);
    CHECK(out.find("id: 7-e1\n") != std::string::npos);
    CHECK(out.find("data: {\"logEpoch\":\"e1\",\"type\":\"stream_closed\",\"code\":\"conversation_ended\"") !=
          std::string::npos);

    auto cut = stream({Error(Errc::seq_expired, "the log begins at 9")}, 0);
    out.clear();
    CHECK(cut.pull(out, 4096) == State::finished);
    CHECK(out.find("\"code\":\"seq_expired\"") != std::string::npos);

    auto stopped = stream({Batch{{event(3, EventType::message, 1)}}}, 0);
    out.clear();
    CHECK(stopped.pull(out, 4096) == State::waiting);
    out.clear();
    stopped.end_early(Errc::shutting_down, out);
    CHECK(out.find("\"code\":\"shutting_down\"") != std::string::npos);
    CHECK(out.find("\"after\":3") != std::string::npos);
    CHECK(out.find("id:") == std::string::npos);
}

TEST_CASE("a turn's stream ends where the store does not take the turn; one of all events waits on") {
    Batch stalled;
    stalled.stalled = true;
    auto turn = stream({stalled}, 2);
    std::string out;
    CHECK(turn.pull(out, 4096) == State::finished);
    CHECK(out.find("\"type\":\"stream_closed\",\"code\":\"storage_failed\"") != std::string::npos);
    CHECK(out.find("The turn has begun") != std::string::npos);

    auto all = stream({stalled, Batch{{event(1, EventType::done, 2)}}}, 0);
    out.clear();
    CHECK(all.pull(out, 4096) == State::waiting);
    CHECK(out == "retry: 1000\n\n");
    CHECK(all.pull(out, 4096) == State::waiting);
    CHECK(out.find("id: 1-e1") != std::string::npos);
}

TEST_CASE("Last-Event-ID counts before the query, and must be a number") {
    Request request;
    CHECK(resume_point(request, 5).value() == 5);
    request.fields = {{"Last-Event-ID", "17"}};
    CHECK(resume_point(request, 5).value() == 17);
    for (const char* bad : {"x", "-1", "1 2", "18446744073709551615"}) {
        request.fields = {{"last-event-id", bad}};
        CHECK(resume_point(request, 5).error().code() == Errc::invalid_request);
        CHECK(resume_point(request, Cursor{5, {}}).error().code() == Errc::invalid_request);
    }
    // The id of an event of a log may also name that log, by its epoch.
    request.fields = {{"Last-Event-ID", "17-abc"}};
    CHECK(resume_point(request, 5).has_error());
    const auto point = resume_point(request, Cursor{5, "def"});
    CHECK(point->seq == 17);
    CHECK(point->epoch == "abc");
    request.fields.clear();
    CHECK(resume_point(request, Cursor{5, "def"})->epoch == "def");
}

}  // namespace event_stream_test
