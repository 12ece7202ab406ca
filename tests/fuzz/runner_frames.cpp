// Frames of a runner of code mode: the same frames in any pieces, and nothing is taken after a violation or
// the result. An answer is only written for an open call.
#include "bridge/runner/frames.hpp"

#include "tests/fuzz/support.hpp"

using namespace atl;
using namespace bridge::runner;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::string text(input.rest());
    const auto seed = static_cast<std::uint8_t>(size);
    FrameReader whole;
    whole.push(text);
    std::vector<std::string> expected;
    while (auto frame = whole.next())
        expected.push_back(std::move(*frame));
    FrameReader reader;
    std::vector<std::string> found;
    for (const std::string_view piece : fuzz::cut(text, seed)) {
        reader.push(piece);
        while (auto frame = reader.next())
            found.push_back(std::move(*frame));
    }
    require(found == expected && reader.refused() == whole.refused(), "pieces change nothing");

    HostMachine machine;
    bool over = false;
    std::string out;
    for (const std::string& frame : found) {
        const Received what = machine.receive(frame);
        const bool broken = std::holds_alternative<Violation>(what);
        require(!over || broken, "nothing is taken behind the end");
        over = over || broken || std::holds_alternative<Ended>(what);
        require(machine.open_calls() <= k_open_calls, "calls are bounded");
        if (std::holds_alternative<Ready>(what))
            require(machine.start(out, {"r", "n", "javascript", "", {"t"}, {}}), "start follows ready");
        if (const auto* call = std::get_if<Call>(&what); call != nullptr && call->id % 2 == 0) {
            require(machine.answer(out, call->id, "1"), "an open call is answered");
            require(!machine.answer(out, call->id, "1"), "and only once");
        }
    }
    return 0;
}
