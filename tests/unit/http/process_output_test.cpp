// The output of a process, as a page and as a stream, over an operation that the test plays.
#include "http/api/process_output.hpp"

#include <signal.h>

#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/played_process.hpp"

namespace process_output_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using http::Json;
using http::OutputPage;
using sandbox::OutputKind;
using State = http::BodyStream::State;

namespace {

/// A question for a page, and what it was answered.
struct Asked {
    explicit Asked(std::uint64_t after = 0) {
        question = std::make_unique<http::OutputQuestion>(play, "a", after, timers, [this](auto answer) {
            ++answers;
            page = std::move(answer);
        });
    }
    /// The guest's list: so much output was there, of a process that runs or has ended.
    void list(std::uint64_t end_byte, std::optional<sandbox::RunExit> exit = std::nullopt) {
        sandbox::ProcessInfo info;
        info.end_byte = end_byte;
        info.exit = exit;
        play.listed(std::vector<sandbox::ProcessInfo>{info});
    }
    void place(std::uint64_t from) {
        play.observer->on_started(7);
        play.observer->on_position(from, sandbox::StreamKind::pipes);
    }
    void write(std::string_view bytes) { play.observer->on_output(OutputKind::standard, bytes); }
    void write_error(std::string_view bytes) { play.observer->on_output(OutputKind::error, bytes); }
    Json json() const { return Json::parse(http::output_page_json(page.value())); }

    FakeClock clock;
    FakeTimers timers{clock};
    PlayedProcess play;
    int answers = 0;
    base::Result<OutputPage> page = base::Error(Errc::internal);
    std::unique_ptr<http::OutputQuestion> question;
};

/// A process that is followed.
struct Followed {
    explicit Followed(std::uint64_t after = 0, http::EventNames names = {}) {
        std::unique_ptr<conversation::Lease> lease;
        book.add("sandbox", conversation::LeaseUse::process,
                 [&lease](auto reply) { lease = std::move(*reply); });
        book.grant();
        settle();
        stream = std::make_unique<http::ProcessStream>(std::move(lease), http::StreamLease(), names, timers);
        stream->attach(play, "a", after);
        CHECK_FALSE(stream->is_known());
        play.observer->on_started(7);
        play.observer->on_position(after, sandbox::StreamKind::pipes);
    }
    void settle() {
        while (timers.run_deferred()) {
        }
    }
    std::string pull(State expected, std::size_t limit_bytes = 1 << 20) const {
        std::string out;
        CHECK(stream->pull(out, limit_bytes) == expected);
        return out;
    }

    FakeClock clock;
    FakeTimers timers{clock};
    int released = 0;
    conversation::LeaseTable book{timers, [this](conversation::LeaseUse) { ++released; }};
    PlayedProcess play;
    std::unique_ptr<http::ProcessStream> stream;
};

constexpr std::string_view k_begun =
    "retry: 1000\n\nid: 0\ndata: {\"type\":\"started\",\"pid\":7,\"after\":0,\"pty\":false}\n\n";

}  // namespace

TEST_CASE("a page has what there was when it was asked for, and leaves the process alone") {
    Asked asked(3);
    CHECK(asked.play.after == 3);
    asked.place(3);
    asked.write("ab");
    SECTION("the list comes last") {
        asked.write_error("c");
        CHECK(asked.answers == 0);
        asked.list(6);
    }
    SECTION("the list comes first") {
        asked.list(6);
        CHECK(asked.answers == 0);
        asked.write_error("c");
    }
    REQUIRE(asked.answers == 1);
    CHECK(asked.json() == Json{{"after", 3}, {"next", 6}, {"dropped", 0}, {"stdout", "ab"}, {"stderr", "c"}});
    CHECK(asked.play.observer == nullptr);
    CHECK(asked.timers.idle());
}

TEST_CASE("a page of a process that has ended has its exit, but only behind its output") {
    Asked asked;
    asked.list(2, sandbox::RunExit{0, SIGKILL, true});
    asked.place(0);
    asked.write("ab");
    CHECK(asked.answers == 0);
    asked.play.observer->on_exit({0, SIGKILL, true});
    REQUIRE(asked.answers == 1);
    CHECK(asked.json()["exit"] == Json{{"exitCode", nullptr}, {"signal", "SIGKILL"}, {"timedOut", true}});
    CHECK(asked.json()["next"] == 2);
}

TEST_CASE("a page that asks for more than there is begins at the end, and is empty") {
    Asked asked(1000);
    asked.place(12);
    asked.list(12);
    REQUIRE(asked.answers == 1);
    CHECK(asked.page->after == 12);
    CHECK(asked.page->next() == 12);
}

TEST_CASE("a page is bounded, and cut between characters") {
    Asked asked;
    asked.place(0);
    asked.write(std::string(http::k_output_page_bytes - 1, 'x'));
    CHECK(asked.answers == 0);
    asked.write("\xC3\xA4 and more");
    REQUIRE(asked.answers == 1);
    CHECK(asked.page->next() == http::k_output_page_bytes - 1);
    CHECK_FALSE(asked.page->exit.has_value());
    // The character is the first one of the next page.
    Asked next(asked.page->next());
    next.place(asked.page->next());
    next.write("\xC3\xA4");
    next.list(http::k_output_page_bytes + 1);
    REQUIRE(next.answers == 1);
    CHECK(next.json()["stdout"] == "\xC3\xA4");
}

TEST_CASE("a character that is not complete waits for the next page, unless nothing follows") {
    Asked asked;
    asked.place(0);
    SECTION("the process runs") {
        asked.write("a\xE2\x82");
        asked.list(3);
        CHECK(asked.json() ==
              Json{{"after", 0}, {"next", 1}, {"dropped", 0}, {"stdout", "a"}, {"stderr", ""}});
    }
    SECTION("the process has ended") {
        asked.write("a\xE2\x82");
        asked.list(3, sandbox::RunExit{});
        asked.play.observer->on_exit({});
        CHECK(asked.json()["stdoutBase64"] == "YeKC");
        CHECK_FALSE(asked.json().contains("stdout"));
        CHECK(asked.json()["next"] == 3);
    }
    SECTION("the other stream comes behind it, so that no cursor lies before it alone") {
        asked.write("a\xE2\x82");
        asked.write_error("e");
        asked.list(4);
        CHECK(asked.json()["stdoutBase64"] == "YeKC");
        CHECK(asked.json()["stderr"] == "e");
        CHECK(asked.json()["next"] == 4);
    }
    SECTION("bytes that begin no character are told at once") {
        asked.write("a\xFF");
        asked.list(2);
        CHECK(asked.json()["stdoutBase64"] == "Yf8=");
    }
}

TEST_CASE("what is not kept is told at the beginning of a page, and a gap in the middle ends it") {
    Asked asked;
    asked.place(0);
    asked.play.observer->on_dropped(40);
    asked.write("ab");
    asked.play.observer->on_dropped(5);
    REQUIRE(asked.answers == 1);
    CHECK(asked.json()["dropped"] == 40);
    CHECK(asked.json()["next"] == 42);
}

TEST_CASE("a page that cannot be read says why, once") {
    Asked asked;
    SECTION("there is no such process") {
        asked.play.listed(std::vector<sandbox::ProcessInfo>{});
        CHECK(asked.page.error().code() == Errc::not_found);
        CHECK(asked.play.observer == nullptr);
    }
    SECTION("the connection breaks") {
        asked.play.observer->on_failed(base::Error(Errc::bridge_failed, "closed"));
        CHECK(asked.page.error().code() == Errc::bridge_failed);
        asked.list(0);
    }
    SECTION("the guest says nothing") {
        asked.timers.advance(base::k_control_reply_deadline);
        CHECK(asked.page.error().code() == Errc::deadline_exceeded);
        CHECK(asked.play.observer == nullptr);
    }
    CHECK(asked.answers == 1);
    CHECK(asked.timers.idle());
}

TEST_CASE("a question for a page that is dropped is never answered") {
    Asked asked;
    asked.question.reset();
    CHECK(asked.play.observer == nullptr);
    CHECK(asked.timers.idle());
    CHECK(asked.answers == 0);
}

TEST_CASE("a stream of a process shows output in order, with the byte behind it as id, and the exit last") {
    Followed process;
    auto* const writes = process.play.observer;
    CHECK(process.pull(State::waiting) == k_begun);
    writes->on_output(OutputKind::standard, "ab");
    writes->on_output(OutputKind::standard, "c");
    writes->on_output(OutputKind::error, "x\xff");
    CHECK(process.pull(State::waiting) ==
          "id: 3\ndata: {\"type\":\"stdout\",\"text\":\"abc\"}\n\n"
          "id: 5\ndata: {\"type\":\"stderr\",\"base64\":\"eP8=\"}\n\n");
    writes->on_dropped(100);
    writes->on_output(OutputKind::standard, "d");
    writes->on_exit({4, 0, false});
    CHECK(process.pull(State::finished) ==
          "id: 105\ndata: {\"type\":\"dropped\",\"bytes\":100}\n\n"
          "id: 106\ndata: {\"type\":\"stdout\",\"text\":\"d\"}\n\n"
          "id: 106\ndata: {\"type\":\"exit\",\"exitCode\":4,\"signal\":null,\"timedOut\":false,"
          "\"after\":106}\n\n");
    CHECK(process.released == 1);
}

TEST_CASE("a stream of a process cuts no character, and the id lies before what it holds back") {
    Followed process;
    auto* const writes = process.play.observer;
    CHECK(process.pull(State::waiting) == k_begun);
    writes->on_output(OutputKind::standard, "a\xE2\x82");
    CHECK(process.pull(State::waiting) == "id: 1\ndata: {\"type\":\"stdout\",\"text\":\"a\"}\n\n");
    CHECK(process.pull(State::waiting).empty());
    SECTION("its rest comes") {
        writes->on_output(OutputKind::standard, "\xAC!");
        CHECK(process.pull(State::waiting) == "id: 5\ndata: {\"type\":\"stdout\",\"text\":\"€!\"}\n\n");
    }
    SECTION("the other stream comes") {
        writes->on_output(OutputKind::error, "e");
        CHECK(process.pull(State::waiting) ==
              "id: 3\ndata: {\"type\":\"stdout\",\"base64\":\"4oI=\"}\n\n"
              "id: 4\ndata: {\"type\":\"stderr\",\"text\":\"e\"}\n\n");
    }
    SECTION("the process ends") {
        writes->on_exit({0, 0, false});
        CHECK(process.pull(State::finished) ==
              "id: 3\ndata: {\"type\":\"stdout\",\"base64\":\"4oI=\"}\n\n"
              "id: 3\ndata: {\"type\":\"exit\",\"exitCode\":0,\"signal\":null,\"timedOut\":false,"
              "\"after\":3}\n\n");
    }
    SECTION("the server stops") {
        std::string out;
        process.stream->end_early(Errc::shutting_down, out);
        CHECK(out.find("\"code\":\"shutting_down\"") != std::string::npos);
        CHECK(out.find("\"after\":1}") != std::string::npos);
    }
}

TEST_CASE("characters are whole over the pieces of a stream of a process") {
    Followed process;
    auto* const writes = process.play.observer;
    std::string all;
    // Each piece is as long as a frame may be, and ends inside a character.
    for (int i = 0; i < 4; ++i) {
        const std::string piece = i % 2 == 0 ? std::string(16UL * 1024 - 1, 'x') + "\xC3"
                                             : "\xA4" + std::string(16UL * 1024 - 1, 'y');
        all += piece;
        writes->on_output(OutputKind::standard, piece);
    }
    const std::string out = process.pull(State::waiting);
    CHECK(out.find("base64") == std::string::npos);
    std::string text;
    for (std::size_t at = out.find("data: ", k_begun.size()); at != std::string::npos;
         at = out.find("data: ", at + 1))
        text += Json::parse(out.substr(at + 6, out.find('\n', at) - at - 6))["text"].get<std::string>();
    CHECK(text == all);
}

TEST_CASE("a stream of a process begins where it is asked to, with names where they are wanted") {
    Followed process(42, http::EventNames::types);
    CHECK(process.play.after == 42);
    process.play.observer->on_output(OutputKind::error, "e");
    CHECK(process.pull(State::waiting) ==
          "retry: 1000\n\nid: 42\nevent: started\n"
          "data: {\"type\":\"started\",\"pid\":7,\"after\":42,\"pty\":false}\n\n"
          "id: 43\nevent: stderr\ndata: {\"type\":\"stderr\",\"text\":\"e\"}\n\n");
}

TEST_CASE("a stream of a process that is not read holds the guest until there is room") {
    Followed process;
    auto* const writes = process.play.observer;
    std::size_t written = 0;
    while (!writes->is_full()) {
        writes->on_output(OutputKind::standard, "x");
        writes->on_output(OutputKind::error, "y");
        written += 2;
        REQUIRE(written < base::k_max_waiting_bytes);
    }
    CHECK(process.play.resumes == 0);
    std::size_t frames = 0;
    std::string out;
    for (auto state = State::more; state == State::more; out.clear()) {
        state = process.stream->pull(out, 1024);
        CHECK(out.size() < 2048);
        for (std::size_t at = 0; (at = out.find("\"text\"", at)) != std::string::npos; ++at)
            ++frames;
    }
    CHECK(frames == written);
    CHECK(process.play.resumes == 1);
    CHECK_FALSE(writes->is_full());
}

TEST_CASE("a stream of a process says what ended the sandbox, also where the connection broke first") {
    Followed process;
    process.play.observer->on_output(OutputKind::standard, "ab");
    (void)process.pull(State::waiting);
    process.play.observer->on_failed(base::Error(Errc::bridge_failed, "closed"));
    CHECK(process.pull(State::waiting).empty());
    SECTION("the cause comes") {
        process.book.end(conversation::action::LeaseScope::all, base::Error(Errc::sandbox_gone, "oom"));
        process.settle();
        CHECK(process.pull(State::finished) ==
              "data: "
              "{\"type\":\"stream_closed\",\"code\":\"sandbox_gone\",\"detail\":\"oom\",\"after\":2}\n\n");
    }
    SECTION("no cause comes") {
        process.timers.advance(base::k_end_cause_wait);
        CHECK(process.pull(State::finished).find("\"code\":\"bridge_failed\"") != std::string::npos);
    }
    CHECK(process.timers.idle());
}

TEST_CASE("a process that cannot be followed is refused before its stream begins") {
    FakeClock clock;
    FakeTimers timers{clock};
    conversation::LeaseTable book{timers, [](conversation::LeaseUse) {}};
    std::unique_ptr<conversation::Lease> lease;
    book.add("sandbox", conversation::LeaseUse::process, [&lease](auto reply) { lease = std::move(*reply); });
    book.grant();
    while (timers.run_deferred()) {
    }
    PlayedProcess play;
    http::ProcessStream stream(std::move(lease), http::StreamLease(), {}, timers);
    int wakes = 0;
    stream.on_wake([&wakes] { ++wakes; });
    stream.attach(play, "a", 0);
    play.observer->on_failed(base::Error(Errc::not_found, "no process of that id"));
    CHECK(wakes == 1);
    REQUIRE(stream.is_known());
    CHECK(stream.refusal()->code() == Errc::not_found);
}

}  // namespace process_output_test
