// Frames of exec, in both directions: a plain reader that has all bytes at once finds the same, in any
// pieces; nothing is refused that it takes, and nothing taken that it refuses.
#include "bridge/frame.hpp"

#include "tests/fuzz/support.hpp"

using namespace atl;
using bridge::FrameDecoder;
using bridge::FrameType;
using fuzz::require;

namespace {

struct Found {
    std::string data[3];              // by type
    std::vector<std::string> others;  // in their order
    bool refused = false;
    bool whole = true;  // nothing is left of a frame

    bool operator==(const Found&) const = default;
};

Found decode(FrameDecoder::Sender sender, std::string_view text, std::uint8_t seed) {
    Found found;
    FrameDecoder decoder(sender);
    for (std::string_view piece : fuzz::cut(text, seed)) {
        bridge::Frame frame;
        FrameDecoder::Found what{};
        while ((what = decoder.next(piece, frame)) == FrameDecoder::Found::frame) {
            const auto type = static_cast<std::size_t>(frame.type);
            if (type < 3)
                found.data[type] += frame.bytes;
            else if (frame.type == FrameType::exit)
                found.others.push_back("exit " + std::to_string(frame.exit.code) + ' ' +
                                       std::to_string(frame.exit.signal) +
                                       (frame.exit.timed_out ? " late" : ""));
            else
                found.others.push_back(std::to_string(type) + ' ' + std::to_string(frame.number));
        }
        if (what == FrameDecoder::Found::refused) {
            require(decoder.refusal() != nullptr, "a refusal has a reason");
            found.refused = true;
            return found;
        }
        require(piece.empty(), "what needs more has taken all");
    }
    found.whole = decoder.is_between_frames();
    return found;
}

std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        value = value << 8U | static_cast<unsigned char>(bytes[i]);
    return value;
}

/// The rules of frame.hpp once more, without state between bytes.
Found read(FrameDecoder::Sender sender, std::string_view text) {
    Found found;
    const bool host = sender == FrameDecoder::Sender::host;
    bool exited = false;
    bool input_ended = false;
    while (!text.empty()) {
        if (exited)
            return found.refused = true, found;
        if (text.size() < bridge::k_frame_header_bytes)
            return found.whole = false, found;
        const std::size_t size = number(text.substr(0, 4));
        const auto type = static_cast<unsigned char>(text[4]);
        const bool data = host ? type == 0 : type == 1 || type == 2;
        const bool other = host ? type == 3 || type == 4 || type == 7 : type == 5 || type == 6 || type == 8;
        const std::size_t expected = type == 4                ? 1
                                     : type == 5 || type == 7 ? 4
                                     : type == 6              ? 3
                                     : type == 8              ? 8
                                                              : 0;
        if ((!data && !other) || (data && (size > base::k_max_frame_bytes || (size == 0 && !host))) ||
            (other && size != expected) || (input_ended && (type == 0 || type == 3)))
            return found.refused = true, found;
        text.remove_prefix(bridge::k_frame_header_bytes);
        const auto payload = text.substr(0, size);
        text.remove_prefix(payload.size());
        if (data)
            found.data[type] += payload;
        if (payload.size() < size)
            return found.whole = false, found;
        if (type == 6)
            found.others.push_back("exit " + std::to_string(number(payload.substr(0, 1))) + ' ' +
                                   std::to_string(number(payload.substr(1, 1))) +
                                   (payload[2] != 0 ? " late" : ""));
        else if (other)
            found.others.push_back(std::to_string(type) + ' ' + std::to_string(number(payload)));
        exited = type == 6;
        input_ended = input_ended || type == 3;
    }
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto sender = input.byte() % 2U == 0 ? FrameDecoder::Sender::host : FrameDecoder::Sender::guest;
    require(decode(sender, input.rest(), seed) == read(sender, input.rest()),
            "frames are the same however they come");
    // Frames that are written are read back.
    std::string text;
    const auto payload = input.rest().substr(0, base::k_max_frame_bytes);
    if (!payload.empty())
        bridge::append_frame(text, FrameType::error, payload);
    text += bridge::encode_grant(static_cast<std::uint32_t>(size));
    text += bridge::encode_exit({seed, static_cast<std::uint8_t>(seed / 2U), seed % 2U == 1});
    const Found found = decode(FrameDecoder::Sender::guest, text, seed);
    require(!found.refused && found.whole && found.others.size() == 2 && found.data[2] == payload,
            "what one end writes the other reads");
    return 0;
}
