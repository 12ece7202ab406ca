// Last-Event-ID and the frames that it refers to: an id is a decimal number, of a log with an epoch behind
// it, or refused, and every frame that is written gives a client its id, type and data back.
#include <algorithm>

#include "http/api/event_stream.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

constexpr std::uint64_t k_after = 7;
constexpr std::string_view k_epoch = "e1";

// Digits, one by one, without the help of a library.
std::optional<std::uint64_t> reference(std::string_view text) {
    std::uint64_t value = 0;
    for (const char c : text) {
        const auto digit = static_cast<unsigned>(c - '0');
        if (c < '0' || c > '9' || value > (INT64_MAX - digit) / 10)
            return std::nullopt;
        value = value * 10 + digit;
    }
    return value;
}

void check_id(std::string_view text) {
    http::Request request;
    request.fields = {{"Accept", "text/event-stream"}, {"last-event-id", text}, {"Last-Event-ID", "3"}};
    const auto point = http::resume_point(request, k_after);
    const auto expected = text.empty() ? std::optional(k_after) : reference(text);
    require(point.has_value() == expected.has_value(), "an id is a decimal number within its range");
    if (!point) {
        require(point.error().code() == base::Errc::invalid_request, "another id is an invalid request");
        return;
    }
    require(*point == *expected, "an id is what its digits say");
    if (!text.empty())
        require(http::resume_point(request, k_after + 1).value() == *point, "an id wins over `after`");
}

void check_cursor(std::string_view text) {
    const auto cursor = http::parse_log_cursor(text);
    const auto dash = text.find('-');
    const auto epoch = dash == std::string_view::npos ? std::string_view() : text.substr(dash + 1);
    const bool is_word = std::all_of(epoch.begin(), epoch.end(), [](char c) {
        return std::string_view("abcdefghijklmnopqrstuvwxyz0123456789").find(c) != std::string_view::npos;
    });
    const bool is_epoch = dash == std::string_view::npos ||
                          (is_word && !epoch.empty() && epoch.size() <= base::k_max_cursor_epoch_bytes);
    const auto seq = dash == 0 || text.empty() ? std::nullopt : reference(text.substr(0, dash));
    require(cursor.has_value() == (seq && is_epoch), "a cursor is SEQ or SEQ-EPOCH");
    if (cursor)
        require(cursor->seq == *seq && cursor->epoch == epoch, "a cursor is what its text says");
}

// A reader of event streams by WHATWG HTML, section 9.2.6, for one frame.
void check_frame(std::string_view text, std::uint64_t seq, conversation::EventType type,
                 http::EventNames names) {
    conversation::Event event;
    event.seq = seq;
    event.type = type;
    // An event's JSON is one line: event_line.hpp lets no control character through.
    for (const char c : text)
        if (static_cast<unsigned char>(c) >= 0x20)
            event.json.push_back(c);
    std::string frame;
    http::write_sse_event(frame, event, k_epoch, names);
    std::string id, name, data;
    std::size_t blank_lines = 0;
    for (std::string_view left = frame; !left.empty();) {
        const auto end = left.find('\n');
        require(end != std::string_view::npos, "each line is ended");
        const auto line = left.substr(0, end);
        left.remove_prefix(end + 1);
        const auto colon = line.find(": ");
        const auto field = line.substr(0, colon);
        blank_lines += line.empty() ? 1 : 0;
        if (!line.empty())
            (field == "id" ? id : field == "event" ? name : data) = line.substr(colon + 2);
    }
    require(blank_lines == 1, "a frame is one frame");
    const auto cursor = http::parse_log_cursor(id);
    require(cursor && cursor->seq == seq && cursor->epoch == k_epoch && data == event.json,
            "a frame is its event");
    const auto expected = names == http::EventNames::types ? to_string(type) : std::string_view();
    require(name == expected, "a frame has its type where that is asked for, and nowhere else");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    check_id(input.rest());
    check_cursor(input.rest());
    const auto type = static_cast<conversation::EventType>(1 + input.byte() % 17U);
    const std::uint64_t seq = (std::uint64_t{input.byte()} << 55U) + input.byte();
    check_frame(input.rest(), seq, type, http::EventNames::none);
    check_frame(input.rest(), seq, type, http::EventNames::types);
    return 0;
}
