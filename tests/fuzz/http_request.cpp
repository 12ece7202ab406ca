// Requests on a connection: the same however their bytes come, within the limits, and the same to a second,
// plain reader of RFC 9112: if that one sees another end, another body or other fields, a proxy may, too. A
// body that is streamed is the one that would be collected, into whatever room.
#include <algorithm>
#include <cstring>

#include "http/wire/request_parser.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

constexpr http::ParserLimits k_limits{512, 64};

struct Seen {
    std::string method, path, authority, body;
    std::string query;  // with its '?'
    std::vector<std::pair<std::string, std::string>> fields;
    std::size_t size = 0;  // of all its bytes
    bool keep_alive = false;
    bool operator==(const Seen&) const = default;
};

struct Outcome {
    std::vector<Seen> requests;
    bool failed = false;
};

Seen seen_of(const http::RequestParser& parser, std::size_t size) {
    const auto& request = parser.request();
    Seen seen;
    seen.method = to_string(request.method);
    seen.path = request.path;
    seen.query = (request.has_query ? "?" : "") + std::string(request.query);
    seen.authority = request.authority;
    seen.body = request.body;
    for (const auto& [name, value] : request.fields)
        seen.fields.emplace_back(name, value);
    seen.size = size;
    seen.keep_alive = parser.wants_keep_alive();
    const bool whole_server = seen.path == "*" && request.method == http::Method::options;
    require(seen.path.starts_with('/') || whole_server, "a path begins with '/', or is that of OPTIONS *");
    require(request.body.size() <= k_limits.body_bytes, "a body is within its limit");
    return seen;
}

// Reads as a streaming handler does: behind a head it asks for the body, a room at a time.
Outcome stream_all(const std::vector<std::string_view>& pieces, std::size_t room_bytes) {
    http::RequestParser parser(k_limits);
    Outcome outcome;
    std::string kept;
    std::string body;
    std::string room(room_bytes, '\0');
    std::size_t size = 0;
    for (const auto piece : pieces) {
        kept += piece;
        for (bool again = true; again;) {
            const bool in_head = !parser.head_done();
            http::RequestParser::Fed fed;
            if (in_head) {
                const auto used = parser.feed(kept);
                outcome.failed = used.has_error();
                fed.used = used.has_value() ? *used : 0;
                if (parser.head_done())
                    parser.stream_body();
            } else {
                const auto result = parser.feed_body(kept, room);
                outcome.failed = result.has_error();
                if (result.has_value())
                    fed = *result;
                require(fed.written <= room.size() && fed.written <= fed.used, "what is written was read");
                body.append(room, 0, fed.written);
            }
            require(!outcome.failed || !parser.done(), "what is refused is not done");
            if (outcome.failed)
                return outcome;
            kept.erase(0, fed.used);
            size += fed.used;
            const bool done = parser.done();
            again = done ? !kept.empty() : fed.written > 0 || (in_head && parser.head_done());
            if (done) {
                require(parser.request().body.empty(), "nothing of a streamed body is kept");
                outcome.requests.push_back(seen_of(parser, std::exchange(size, 0)));
                outcome.requests.back().body = std::exchange(body, {});
                parser.reset();
            }
        }
    }
    return outcome;
}

// Reads as a session does: it asks again only when there is more, or at the end of a head.
Outcome read_all(const std::vector<std::string_view>& pieces) {
    http::RequestParser parser(k_limits);
    Outcome outcome;
    std::string kept;
    std::size_t size = 0;
    for (const auto piece : pieces) {
        kept += piece;
        for (bool again = true; again;) {
            const bool in_head = !parser.head_done();
            const auto used = parser.feed(kept);
            outcome.failed = used.has_error();
            require(!outcome.failed || !parser.done(), "what is refused is not done");
            if (outcome.failed)
                return outcome;
            kept.erase(0, *used);
            size += *used;
            const bool done = parser.done();
            if (in_head && !parser.head_done())
                require(size + kept.size() <= k_limits.head_bytes + 4096, "a head does not grow for ever");
            again = done ? !kept.empty() : in_head && parser.head_done();
            if (done) {
                outcome.requests.push_back(seen_of(parser, std::exchange(size, 0)));
                parser.reset();
            }
        }
    }
    return outcome;
}

// The second reader. It knows no incomplete input: it gets only accepted requests.
class Reference {
  public:
    explicit Reference(std::string_view bytes) : left_(bytes) {}

    void check(const Seen& seen) {
        while (left_.starts_with("\r\n"))
            left_.remove_prefix(2);
        const auto request_line = line();
        const auto method_end = request_line.find(' ');
        const auto target_end = request_line.rfind(' ');
        require(method_end > 0 && method_end < target_end, "three parts in a request line");
        const auto target = request_line.substr(method_end + 1, target_end - method_end - 1);
        require(!target.empty() && target.find(' ') == std::string_view::npos, "a target without spaces");
        const auto version = request_line.substr(target_end + 1);
        require(version == "HTTP/1.1" || version == "HTTP/1.0", "a version that is known");
        require(
            target.ends_with(seen.path + seen.query) || (seen.path == "/" && target.ends_with(seen.query)),
            "path and query are the target's");
        check_fields(seen);
        std::string body;
        if (lengths_ == 1)
            body = take(length_);
        else if (codings_ == 1)
            body = chunks();
        require(body == seen.body, "the body is the same to another reader");
        require(left_.empty(), "the end is the same to another reader");
        require(version == "HTTP/1.1" || codings_ == 0, "no chunks in HTTP/1.0");
        require(hosts_ == 1 || (hosts_ == 0 && version == "HTTP/1.0"), "one Host");
    }

  private:
    std::string_view line() {
        const auto end = left_.find("\r\n");
        require(end != std::string_view::npos, "a line ends with CR LF");
        const auto text = left_.substr(0, end);
        left_.remove_prefix(end + 2);
        for (const char c : text)
            require((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) || c == '\t',
                    "no control character");
        return text;
    }
    std::string_view take(std::size_t count) {
        require(count <= left_.size(), "the body is there");
        const auto bytes = left_.substr(0, count);
        left_.remove_prefix(count);
        return bytes;
    }
    static std::pair<std::string_view, std::string_view> field(std::string_view text) {
        const auto colon = text.find(':');
        require(colon > 0 && colon != std::string_view::npos, "a field has a name");
        const auto name = text.substr(0, colon);
        static constexpr std::string_view k_signs = "!#$%&'*+-.^_`|~";
        for (const char c : name)
            require((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                        k_signs.find(c) != std::string_view::npos,
                    "a field's name is a token");
        return {name, http::trimmed(text.substr(colon + 1))};
    }
    void check_fields(const Seen& seen) {
        auto expected = seen.fields.begin();
        for (auto text = line(); !text.empty(); text = line()) {
            const auto [name, value] = field(text);
            require(expected != seen.fields.end() && expected->first == name && expected->second == value,
                    "the fields are the same to another reader");
            ++expected;
            hosts_ += http::iequals(name, "host") ? 1 : 0;
            codings_ += http::iequals(name, "transfer-encoding") ? 1 : 0;
            if (http::iequals(name, "content-length")) {
                ++lengths_;
                length_ = http::parse_decimal(value).value();
            }
        }
        require(expected == seen.fields.end(), "there are as many fields");
        require(lengths_ + codings_ <= 1, "one statement of the length");
    }
    std::string chunks() {
        std::string body;
        for (;;) {
            const auto head = line();
            const auto digits = std::min(head.find_first_not_of("0123456789abcdefABCDEF"), head.size());
            require(digits > 0, "a chunk has a size");
            require(digits == head.size() || std::strchr(" \t;", head[digits]) != nullptr,
                    "then an extension");
            std::size_t size = 0;
            for (const char c : head.substr(0, digits))
                size = size * 16 + static_cast<std::size_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            if (size == 0)
                break;
            body += take(size);
            require(take(2) == "\r\n", "a chunk ends with CR LF");
        }
        for (auto text = line(); !text.empty(); text = line())
            field(text);
        return body;
    }

    std::string_view left_;
    int hosts_ = 0, lengths_ = 0, codings_ = 0;
    std::uint64_t length_ = 0;
};

bool is_framing(std::string_view name) {
    return http::iequals(name, "content-length") || http::iequals(name, "transfer-encoding");
}

void check_again(const Seen& seen) {
    std::string bytes = (seen.method.empty() ? "OTHER" : seen.method) + ' ' + seen.path;
    bytes += seen.query + " HTTP/1.1\r\n";
    std::size_t fields = 0;
    bool has_host = false;
    for (const auto& [name, value] : seen.fields) {
        if (is_framing(name))
            continue;
        ++fields;
        has_host |= http::iequals(name, "host");
        bytes += name + ": " + value + "\r\n";
    }
    bytes += (has_host ? "" : "Host: x\r\n") + ("Content-Length: " + std::to_string(seen.body.size()));
    if (bytes.size() + 4 > k_limits.head_bytes)
        return;
    bytes += "\r\n\r\n" + seen.body;
    const auto again = read_all({bytes});
    require(!again.failed && again.requests.size() == 1, "it is a request again");
    const auto& second = again.requests.front();
    require(second.path == seen.path && second.query == seen.query && second.body == seen.body &&
                second.method == seen.method && second.fields.size() == fields + (has_host ? 1 : 2),
            "it is the same request again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto whole = read_all({input.rest()});
    const auto pieces = read_all(fuzz::cut(input.rest(), seed == 0 ? 1 : seed));
    require(whole.requests == pieces.requests, "requests are the same however they come");
    // The other way round a refusal may take longer: Beast then waits for the end of the head.
    // So may one for its length: Beast's own limit meets a head that is still incomplete at its cap.
    const bool is_long = size > k_limits.head_bytes;
    require(whole.failed || !pieces.failed || is_long, "pieces are no reason for a refusal");
    const auto streamed = stream_all(fuzz::cut(input.rest(), seed == 0 ? 1 : seed), 1 + seed % 7U);
    require(whole.failed || !streamed.failed || is_long, "streaming is no reason for a refusal");
    require(streamed.requests.size() >= pieces.requests.size() &&
                std::equal(pieces.requests.begin(), pieces.requests.end(), streamed.requests.begin()),
            "what is streamed is what is collected");
    std::size_t begin = 0;
    for (const auto& seen : streamed.requests) {
        Reference(input.rest().substr(begin, seen.size)).check(seen);
        begin += seen.size;
    }
    begin = 0;
    for (const auto& seen : whole.requests) {
        Reference(input.rest().substr(begin, seen.size)).check(seen);
        check_again(seen);
        begin += seen.size;
    }
    return 0;
}
