// Two turns of the same channel, one after the other: events come up to `done`, bad lines are reported, and
// lines after `done` never reach the second turn.
#include "bridge/query_stream.hpp"

#include "bridge/event_line.hpp"
#include "tests/fuzz/bridge_peer.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using bridge::QueryStream;
using fuzz::require;

namespace {

using Calls = std::vector<std::string>;

struct Recorder final : sandbox::QueryObserver {
    void on_event(const sandbox::AgentEvent& event) override {
        add(std::string(event.name) + ' ' + std::string(event.data));
    }
    void on_bad_line(std::string_view what) override { add("bad " + std::string(what)); }
    void on_end(sandbox::QueryEnd end, std::string_view) override {
        add("end " + std::to_string(static_cast<int>(end)));
        ended = true;
    }
    bool truncated() const override { return slow; }
    void add(std::string call) {
        require(!ended, "nothing after the end");
        calls.push_back(std::move(call));
    }

    Calls calls;
    bool ended = false;
    bool slow = false;
};

// Afterwards `text` holds only the lines after the turn.
Calls expected_calls(std::string_view& text) {
    Recorder recorder;
    while (!recorder.ended) {
        const auto end = text.find('\n');
        if (end == std::string_view::npos) {
            recorder.on_end(sandbox::QueryEnd::closed, {});
            break;
        }
        const auto event = bridge::parse_event_line(text.substr(0, end));
        text.remove_prefix(end + 1);
        if (!event) {
            recorder.on_bad_line(event.error().detail());
            continue;
        }
        recorder.on_event(*event);
        if (event->name == "done")
            recorder.on_end(sandbox::QueryEnd::done, {});
    }
    return recorder.calls;
}

std::unique_ptr<QueryStream> query(fuzz::BridgePeer& peer, const std::shared_ptr<bridge::IdleStream>& idle,
                                   const std::string& command, Recorder& recorder) {
    auto made = std::make_unique<QueryStream>(peer.context(), peer.path(), command, idle, recorder);
    peer.settle();
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::BridgePeer peer;
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto idle = std::make_shared<bridge::IdleStream>();
    Recorder first;
    first.slow = input.byte() % 2U == 1;
    const auto one = query(peer, idle, "one\n", first);
    auto connection = peer.accept();
    require(peer.received(connection) == "one\n", "the first command arrives");
    for (const auto piece : fuzz::cut(input.rest(), seed))
        if (!peer.send(connection, piece))
            break;
    auto beyond = input.rest();
    const auto expected = expected_calls(beyond);
    const bool kept = first.ended && expected.back() == "end 0" && beyond.empty();
    if (!first.ended) {
        connection.reset();
        peer.settle();
    }
    require(first.calls == expected, "a turn is the same however its bytes come");

    Recorder second;
    const auto two = query(peer, idle, "two\n", second);
    auto fresh = peer.accept();
    require(static_cast<bool>(fresh) != kept, "a connection serves again exactly if its guest kept silent");
    if (fresh)
        connection = std::move(fresh);
    require(peer.received(connection) == "two\n", "the second command arrives, alone");
    require(second.calls.empty(), "nothing reaches a turn before its agent speaks");
    peer.send(connection, "{\"ev\":\"message\",\"data\":{\"n\":2}}\n{\"ev\":\"done\"}\n");
    require(second.calls == Calls{"message {\"n\":2}", "done {}", "end 0"}, "a turn has its own events only");
    idle->drop();
    peer.settle();
    return 0;
}
