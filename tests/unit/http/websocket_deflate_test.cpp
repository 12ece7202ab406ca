#include "http/websocket/deflate.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/raw_deflate.hpp"

namespace websocket_deflate_test {

using namespace atl::http;
using atl::test::raw_deflate;
using atl::test::raw_inflate;

namespace {

constexpr std::size_t k_limit = 1024 * 1024;

/// The inflated `payload`, or the reason why it cannot be inflated.
std::string inflated(std::string_view payload, std::size_t limit_bytes = k_limit) {
    Inflater inflater;
    std::string out = "what was there before";
    switch (inflater.inflate(payload, limit_bytes, out)) {
        case Inflater::Outcome::done:
            return out;
        case Inflater::Outcome::too_long:
            CHECK(out.size() <= limit_bytes);
            return "too long";
        case Inflater::Outcome::invalid:
            return "invalid";
    }
    return "";
}

/// Bytes that do not repeat.
std::string noise(std::size_t size) {
    std::string out;
    std::uint32_t state = 1;
    while (out.size() < size) {
        state = state * 1'664'525 + 1'013'904'223;
        out += static_cast<char>(state >> 24);
    }
    return out;
}

std::string listing(std::size_t lines) {
    std::string out;
    for (std::size_t i = 0; i < lines; ++i)
        out += "-rw-r--r-- 1 user user " + std::to_string(i * 7919 % 100'000) + " file_" + std::to_string(i) +
               "\\n";
    return out;
}

}  // namespace

TEST_CASE("The examples of RFC 7692 section 7.2.3 are read") {
    CHECK(inflated(std::string("\xf2\x48\xcd\xc9\xc9\x07\x00", 7)) == "Hello");
    CHECK(inflated(std::string("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11)) == "Hello");
    CHECK(inflated(std::string("\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8)) == "Hello");
    CHECK(inflated(std::string("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13)) == "Hello");
    CHECK(inflated(std::string("\x00", 1)).empty());
    // It refers to an earlier message, which is not kept.
    CHECK(inflated(std::string("\xf2\x00\x11\x00\x00", 5)) == "invalid");
}

TEST_CASE("What a compressor makes is read, whatever its settings and the message") {
    Inflater inflater;
    for (const auto& text : {std::string(), std::string("x"), listing(3), listing(5000), noise(100'000),
                             std::string(900'000, 'z')}) {
        for (const int level : {0, 1, 6, 9}) {
            for (const int memory_level : {1, 8, 9}) {
                std::string out;
                const auto payload = raw_deflate(text, {level, level == 9 ? 9 : 15, memory_level});
                CHECK(inflater.inflate(payload, k_limit, out) == Inflater::Outcome::done);
                CHECK(out == text);
            }
        }
    }
}

TEST_CASE("A message is inflated up to its bound and no further") {
    const std::string bomb = raw_deflate(std::string(64 * k_limit, 'x'));
    REQUIRE(bomb.size() < k_limit / 10);
    CHECK(inflated(bomb) == "too long");
    CHECK(inflated(bomb, 0) == "too long");
    for (const std::size_t size : {0U, 1U, 1000U, 16'384U, 65'536U, 100'000U}) {
        const std::string text(size, 'x');
        CHECK(inflated(raw_deflate(text), size) == text);
        if (size > 0)
            CHECK(inflated(raw_deflate(text), size - 1) == "too long");
    }
}

TEST_CASE("Data that is no DEFLATE, or that is cut short, is refused and the next message is read") {
    Inflater inflater;
    std::string out;
    const std::string text = listing(100);
    const std::string payload = raw_deflate(text);
    for (std::size_t size = 0; size < payload.size(); ++size)
        REQUIRE(inflater.inflate(std::string_view(payload).substr(0, size), k_limit, out) ==
                Inflater::Outcome::invalid);
    for (const std::string& bad :
         {std::string(), std::string("\x07"), std::string("\xff\xff\xff\xff"),
          std::string("\x00\x05\x00\xfa\xfe\x48", 6), "{\"type\":\"interrupt\"}" + text, payload + "x"})
        CHECK(inflater.inflate(bad, k_limit, out) == Inflater::Outcome::invalid);
    // A last block, and nothing behind it (section 7.2.3.4 wants an empty one).
    CHECK(inflated("\xf3\x48\xcd\xc9\xc9\x07") == "invalid");
    CHECK(inflater.inflate(payload, k_limit, out) == Inflater::Outcome::done);
    CHECK(out == text);
}

TEST_CASE("More blocks than any compressor makes are refused, since each costs time") {
    const auto blocks = [](std::string_view block, std::size_t count) {
        std::string payload;
        for (std::size_t i = 0; i < count; ++i)
            payload += block;
        return payload + '\0';
    };
    const std::string_view stored("\0\0\0\xff\xff", 5);
    const std::string_view last("\x03\0", 2);
    CHECK(inflated(blocks(stored, 900)).empty());
    CHECK(inflated(blocks(last, 400)).empty());
    CHECK(inflated(blocks(stored, 200'000)) == "invalid");
    CHECK(inflated(blocks(last, 500'000)) == "invalid");
}

TEST_CASE("What the server compresses is the RFC's, and any client can read it") {
    Deflater deflater;
    std::string payload;
    REQUIRE(deflater.deflate("Hello", 100, payload));
    CHECK(payload == std::string("\xf2\x48\xcd\xc9\xc9\x07\x00", 7));
    REQUIRE(deflater.deflate("", 100, payload));
    CHECK(payload == std::string("\0", 1));
    const std::string far = noise(10'000);
    for (const std::string& text : {listing(1000), far + far, listing(1)}) {
        REQUIRE(deflater.deflate(text, 2 * text.size() + 100, payload));
        CHECK(raw_inflate(payload, k_deflate_window_bits) == text);
    }
    // The positive control: a larger window than was agreed to shows.
    CHECK_THROWS(raw_inflate(raw_deflate(far + far), k_deflate_window_bits));
}

TEST_CASE("A payload that would be longer than wanted is not made") {
    Deflater deflater;
    std::string payload;
    const std::string text = listing(200);
    REQUIRE(deflater.deflate(text, text.size(), payload));
    const std::size_t size = payload.size();
    CHECK(size < text.size() / 2);
    CHECK(deflater.deflate(text, size, payload));
    CHECK(payload.size() == size);
    CHECK_FALSE(deflater.deflate(text, size - 1, payload));
    CHECK_FALSE(deflater.deflate(noise(5000), 4500, payload));
}

}  // namespace websocket_deflate_test
