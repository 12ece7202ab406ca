#include "bridge/agents/delta_gather.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

namespace atl::guest::delta_gather_test {
namespace {

/// "o:text e:text": the deltas of both streams.
std::string told(const std::string& lines) {
    std::istringstream in(lines);
    std::string out;
    for (std::string line; std::getline(in, line);) {
        const auto data = nlohmann::json::parse(line).at("data");
        out += (out.empty() ? "" : " ") + data.at("stream").get<std::string>().substr(3, 1) + ':' +
               data.at("delta").get<std::string>();
    }
    return out;
}

}  // namespace

TEST_CASE("the first text goes out at once, what follows soon is gathered") {
    DeltaGather gather;
    std::string lines;
    CHECK(gather.feed("stdout", "a", lines));
    CHECK(told(lines) == "o:a");
    lines.clear();
    CHECK_FALSE(gather.feed("stdout", "b", lines));
    CHECK_FALSE(gather.feed("stdout", "c", lines));
    CHECK(lines.empty());
    // It goes on as long as there is something to gather.
    CHECK(gather.expire(lines));
    CHECK(told(lines) == "o:bc");
    lines.clear();
    CHECK_FALSE(gather.feed("stdout", "d", lines));
    CHECK(gather.expire(lines));
    lines.clear();
    CHECK_FALSE(gather.expire(lines));
    CHECK(lines.empty());
    CHECK(gather.feed("stdout", "e", lines));
    CHECK(told(lines) == "o:e");
}

TEST_CASE("gathered text keeps the order of the streams, and is not kept back at the end") {
    DeltaGather gather;
    std::string lines;
    gather.feed("stdout", "1", lines);
    gather.feed("stderr", "2", lines);
    gather.feed("stderr", "3", lines);
    gather.feed("stdout", "4", lines);
    CHECK(told(lines) == "o:1 e:23");
    gather.flush(lines);
    CHECK(told(lines) == "o:1 e:23 o:4");
}

TEST_CASE("gathered text is bounded") {
    DeltaGather gather;
    std::string lines;
    gather.feed("stdout", "x", lines);
    lines.clear();
    const std::string half(bridge::k_max_delta_bytes / 2, 'y');
    gather.feed("stdout", half, lines);
    CHECK(lines.empty());
    gather.feed("stdout", half, lines);
    CHECK(told(lines) == "o:" + half + half);
}

}  // namespace atl::guest::delta_gather_test
