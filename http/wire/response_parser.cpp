#include "http/wire/response_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/base/preview_times.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using namespace std::string_view_literals;

constexpr std::string_view k_response_version = "HTTP/1."sv;
constexpr std::size_t k_status_digits = 3;

Error not_http(std::string_view why) {
    return {Errc::upstream_failed,
            "What answers inside the sandbox does not speak HTTP/1.1: " + std::string(why) + "."};
}

Error uncertain(std::string_view why) {
    return {Errc::upstream_failed,
            "The answer from inside the sandbox can be read in more than one way, and so goes no further: " +
                std::string(why) + "."};
}

Error too_much(std::string_view of, std::string_view most) {
    return {Errc::upstream_failed,
            fmt::format(
                "The answer from inside the sandbox has {}more than {}, the most that a preview passes on.",
                of, most)};
}

// The characters of RFC 9110 section 5.6.2.
bool is_field_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               "!#$%&'*+-.^_`|~"sv.find(c) != std::string_view::npos;
    });
}

// True if a lenient reader could take `name`, which is no token or has a space behind it, for a field that
// frames the message: only letters are compared.
bool resembles_framing(std::string_view name) {
    std::string letters;
    for (const char c : name) {
        const char lower = static_cast<char>(c | 0x20);
        if (lower >= 'a' && lower <= 'z')
            letters += lower;
    }
    return letters.find("contentlength") != std::string::npos ||
           letters.find("transferencoding") != std::string::npos;
}

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// The characters of a field's value, of a reason and of a chunk's extension, with those of other alphabets.
bool is_line_text(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return (c >= ' ' && c != 0x7f) || c == '\t'; });
}

}  // namespace

void ResponseParser::begin(bool to_head) {
    part_ = Part::status_line;
    clear_text(line_);
    clear_text(field_);
    part_bytes_ = 0;
    arena_.clear();
    fields_.clear();
    trailers_.clear();
    field_count_ = 0;
    reason_ = {};
    body_end_ = BodyEnd::none;
    is_to_head_ = to_head;
    started_ = is_chunked_ = false;
    is_http_11_ = true;
    status_ = 0;
    length_.reset();
    data_left_ = 0;
}

base::Result<std::size_t> ResponseParser::feed_head(std::string_view bytes) {
    return parse(bytes, nullptr, 0);
}

base::Result<std::size_t> ResponseParser::feed_body(std::string_view bytes, std::string& body,
                                                    std::size_t most_bytes) {
    return parse(bytes, &body, most_bytes);
}

base::Result<std::size_t> ResponseParser::pass_body(std::string_view bytes) {
    return parse(bytes, nullptr, bytes.size());
}

base::Result<std::size_t> ResponseParser::parse(std::string_view bytes, std::string* body, std::size_t room) {
    const bool in_head = !head_done();
    std::string_view rest = bytes;
    started_ = started_ || !bytes.empty();
    while (!rest.empty() && !done() && in_head != head_done()) {
        if (part_ == Part::body || part_ == Part::chunk) {
            const auto count =
                static_cast<std::size_t>(std::min<std::uint64_t>(std::min(rest.size(), room), data_left_));
            if (count == 0)
                break;
            if (body != nullptr)
                body->append(rest.substr(0, count));
            rest.remove_prefix(count);
            room -= count;
            data_left_ -= count;
            if (data_left_ == 0)
                part_ = part_ == Part::chunk ? Part::chunk_end : Part::done;
            continue;
        }
        const auto is_whole = read_line(rest);
        if (is_whole.has_error())
            return is_whole.error();
        if (!*is_whole)
            break;
        if (const auto taken = take_line(); taken.has_error())
            return taken.error();
    }
    return bytes.size() - rest.size();
}

// Takes from `bytes` up to the end of the line. True once `line_` is whole, and then without that end.
base::Result<bool> ResponseParser::read_line(std::string_view& bytes) {
    const std::size_t end = bytes.find('\n');
    const bool is_whole = end != std::string_view::npos;
    const std::size_t count = is_whole ? end + 1 : bytes.size();
    part_bytes_ += count;
    if (part_bytes_ > head_bytes_)
        return too_much(head_done() ? "a chunk's line or trailers of " : "a head of ",
                        fmt::format("{} KiB", head_bytes_ / 1024));
    line_ += bytes.substr(0, is_whole ? end : count);
    bytes.remove_prefix(count);
    // Another protocol may wait for words of the client, so its first bytes are enough.
    if (part_ == Part::status_line && !iequals(k_response_version.substr(0, line_.size()),
                                               std::string_view(line_).substr(0, k_response_version.size())))
        return not_http("its answer does not begin with HTTP/1.1 or HTTP/1.0");
    if (part_ == Part::chunk_end && !line_.empty() && line_ != "\r")
        return not_http("a chunk is longer than its line says");
    if (!is_whole)
        return false;
    if (line_.ends_with('\r'))
        line_.pop_back();
    if (line_.find_first_of("\r\0"sv) != std::string::npos)
        return uncertain("a line of it holds a NUL or a bare CR");
    return true;
}

base::Result<void> ResponseParser::take_line() {
    base::Result<void> taken;
    switch (part_) {
        case Part::status_line:
            taken = take_status_line();
            break;
        case Part::head:
        case Part::trailers:
            taken = take_field_line();
            break;
        case Part::chunk_size:
            taken = take_chunk_size();
            break;
        case Part::chunk_end:
            part_ = Part::chunk_size;
            part_bytes_ = 0;
            break;
        case Part::body:
        case Part::chunk:
        case Part::done:
            break;
    }
    line_.clear();
    return taken;
}

base::Result<void> ResponseParser::take_status_line() {
    // `HTTP/1.` was compared as its bytes came.
    const std::string_view line = line_;
    const char version = line.size() > k_response_version.size() ? line[k_response_version.size()] : '\0';
    const std::string_view behind = line.substr(std::min(k_response_version.size() + 1, line.size()));
    const std::string_view rest = trimmed(behind);
    const auto status = parse_decimal(rest.substr(0, k_status_digits));
    const std::string_view reason = rest.substr(std::min(k_status_digits, rest.size()));
    if ((version != '0' && version != '1') || behind.empty() || !is_blank(behind.front()) || !status ||
        *status < 100 || (!reason.empty() && !is_blank(reason.front())) || !is_line_text(reason))
        return not_http("its first line is not one as `HTTP/1.1 200 OK`");
    status_ = static_cast<unsigned>(*status);
    is_http_11_ = version == '1';
    reason_ = arena_.keep(trimmed(reason));
    part_ = Part::head;
    return {};
}

// A field is complete when the next line does not go on with it.
base::Result<void> ResponseParser::take_field_line() {
    if (line_.starts_with(' ') || line_.starts_with('\t')) {
        if (field_.find(':') == std::string::npos)
            return uncertain("a line goes on with a field that has not begun");
        field_.resize(field_.find_last_not_of(" \t") + 1);
        field_.append(" ").append(trimmed(line_));
        return {};
    }
    if (auto ended = end_field(); ended.has_error())
        return ended;
    if (!line_.empty()) {
        field_.swap(line_);
        return {};
    }
    if (part_ == Part::head)
        return end_head();
    arena_.show_trailers(trailers_);
    part_ = Part::done;
    return {};
}

base::Result<void> ResponseParser::end_field() {
    if (field_.empty())
        return {};
    const std::string_view field = field_;
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view written_name = field.substr(0, colon);
    // RFC 9112 section 5.1: a proxy removes the space before the colon.
    const std::string_view name = trimmed(written_name);
    const std::string_view value = trimmed(field.substr(std::min(colon + 1, field.size())));
    if (colon == field.size() || !is_line_text(value))
        return not_http("a line of its head or trailers is not one as `Name: value`");
    if (++field_count_ > base::k_max_answer_fields)
        return too_much("", fmt::format("{} fields", base::k_max_answer_fields));
    if (!is_field_name(written_name) && resembles_framing(written_name))
        return uncertain("the name of a field resembles Content-Length or Transfer-Encoding");
    auto taken = take_framing(name, value);
    const bool passes = is_field_name(name);
    if (passes && part_ == Part::head)
        arena_.add_field(name, value);
    else if (passes)
        arena_.add_trailer(name, value);
    field_.clear();
    return taken;
}

// RFC 9112 section 6.3.
base::Result<void> ResponseParser::take_framing(std::string_view name, std::string_view value) {
    const bool is_length = iequals(name, "Content-Length");
    const bool is_coding = iequals(name, "Transfer-Encoding");
    if (part_ == Part::trailers && (is_length || is_coding))
        return uncertain("its trailers have a Content-Length or a Transfer-Encoding");
    if (is_coding && (is_chunked_ || !iequals(value, "chunked")))
        return uncertain("it has another Transfer-Encoding than chunked, given once");
    is_chunked_ = is_chunked_ || is_coding;
    for (bool has_more = is_length; has_more;) {
        has_more = value.find(',') != std::string_view::npos;
        const auto length = parse_decimal(take_element(value, ','));
        if (!length)
            return uncertain("its Content-Length is no decimal number");
        if (length_ && *length_ != *length)
            return uncertain("it has two Content-Lengths that differ");
        length_ = length;
    }
    return {};
}

base::Result<void> ResponseParser::end_head() {
    arena_.show_fields(fields_);
    if (length_ && is_chunked_)
        return uncertain("it has a Content-Length together with a Transfer-Encoding");
    if (is_chunked_ && !is_http_11_)
        return uncertain("it has a Transfer-Encoding, and is of HTTP/1.0");
    // RFC 9112 section 6.3.
    if (is_to_head_ || status_ < 200 || status_ == 204 || status_ == 304) {
        part_ = Part::done;
    } else if (is_chunked_) {
        body_end_ = BodyEnd::chunked;
        part_ = Part::chunk_size;
    } else {
        body_end_ = length_ ? BodyEnd::length : BodyEnd::close;
        data_left_ = length_.value_or(std::numeric_limits<std::uint64_t>::max());
        part_ = data_left_ == 0 ? Part::done : Part::body;
    }
    part_bytes_ = 0;
    clear_text(field_);
    return {};
}

base::Result<void> ResponseParser::take_chunk_size() {
    const std::string_view line = line_;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data(), end, data_left_, 16);
    const std::string_view rest = trimmed(line.substr(static_cast<std::size_t>(stop - line.data())));
    if (error != std::errc{} || (!rest.empty() && rest.front() != ';') || !is_line_text(rest))
        return not_http("the line of a chunk does not begin with its size");
    part_ = data_left_ == 0 ? Part::trailers : Part::chunk;
    part_bytes_ = 0;
    return {};
}

base::Result<void> ResponseParser::end_input() {
    if (done())
        return {};
    if (body_end_ != BodyEnd::close)
        return not_http("the connection ended before the answer was complete");
    part_ = Part::done;
    return {};
}

bool ResponseParser::keeps_alive() const noexcept {
    bool says_close = false;
    bool says_keep = false;
    for (const auto& [name, value] : fields_) {
        if (!iequals(name, "Connection"))
            continue;
        for (std::string_view list = value; !list.empty();) {
            const std::string_view option = take_element(list, ',');
            says_close = says_close || iequals(option, "close");
            says_keep = says_keep || iequals(option, "keep-alive");
        }
    }
    return body_end_ != BodyEnd::close && !says_close && (is_http_11_ || says_keep);
}

}  // namespace atl::http
