#include "http/websocket/close_frame_finder.hpp"

#include <catch2/catch_test_macros.hpp>

#include "http/websocket/codec.hpp"
#include "tests/support/websocket_client.hpp"

namespace close_frame_finder_test {

using namespace atl::http;
using atl::test::close_frame_bytes;
using atl::test::frame_bytes;

namespace {

/// How many bytes were fed, one at a time, when the close frame was found; 0: never.
std::size_t found_after(CloseFrameFinder finder, const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (finder.feed(std::string_view(bytes).substr(i, 1)))
            return i + 1;
    }
    return 0;
}

}  // namespace

TEST_CASE("A close frame is found behind frames of every length and kind") {
    for (const std::size_t size : {0U, 1U, 125U, 126U, 65'535U, 65'536U, 200'000U}) {
        for (const bool masked : {true, false}) {
            for (const unsigned char first : {0x81, 0x01, 0x80, 0x89, 0x8a, 0xff}) {
                // A payload that would look like close frames, if it were read as frames.
                const std::string frame = frame_bytes({first, std::string(size, '\x88'), masked});
                for (const std::string& close : {close_frame_bytes(1000, "bye"), frame_bytes({0x88, ""})}) {
                    INFO(size << ' ' << masked << ' ' << int{first});
                    const std::string bytes = frame + close;
                    CHECK(found_after(CloseFrameFinder({}), bytes + "rest") == bytes.size());
                    CHECK(CloseFrameFinder({}).feed(bytes));
                    CHECK_FALSE(CloseFrameFinder({}).feed(bytes.substr(0, bytes.size() - 1)));
                }
            }
        }
    }
}

TEST_CASE("The search for a close frame goes on wherever the parser stopped") {
    const std::string message = frame_bytes({0x81, std::string(300, 'x')});
    const std::string close = close_frame_bytes(1000, "bye");
    const std::string bytes = message + close;
    for (std::size_t stop = 0; stop < bytes.size(); ++stop) {
        INFO(stop);
        // The second one fails at the head of the message and keeps to it.
        for (const std::size_t limit : {1000U, 100U}) {
            WebSocketParser parser({limit});
            std::size_t used = 0;
            auto outcome = WebSocketParser::Outcome::incomplete;
            while (used < stop && outcome != WebSocketParser::Outcome::failed) {
                const auto step = parser.feed(std::string_view(bytes).substr(used, stop - used));
                used += step.used;
                outcome = step.outcome;
            }
            CHECK(CloseFrameFinder(parser.position()).feed(std::string_view(bytes).substr(used)));
        }
    }
}

}  // namespace close_frame_finder_test
