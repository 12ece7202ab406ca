// Calls as the host sees them: hostile guests. Real ones are in files_test.cpp.
#include "bridge/call_stream.hpp"

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <optional>

#include "bridge/protocol.hpp"
#include "bridge/unix_channel.hpp"
#include "core/plain/operation_limits.hpp"
#include "fake_guest.hpp"

namespace atl::test::call_stream_test {
namespace {

using base::Errc;
using bridge::FrameType;

std::string frame(FrameType type, std::string_view payload = {}) {
    std::string out;
    bridge::append_frame(out, type, payload);
    return out;
}

struct CallRecorder final : sandbox::CallObserver {
    void on_ready() override { record("ready"); }
    void on_progress(std::string_view json) override { record("progress " + std::string(json)); }
    void on_reply(std::string_view json) override {
        reply = json;
        record("reply");
    }
    void on_bytes(std::string_view more) override {
        bytes += more;
        record("bytes");
    }
    void on_writable() override { record("room"); }
    void on_end() override {
        ended = true;
        record("end");
    }
    void on_failed(const base::Error& error) override {
        failure = error;
        record("failed");
    }
    bool is_full() const override { return full; }
    bool is_over() const { return ended || failure.has_value(); }
    bool has_failed_with(Errc code) const { return failure && failure->code() == code; }
    void record(std::string call) {
        CHECK_FALSE(last_was_called);
        last_was_called = call == "end" || call == "failed";
        calls.push_back(std::move(call));
        on_each();
    }

    std::vector<std::string> calls;
    std::string reply;
    std::string bytes;
    std::optional<base::Error> failure;
    bool ended = false;
    bool full = false;
    bool last_was_called = false;
    std::function<void()> on_each = [] {};
};

/// A loop driven by hand and a scripted guest with one call.
struct CallBench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Operations> operations = channels.open_operations(guest);
    CallRecorder seen;
    std::unique_ptr<sandbox::Call> call =
        operations->call({bridge::cmd::file, R"("op":"stat","path":"f")"}, seen);
    FakePeer peer = guest.accept();

    CallBench() { CHECK(peer.received() == "{\"cmd\":\"file\",\"op\":\"stat\",\"path\":\"f\"}\n"); }
    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
    void says(std::string_view text) {
        peer.send(text);
        settle();
    }
};

const std::string k_reply = "{\"ok\":true,\"entry\":{\"size\":6}}\n";
const std::string k_call = "{}\n{\"progress\":{\"bytes\":1}}\n" + k_reply + frame(FrameType::output, "abc") +
                           frame(FrameType::output, "def") + bridge::encode_exit({});

}  // namespace

TEST_CASE("a call may arrive cut at any byte") {
    for (std::size_t cut = 0; cut <= k_call.size(); ++cut) {
        CallBench bench;
        bench.says(k_call.substr(0, cut));
        bench.says(k_call.substr(cut));
        CHECK(bench.seen.calls.front() == "progress {\"bytes\":1}");
        CHECK(bench.seen.reply == k_reply.substr(0, k_reply.size() - 1));
        CHECK(bench.seen.bytes == "abcdef");
        CHECK(bench.seen.ended);
        CHECK(bench.timers.armed() == 0);
        CHECK_FALSE(bench.peer.at_end());
    }
}

TEST_CASE("a call that ended well leaves its connection to the next one, any other does not") {
    CallBench bench;
    bool is_kept = true;
    SECTION("it ended well") {
        bench.says(k_call);
    }
    SECTION("it ended well, and is gone") {
        bench.says(k_call);
        bench.call.reset();
    }
    SECTION("its guest says more") {
        bench.says(k_call + "{}\n");
        is_kept = false;
    }
    SECTION("its guest says more later") {
        bench.says(k_call);
        bench.says("{}\n");
        is_kept = false;
    }
    SECTION("its guest goes away unseen") {
        bench.says(k_call);
        bench.peer.close();
        is_kept = false;
    }
    SECTION("input of it may still be on its way") {
        bench.says("{\"ready\":true}\n");
        CHECK(bench.call->write("abc") == 3);
        bench.says(k_call);
        is_kept = false;
    }
    SECTION("it was refused") {
        bench.says(bridge::encode_refusal("f: no", bridge::refusal::file_not_found));
        is_kept = false;
    }
    SECTION("it was given up") {
        bench.says(k_reply);
        bench.call.reset();
        is_kept = false;
    }
    CallRecorder seen;
    const auto next = bench.operations->call({bridge::cmd::file, R"("op":"stat","path":"g")"}, seen);
    REQUIRE(bench.guest.has_connection() != is_kept);
    if (!is_kept)
        bench.peer = bench.guest.accept();
    CHECK(bench.peer.received() == "{\"cmd\":\"file\",\"op\":\"stat\",\"path\":\"g\"}\n");
    bench.says(k_call);
    CHECK(seen.bytes == "abcdef");
    CHECK(seen.ended);
    // Only one is kept.
    CallRecorder third_seen, fourth_seen;
    const auto third = bench.operations->call({bridge::cmd::file, R"("op":"stat","path":"h")"}, third_seen);
    CHECK_FALSE(bench.guest.has_connection());
    const auto fourth = bench.operations->call({bridge::cmd::file, R"("op":"stat","path":"i")"}, fourth_seen);
    FakePeer other = bench.guest.accept();
    bench.says(k_call);
    other.send(k_call);
    bench.settle();
    CHECK(third_seen.ended);
    CHECK(fourth_seen.ended);
    CHECK(other.at_end());
    bench.operations.reset();
    bench.settle();
    CHECK(bench.peer.at_end());
}

TEST_CASE("a call that breaks off at any byte has failed") {
    for (std::size_t cut = 0; cut < k_call.size(); ++cut) {
        CallBench bench;
        bench.peer.send(k_call.substr(0, cut));
        bench.peer.close();
        bench.settle();
        CHECK(bench.seen.has_failed_with(Errc::bridge_failed));
        CHECK(bench.timers.armed() == 0);
    }
}

TEST_CASE("a call may be destroyed in any of its callbacks") {
    for (std::size_t at = 1; at <= 6; ++at) {
        CallBench bench;
        bench.seen.on_each = [&] {
            if (bench.seen.calls.size() == at)
                bench.call.reset();
        };
        bench.says("{\"ready\":true}\n" + k_call);
        CHECK(bench.seen.calls.size() == at);
        CHECK(bench.timers.armed() == 0);
        CHECK(bench.peer.at_end());
    }
}

TEST_CASE("a refusal is told by its word, and by none that the guest made up") {
    const auto [code, means] = GENERATE(table<std::string_view, Errc>({
        {"file_not_found", Errc::file_not_found},
        {"precondition_failed", Errc::precondition_failed},
        {"disk_full", Errc::disk_full},
        {"outside_workspace", Errc::outside_workspace},
        {"not_a_file", Errc::not_a_file},
        {"unauthorized", Errc::bridge_failed},
        {"", Errc::bridge_failed},
    }));
    CallBench bench;
    bench.says(bridge::encode_refusal("f: no", code));
    CHECK(bench.seen.has_failed_with(means));
    CHECK(bench.seen.failure->detail() == "f: no");
    CHECK(bench.timers.armed() == 0);
    CHECK(bench.peer.at_end());
}

TEST_CASE("what is not of the form of a call ends it") {
    CallBench bench;
    SECTION("no JSON") {
        bench.says("hello\n");
    }
    SECTION("no object") {
        bench.says("[]\n");
    }
    SECTION("nested too deep") {
        bench.says("{\"progress\":" + std::string(40, '[') + std::string(40, ']') + "}\n");
    }
    SECTION("a line without an end") {
        for (int i = 0; i < 3 && !bench.seen.is_over(); ++i)
            bench.says(std::string(base::k_max_reply_line_bytes / 2, ' '));
    }
    SECTION("a line that is too long") {
        bench.peer.send(std::string(base::k_max_reply_line_bytes + 1, ' '));
        bench.settle();
        bench.says("\n");
    }
    SECTION("ready twice") {
        bench.says("{\"ready\":true}\n{\"ready\":true}\n");
    }
    SECTION("frames instead of a reply") {
        bench.says(frame(FrameType::output, "x\n"));
    }
    SECTION("a second reply") {
        bench.says(k_reply + k_reply);
    }
    SECTION("a frame of a program") {
        bench.says(k_reply + frame(FrameType::error, "x"));
    }
    SECTION("a grant") {
        bench.says(k_reply + bridge::encode_grant(1));
    }
    SECTION("an empty frame") {
        bench.says(k_reply + frame(FrameType::output));
    }
    SECTION("a frame beyond its bound") {
        bench.says(k_reply + std::string("\xff\xff\xff\xff\x01", 5));
    }
    CHECK(bench.seen.has_failed_with(Errc::bridge_failed));
    CHECK(bench.timers.armed() == 0);
    CHECK(bench.peer.at_end());
}

TEST_CASE("a guest that says nothing is given up, and one that says it works is not") {
    CallBench bench;
    bench.timers.advance(base::k_call_keepalive_deadline - base::Millis{1});
    bench.says("{}\n");
    bench.timers.advance(base::k_call_keepalive_deadline - base::Millis{1});
    CHECK_FALSE(bench.seen.is_over());
    SECTION("before the reply") {}
    SECTION("behind it") {
        bench.says(k_reply);
        bench.timers.advance(base::k_call_keepalive_deadline - base::Millis{1});
        bench.says(frame(FrameType::output, "x"));
        bench.timers.advance(base::k_call_keepalive_deadline - base::Millis{1});
        CHECK_FALSE(bench.seen.is_over());
    }
    SECTION("when the input is complete") {
        bench.says("{\"ready\":true}\n");
        bench.timers.advance(base::k_call_keepalive_deadline * 3);
        CHECK_FALSE(bench.seen.is_over());
        bench.call->end_input();
    }
    bench.timers.advance(base::k_call_keepalive_deadline);
    CHECK(bench.seen.has_failed_with(Errc::deadline_exceeded));
    CHECK(bench.timers.armed() == 0);
    bench.settle();
    CHECK(bench.peer.at_end());
}

TEST_CASE("while nobody takes the bytes the guest is not given up, and has the whole time afterwards") {
    CallBench bench;
    bench.says(k_reply + frame(FrameType::output, "a"));
    bench.seen.full = true;
    bench.says(frame(FrameType::output, "b"));
    bench.timers.advance(base::k_call_keepalive_deadline * 3 - base::Millis{1});
    CHECK_FALSE(bench.seen.is_over());
    bench.seen.full = false;
    bench.call->resume();
    bench.settle();
    bench.timers.advance(base::k_call_keepalive_deadline - base::Millis{1});
    CHECK_FALSE(bench.seen.is_over());
    bench.says(bridge::encode_exit({}));
    CHECK(bench.seen.ended);
    CHECK(bench.seen.bytes == "ab");
    bench.call->resume();
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("no input goes out before the guest asks, and then within the bound of the queue") {
    CallBench bench;
    CHECK(bench.call->write("early") == 0);
    bench.settle();
    CHECK(bench.peer.received().empty());
    bench.says("{\"ready\":true}\n");
    const std::string piece(base::k_max_frame_bytes, 'x');
    std::size_t taken = 0;
    for (std::size_t more = 1; more > 0 && taken < 64UL * 1024 * 1024; taken += more)
        more = bench.call->write(piece);
    CHECK(taken < 4UL * 1024 * 1024);
    std::string received;
    while (bench.seen.calls.back() != "room") {
        received += bench.peer.received();
        bench.settle();
    }
    bench.call->end_input();
    bench.settle();
    received += bench.peer.received();
    CHECK(received.ends_with(frame(FrameType::input_end)));
    CHECK(bench.call->write("late") == 4);
    bench.says(k_reply + bridge::encode_exit({}));
    CHECK(bench.seen.ended);
}

TEST_CASE("a guest that does not read its input is given up") {
    CallBench bench;
    bench.says("{\"ready\":true}\n");
    const std::string piece(base::k_max_frame_bytes, 'x');
    while (bench.call->write(piece) != 0) {
    }
    bench.timers.advance(base::k_call_keepalive_deadline);
    CHECK(bench.seen.has_failed_with(Errc::deadline_exceeded));
}

TEST_CASE("a refusal in the middle of the input ends the call, and what is written then goes nowhere") {
    CallBench bench;
    bench.says("{\"ready\":true}\n");
    CHECK(bench.call->write("abc") == 3);
    bench.says(bridge::encode_refusal("full", bridge::refusal::disk_full));
    CHECK(bench.seen.has_failed_with(Errc::disk_full));
    CHECK(bench.call->write("def") == 3);
    bench.call->end_input();
    CHECK(bench.timers.armed() == 0);
}

TEST_CASE("a guest that closes while input waits has failed with its refusal, if it sent one") {
    CallBench bench;
    bench.says("{\"ready\":true}\n");
    const std::string piece(base::k_max_frame_bytes, 'x');
    while (bench.call->write(piece) != 0) {
    }
    const bool says_why = GENERATE(true, false);
    if (says_why)
        bench.peer.send(bridge::encode_refusal("full", bridge::refusal::disk_full));
    bench.peer.close();
    bench.settle();
    CHECK(bench.seen.has_failed_with(says_why ? Errc::disk_full : Errc::bridge_failed));
    CHECK(bench.timers.armed() == 0);
}

}  // namespace atl::test::call_stream_test
