#include "bridge/frame.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace atl::test::frame_test {
namespace {

using bridge::append_frame;
using bridge::ExitStatus;
using bridge::Frame;
using bridge::FrameDecoder;
using bridge::FrameType;
using Sender = FrameDecoder::Sender;

std::string frame(FrameType type, std::string_view payload = {}) {
    std::string out;
    append_frame(out, type, payload);
    return out;
}

/// All that a decoder finds: data joined by type, "refused WHY" last.
struct Decoded {
    std::string input, output, error;
    std::vector<std::string> others;
    std::string refusal;
    bool is_whole = true;
};

Decoded decode(Sender sender, std::string_view bytes, std::size_t piece) {
    Decoded result;
    FrameDecoder decoder(sender);
    for (std::size_t at = 0; at < bytes.size() && result.refusal.empty(); at += piece) {
        std::string_view rest = bytes.substr(at, piece);
        Frame found;
        FrameDecoder::Found what{};
        while ((what = decoder.next(rest, found)) == FrameDecoder::Found::frame) {
            if (found.type == FrameType::input)
                result.input += found.bytes;
            else if (found.type == FrameType::output)
                result.output += found.bytes;
            else if (found.type == FrameType::error)
                result.error += found.bytes;
            else if (found.type == FrameType::exit)
                result.others.push_back("exit " + std::to_string(found.exit.code) + " " +
                                        std::to_string(found.exit.signal) +
                                        (found.exit.timed_out ? " timed out" : ""));
            else
                result.others.push_back(std::to_string(static_cast<int>(found.type)) + " " +
                                        std::to_string(found.number));
        }
        if (what == FrameDecoder::Found::refused)
            result.refusal = decoder.refusal();
        else
            CHECK(rest.empty());
    }
    result.is_whole = decoder.is_between_frames();
    return result;
}

std::string refusal(Sender sender, const std::string& bytes) {
    const std::string whole = decode(sender, bytes, bytes.size()).refusal;
    CHECK(decode(sender, bytes, 1).refusal == whole);
    return whole;
}

}  // namespace

TEST_CASE("a frame is a length in four bytes, the lowest first, a type and the payload") {
    CHECK(frame(FrameType::output, "abc") == std::string("\x03\0\0\0\x01"
                                                         "abc",
                                                         8));
    CHECK(bridge::encode_signal(15) == std::string("\x01\0\0\0\x04\x0f", 6));
    CHECK(bridge::encode_grant(0x01020304) == std::string("\x04\0\0\0\x05\x04\x03\x02\x01", 9));
    CHECK(bridge::encode_resize(0x0102, 0x0304) == std::string("\x04\0\0\0\x07\x02\x01\x04\x03", 9));
    CHECK(bridge::encode_dropped(0x0102030405060708) ==
          std::string("\x08\0\0\0\x08\x08\x07\x06\x05\x04\x03\x02\x01", 13));
    CHECK(bridge::encode_exit({3, 9, true}) == std::string("\x03\0\0\0\x06\x03\x09\x01", 8));
    CHECK(frame(FrameType::input_end) == std::string("\0\0\0\0\x03", 5));
}

TEST_CASE("frames are the same in any pieces") {
    const std::string big(base::k_max_frame_bytes, 'x');
    const std::string from_guest = frame(FrameType::output, "out") + frame(FrameType::error, "err") +
                                   bridge::encode_grant(70'000) +
                                   bridge::encode_dropped(std::uint64_t{1} << 40U) +
                                   frame(FrameType::output, big) + bridge::encode_exit({255, 64, false});
    const std::string from_host = frame(FrameType::input, "in") + bridge::encode_signal(2) +
                                  frame(FrameType::input, std::string("\0\xff", 2)) +
                                  frame(FrameType::input_end) + bridge::encode_signal(64) +
                                  bridge::encode_resize(80, 24);
    for (const std::size_t piece : {1UL, 2UL, 3UL, 4UL, 5UL, 6UL, 7UL, 9UL, 64UL, 100'000UL}) {
        const Decoded guest = decode(Sender::guest, from_guest, piece);
        CHECK(guest.refusal.empty());
        CHECK((guest.output == "out" + big));
        CHECK(guest.error == "err");
        CHECK(guest.others == std::vector<std::string>{"5 70000", "8 1099511627776", "exit 255 64"});
        CHECK(guest.is_whole);
        const Decoded host = decode(Sender::host, from_host, piece);
        CHECK(host.refusal.empty());
        CHECK(host.input == std::string("in\0\xff", 4));
        CHECK(host.others == std::vector<std::string>{"4 2", "3 0", "4 64", "7 1572944"});
    }
}

TEST_CASE("data is handed out before its frame is complete, and an end inside a frame shows") {
    const std::string bytes = frame(FrameType::output, "12345678");
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
        const Decoded decoded = decode(Sender::guest, bytes.substr(0, cut), cut);
        CHECK(decoded.output == std::string_view("12345678").substr(0, cut < 5 ? 0 : cut - 5));
        CHECK_FALSE(decoded.is_whole);
    }
    CHECK_FALSE(decode(Sender::guest, bridge::encode_exit({}).substr(0, 7), 1).is_whole);
}

TEST_CASE("what a side may not send is refused with the header") {
    for (int type = 0; type < 256; ++type) {
        const std::string header = frame(static_cast<FrameType>(type)).substr(0, 5);
        const bool is_data = type == 0 || type == 1 || type == 2;
        const bool host_may = type == 0 || type == 3 || type == 4 || type == 7;
        const bool guest_may = type == 1 || type == 2 || type == 5 || type == 6 || type == 8;
        const std::string empty = type == 0 ? "" : "an empty frame of output";
        const std::string wrong_size = is_data ? empty : type == 3 ? "" : "a frame of the wrong size";
        CHECK(refusal(Sender::host, header) ==
              (host_may ? wrong_size : "a frame of a type that may not come"));
        CHECK(refusal(Sender::guest, header) ==
              (guest_may ? wrong_size : "a frame of a type that may not come"));
    }
}

TEST_CASE("lengths and order are checked") {
    const auto header = [](FrameType type, std::size_t size) {
        const auto bytes = bridge::frame_header(type, size);
        return std::string(bytes.data(), bytes.size());
    };
    CHECK(refusal(Sender::guest, header(FrameType::output, base::k_max_frame_bytes)).empty());
    CHECK(refusal(Sender::guest, header(FrameType::output, base::k_max_frame_bytes + 1)) ==
          "a frame beyond its bound");
    CHECK(refusal(Sender::guest, header(FrameType::output, 0xffffffff)) == "a frame beyond its bound");
    CHECK(refusal(Sender::guest, header(FrameType::exit, 4)) == "a frame of the wrong size");
    CHECK(refusal(Sender::host, header(FrameType::signal, 2)) == "a frame of the wrong size");
    CHECK(refusal(Sender::host, header(FrameType::input_end, 1)) == "a frame of the wrong size");
    CHECK(refusal(Sender::guest, bridge::encode_exit({}) + "x") == "bytes behind the exit");
    const std::string end = frame(FrameType::input_end);
    CHECK(refusal(Sender::host, end + end) == "input behind its end");
    CHECK(refusal(Sender::host, end + frame(FrameType::input, "x")) == "input behind its end");
    CHECK(refusal(Sender::host, end + bridge::encode_signal(9)).empty());
    CHECK(refusal(Sender::host, end + bridge::encode_resize(1, 1)).empty());
}

}  // namespace atl::test::frame_test
