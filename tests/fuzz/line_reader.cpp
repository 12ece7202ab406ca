// The host's reader of lines, over a real socket: the same lines and the same end however the bytes come,
// however often it has to rest, and nothing after the reader has closed it.
#include "bridge/line_reader.hpp"

#include "tests/fuzz/bridge_peer.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using bridge::Stream;
using fuzz::require;

namespace {

struct Plan {
    std::size_t limit_bytes;
    std::size_t close_at;  // the number of the line at which the sink closes; 0: never
    Stream::Pace pace;
};

std::string end_call(Stream::End end) {
    return "\nend " + std::to_string(static_cast<int>(end));
}

std::vector<std::string> expected_calls(std::string_view text, const Plan& plan) {
    std::vector<std::string> calls;
    for (;;) {
        const auto end = text.find('\n');
        const auto line = text.substr(0, end);
        if (line.size() > plan.limit_bytes)
            return calls.push_back(end_call(Stream::End::refused)), calls;
        if (end == std::string_view::npos)
            return calls.push_back(end_call(Stream::End::closed)), calls;
        calls.emplace_back(line);
        if (calls.size() == plan.close_at)
            return calls;
        text.remove_prefix(end + 1);
    }
}

struct Recorder final : bridge::LineReader {
    explicit Recorder(const Plan& of) : LineReader(of.limit_bytes), plan(of) {}
    void on_line(std::string_view line) override {
        require(!ended, "no line after the end");
        calls.emplace_back(line);
        if (calls.size() == plan.close_at)
            stream->close();
    }
    void on_end(Stream::End end, std::string_view) override {
        require(!ended, "one end");
        ended = true;
        calls.push_back(end_call(end));
    }
    Stream::Pace pace() const override { return plan.pace; }

    const Plan& plan;
    bool ended = false;
    std::vector<std::string> calls;
    std::shared_ptr<Stream> stream;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::BridgePeer peer;
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto choices = input.byte();
    const Plan plan{1U + choices % 32U, (choices >> 5U) % 4U * 3U,
                    choices >= 128 ? Stream::Pace::slow : Stream::Pace::full};
    Recorder recorder(plan);
    recorder.stream = Stream::open(peer.context(), peer.path(), "command\n", recorder);
    peer.settle();
    auto connection = peer.accept();
    require(static_cast<bool>(connection), "the stream connects");
    require(peer.received(connection) == "command\n", "the command arrives");
    for (const auto piece : fuzz::cut(input.rest(), seed))
        if (!peer.send(connection, piece))
            break;
    connection.reset();
    peer.settle();
    require(recorder.calls == expected_calls(input.rest(), plan), "lines are the same however they come");
    require(!recorder.stream->has_reader() && peer.timers().armed() == 0, "nothing is left to do");
    return 0;
}
