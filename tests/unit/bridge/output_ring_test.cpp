// The last of a process's output.
#include "bridge/guest/output_ring.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>
#include <string>

namespace atl::test::output_ring_test {
namespace {

using bridge::FrameType;
using guest::OutputRing;

/// All that is kept from `offset` on: each byte behind the letter of its stream.
std::string read(const OutputRing& ring, std::uint64_t offset) {
    std::string text;
    while (offset < ring.end()) {
        const OutputRing::Piece piece = ring.at(offset);
        REQUIRE_FALSE(piece.bytes.empty());
        for (const char byte : piece.bytes)
            text.append(piece.stream == FrameType::output ? "o" : "e") += byte;
        offset += piece.bytes.size();
    }
    return text;
}

}  // namespace

TEST_CASE("a ring keeps both streams in their order, and the last bytes only") {
    OutputRing ring(8);
    CHECK(ring.at(0).bytes.empty());
    ring.append(FrameType::output, "abc");
    ring.append(FrameType::error, "d");
    ring.append(FrameType::output, "ef");
    CHECK(read(ring, 0) == "oaobocedoeof");
    CHECK(read(ring, 3) == "edoeof");
    CHECK(read(ring, 6).empty());
    ring.append(FrameType::output, "ghij");
    CHECK(ring.first() == 2);
    CHECK(ring.end() == 10);
    CHECK(read(ring, 2) == "ocedoeofogohoioj");
    ring.append(FrameType::error, std::string(100, 'x') + "y");
    CHECK(ring.first() == 103);
    CHECK(read(ring, 110) == "ey");
}

TEST_CASE("a ring finds every offset of random output") {
    const unsigned seed = GENERATE(1U, 2U, 3U);
    std::mt19937 random(seed);
    OutputRing ring(200'000);
    std::string all;
    for (int i = 0; i < 300; ++i) {
        const std::string bytes(random() % 9000, static_cast<char>('a' + random() % 26));
        const FrameType stream = random() % 2 == 0 ? FrameType::output : FrameType::error;
        ring.append(stream, bytes);
        for (const char byte : bytes)
            all.append(stream == FrameType::output ? "o" : "e") += byte;
        REQUIRE(ring.end() == all.size() / 2);
        REQUIRE(ring.end() - ring.first() <= 200'000);
        const std::uint64_t kept = ring.end() - ring.first();
        const std::uint64_t offset = ring.first() + (kept == 0 ? 0 : random() % kept);
        REQUIRE(read(ring, offset) == all.substr(2 * offset));
    }
}

TEST_CASE("a ring whose streams change with each byte keeps a bounded number of pieces") {
    OutputRing ring(1 << 20);
    for (std::size_t i = 0; i < 3 * guest::k_max_ring_pieces; ++i)
        ring.append(i % 2 == 0 ? FrameType::output : FrameType::error, "x");
    CHECK(ring.end() - ring.first() == guest::k_max_ring_pieces);
    CHECK(read(ring, ring.end() - 2) == "oxex");
}

}  // namespace atl::test::output_ring_test
