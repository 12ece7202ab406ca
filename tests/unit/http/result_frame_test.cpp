// The frame of a tool's result: whole, or not at all.
#include "http/api/result_frame.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/plain/operation_limits.hpp"

namespace result_frame_test {

using atl::http::ResultFrame;

namespace {

std::string taken(ResultFrame& frame) {
    std::string out;
    frame.take(out);
    return out;
}

}  // namespace

TEST_CASE("nothing of a result is sent before it is whole") {
    ResultFrame frame("data: {\"result\":");
    CHECK(taken(frame).empty());
    frame.add("{\"a\":");
    CHECK(taken(frame).empty());
    CHECK_FALSE(frame.is_begun());
    frame.add("1}");
    frame.end();
    CHECK(taken(frame) == "data: {\"result\":{\"a\":1}}\n\n");
    CHECK(frame.is_begun());
    CHECK(taken(frame).empty());
}

TEST_CASE("line breaks of a guest do not end a frame") {
    ResultFrame frame("data: {\"result\":");
    frame.add("{\n\"a\"\r\n\n:1}");
    frame.end();
    CHECK(taken(frame) == "data: {\"result\":{ \"a\"   :1}}\n\n");
}

TEST_CASE("a result beyond the bound is sent as it comes, in a frame that only its end ends") {
    ResultFrame frame("data: {\"result\":");
    const std::string piece(atl::base::k_tool_held_result_bytes / 4, 'x');
    std::string all;
    for (int i = 0; i < 8; ++i) {
        frame.add(piece);
        all += taken(frame);
        CHECK(frame.is_begun() == (i >= 3));
    }
    CHECK(all.size() == 8 * piece.size() + std::string("data: {\"result\":").size());
    CHECK(all.find('\n') == std::string::npos);
    frame.end();
    CHECK(taken(frame) == "}\n\n");
}

}  // namespace result_frame_test
