#include "http/websocket/codec.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/support/websocket_client.hpp"

namespace websocket_codec_test {

using namespace atl::http;
using atl::test::close_frame_bytes;
using atl::test::frame_bytes;
using Outcome = WebSocketParser::Outcome;

namespace {

constexpr std::size_t k_limit = 1000;

/// The parser's results for `bytes`, fed `piece` bytes at a time: "text:…", "ping:…", "closed 1002 …", joined
/// by blanks.
std::string told(std::string_view bytes, std::size_t piece = SIZE_MAX) {
    WebSocketParser parser({k_limit});
    std::string out;
    while (!bytes.empty()) {
        auto part = bytes.substr(0, piece);
        bytes.remove_prefix(part.size());
        while (!part.empty()) {
            const auto step = parser.feed(part);
            part.remove_prefix(step.used);
            if (step.outcome == Outcome::incomplete) {
                REQUIRE(part.empty());
                break;
            }
            out += out.empty() ? "" : " ";
            if (step.outcome == Outcome::failed)
                return out + "failed " + std::to_string(static_cast<int>(parser.close_code()));
            const char* names[] = {"", "text:", "binary:", "", "", "", "", "", "close:", "ping:", "pong:"};
            out += names[static_cast<int>(parser.opcode())];
            out += parser.payload();
        }
    }
    return out;
}

std::string frame(unsigned char first, std::string payload) {
    return frame_bytes({.first = first, .payload = std::move(payload)});
}

}  // namespace

TEST_CASE("Frames come out whole however their bytes arrive") {
    const std::string medium(200, 'm');
    const std::string bytes = frame(0x81, "hello") + frame(0x82, std::string("\0\xff", 2)) +
                              frame(0x89, "p") + frame(0x81, "") + frame(0x8a, "") + frame(0x81, medium) +
                              close_frame_bytes(1000, "bye");
    const std::string expected = "text:hello binary:" + std::string("\0\xff", 2) +
                                 " ping:p text: pong: text:" + medium +
                                 " close:\x03\xe8"
                                 "bye";
    const std::size_t piece = GENERATE(1U, 2U, 3U, 5U, 7U, 64U, 4096U);
    CHECK(told(bytes, piece) == expected);
}

TEST_CASE("Fragments are joined, and control frames between them come at once") {
    const std::string bytes = frame(0x01, "a\xc3") + frame(0x89, "now") + frame(0x00, "\xa4") +
                              frame(0x00, "") + frame(0x80, "z") + frame(0x02, "x") + frame(0x80, "y");
    const std::size_t piece = GENERATE(1U, 4096U);
    CHECK(told(bytes, piece) == "ping:now text:a\xc3\xa4z binary:xy");
}

TEST_CASE("What RFC 6455 forbids ends the connection with its code") {
    const std::string piece_of_text = frame(0x01, "a");
    // Framing: reserved bits, opcodes, mask.
    for (const unsigned char reserved : {0x40, 0x20, 0x10}) {
        CHECK(told(frame(0x81 | reserved, "x")) == "failed 1002");
        CHECK(told(frame(0x82 | reserved, "x")) == "failed 1002");
        CHECK(told(frame(0x88 | reserved, "")) == "failed 1002");
        CHECK(told(frame(0x89 | reserved, "x")) == "failed 1002");
        CHECK(told(piece_of_text + frame(0x80 | reserved, "x")) == "failed 1002");
    }
    for (const unsigned char opcode : {0x83, 0x84, 0x85, 0x86, 0x87, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f})
        CHECK(told(frame(opcode, "")) == "failed 1002");
    CHECK(told(frame_bytes({.payload = "x", .masked = false})) == "failed 1002");
    // Fragments.
    CHECK(told(frame(0x80, "x")) == "failed 1002");
    CHECK(told(frame(0x00, "x")) == "failed 1002");
    CHECK(told(piece_of_text + frame(0x81, "x")) == "failed 1002");
    CHECK(told(piece_of_text + frame(0x02, "x")) == "failed 1002");
    // Control frames.
    CHECK(told(frame(0x09, "x")) == "failed 1002");
    CHECK(told(frame(0x08, "")) == "failed 1002");
    CHECK(told(frame(0x89, std::string(126, 'x'))) == "failed 1002");
    CHECK(told(frame(0x89, std::string(125, 'x'))) == "ping:" + std::string(125, 'x'));
    // Lengths: not the shortest form; the highest bit of 64.
    CHECK(told(std::string("\x81\xfe\x00\x7d\0\0\0\0", 8)) == "failed 1002");
    CHECK(told(std::string("\x81\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 14)) == "failed 1002");
    CHECK(told(std::string("\x81\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14)) == "failed 1002");
}

TEST_CASE("Text is UTF-8, and what cannot become it ends early") {
    CHECK(told(frame(0x81, "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5")) ==
          "text:\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5");
    CHECK(told(frame(0x81, "\xf4\x8f\xbf\xbf")) == "text:\xf4\x8f\xbf\xbf");
    for (const char* bad : {"\xff", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80",
                            "\xf8\x88\x80\x80\x80", "a\xc3", "\xe2\x82", "\xc3(", "12345678\xe2(\xa1"})
        CHECK(told(frame(0x81, bad)) == "failed 1007");
    // The message is not over yet, and more of the frame is still to come.
    std::string begun = frame(0x01, "\xce\xba\xed\xa0\x80 and much more");
    begun.resize(begun.size() - 5);
    CHECK(told(begun, 1) == "failed 1007");
    CHECK(told(frame(0x01, "\xce") + frame(0x80, "a")) == "failed 1007");
    CHECK(told(frame(0x01, "\xce") + frame(0x00, "")) == "");
    CHECK(told(frame(0x82, "\xff\xfe")) == "binary:\xff\xfe");
}

TEST_CASE("A message longer than allowed ends before it has arrived") {
    CHECK(told(frame(0x81, std::string(k_limit, 'x'))) == "text:" + std::string(k_limit, 'x'));
    CHECK(told(frame(0x81, std::string(k_limit + 1, 'x')).substr(0, 8)) == "failed 1009");
    CHECK(told(frame(0x01, std::string(600, 'x')) + frame(0x80, std::string(401, 'x')).substr(0, 8)) ==
          "failed 1009");
    CHECK(told(std::string("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14)) == "failed 1009");
}

TEST_CASE("A close frame has a code that may be sent, and a reason in UTF-8") {
    CHECK(told(frame(0x88, "")) == "close:");
    for (const std::uint16_t code : {1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999})
        CHECK(told(close_frame_bytes(code)).starts_with("close:"));
    for (const std::uint16_t code : {0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535})
        CHECK(told(close_frame_bytes(code)) == "failed 1002");
    CHECK(told(frame(0x88, "x")) == "failed 1002");
    CHECK(told(close_frame_bytes(1000, "\xc0")) == "failed 1007");
    CHECK(read_close_code("") == CloseCode::no_status);
    CHECK(read_close_code("\x03\xe9") == CloseCode::going_away);
}

TEST_CASE("The server's frames have the shortest length and no mask") {
    const auto head = [](std::size_t size) {
        std::string out;
        write_frame(out, Opcode::text, std::string(size, 'x'));
        CHECK(out.substr(out.size() - size) == std::string(size, 'x'));
        return out.substr(0, out.size() - size);
    };
    CHECK(head(0) == std::string("\x81\x00", 2));
    CHECK(head(125) == "\x81\x7d");
    CHECK(head(126) == std::string("\x81\x7e\x00\x7e", 4));
    CHECK(head(65'535) == "\x81\x7e\xff\xff");
    CHECK(head(65'536) == std::string("\x81\x7f\0\0\0\0\0\x01\0\0", 10));
}

TEST_CASE("The reason of a close frame is cut at a character") {
    std::string out;
    write_close_frame(out, CloseCode::going_away, "why");
    CHECK(out == "\x88\x05\x03\xe9why");
    out.clear();
    std::string reason = "x";
    for (int i = 0; i < 100; ++i)
        reason += "\xc3\xa4";
    write_close_frame(out, CloseCode::normal, reason);
    CHECK(out.size() == 2 + 2 + 123);
    CHECK(out.substr(4) == reason.substr(0, 123));
    out.clear();
    write_close_frame(out, CloseCode::normal, reason.substr(1));
    CHECK(out.substr(4) == reason.substr(1, 122));
}

}  // namespace websocket_codec_test
