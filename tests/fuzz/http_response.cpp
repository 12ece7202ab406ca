// Answers of a dev server: the same however their bytes come, within the limit of the head, and with a body
// whose end is where the head says.
#include <algorithm>

#include "http/wire/response_parser.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

constexpr std::size_t k_head_bytes = 512;

struct Seen {
    std::vector<std::string> answers;
    bool failed = false;
    bool operator==(const Seen&) const = default;
};

void check_body(const http::ResponseParser& parser, const std::string& body) {
    const auto length = parser.content_length();
    if (parser.body_end() == http::BodyEnd::length)
        require(length && body.size() == *length, "a body has the promised length");
    if (parser.body_end() == http::BodyEnd::none)
        require(body.empty(), "what has no body has none");
    for (const auto* const fields : {&parser.fields(), &parser.trailers()})
        for (const auto& [name, value] : *fields)
            require(!name.empty() && name.find_first_of(" \t:()\x7f") == std::string_view::npos &&
                        value.find_first_of("\r\n") == std::string_view::npos,
                    "a field that passes has a plain name and one line");
    for (const auto& [name, value] : parser.fields())
        require(!http::iequals(name, "Transfer-Encoding") || parser.body_end() == http::BodyEnd::chunked ||
                    parser.body_end() == http::BodyEnd::none,
                "a coding is chunked");
}

std::string text_of(const http::ResponseParser& parser, const std::string& body) {
    std::string text = std::to_string(parser.status()) + ' ' + std::string(parser.reason());
    for (const auto* const fields : {&parser.fields(), &parser.trailers()})
        for (const auto& [name, value] : *fields)
            text.append("\n").append(name).append(": ").append(value);
    return text + "\n\n" + body;
}

// Reads as the proxy does: one answer after the other, and at last the end of the input.
Seen read_all(const std::vector<std::string_view>& pieces, bool to_head, std::size_t most_bytes) {
    http::ResponseParser parser(k_head_bytes);
    parser.begin(to_head);
    Seen seen;
    std::string kept;
    std::string body;
    const auto finish = [&] {
        check_body(parser, body);
        seen.answers.push_back(text_of(parser, body));
        body.clear();
        parser.begin(to_head);
    };
    for (const auto piece : pieces) {
        kept += piece;
        for (bool again = true; again;) {
            const bool in_head = !parser.head_done();
            const std::size_t before = body.size();
            const auto used = in_head ? parser.feed_head(kept) : parser.feed_body(kept, body, most_bytes);
            seen.failed = used.has_error();
            if (seen.failed)
                return seen;
            require(*used <= kept.size() && body.size() - before <= most_bytes, "no more than is allowed");
            kept.erase(0, *used);
            again = *used > 0 && !kept.empty();
            if (parser.done())
                finish();
        }
    }
    if (parser.started() || !kept.empty()) {
        seen.failed = parser.end_input().has_error();
        if (!seen.failed && parser.done())
            finish();
    }
    return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint8_t seed = input.byte();
    const bool to_head = (seed & 1) != 0;
    const std::string text(input.rest());
    const Seen whole = read_all({text}, to_head, 1'000'000);
    require(read_all(fuzz::cut(text, seed), to_head, 7) == whole,
            "an answer does not depend on how it comes");
    return 0;
}
