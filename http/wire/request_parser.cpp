#include "http/wire/request_parser.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "core/base/limits.hpp"
#include "http/wire/field_arena.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

namespace beast_http = boost::beast::http;
using base::Errc;
using base::Error;
using boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

// The shortest end of a chunked body, "0\r\n\r\n": at every point of one at least this much is still to
// come, and Beast asserts that it does once it has seen the last chunk's size.
constexpr std::size_t k_least_chunked_rest_bytes = 5;

// True if the field `name` goes on in another line (obs-fold). RFC 9112 section 5.2: Beast takes it and
// makes it a space; others may see two fields or none. `input` is what Beast parses, `name` a view into it:
// it has looked at the byte behind the line's end to decide this.
bool is_folded(std::string_view input, std::string_view name) {
    const auto begin = static_cast<std::size_t>(name.data() + name.size() - input.data());
    const auto line_end = input.find("\r\n", begin);
    const auto next = line_end == std::string_view::npos ? "" : input.substr(line_end + 2, 1);
    return next == " " || next == "\t";
}

std::string_view std_view(string_view text) {
    return {text.data(), text.size()};
}

Method to_method(beast_http::verb verb) {
    switch (verb) {
        case beast_http::verb::get:
            return Method::get;
        case beast_http::verb::head:
            return Method::head;
        case beast_http::verb::post:
            return Method::post;
        case beast_http::verb::put:
            return Method::put;
        case beast_http::verb::patch:
            return Method::patch;
        case beast_http::verb::delete_:
            return Method::delete_;
        case beast_http::verb::options:
            return Method::options;
        default:
            return Method::other;
    }
}

}  // namespace

// Receives the elements that Beast's parser finds. A refusal of ours is kept in `refusal`, and Beast gets
// bad_value.
class RequestParser::Sink {
  public:
    // Beast's parser cannot be used twice, so it is made anew for each message.
    class Parser final : public beast_http::basic_parser<true> {
      public:
        explicit Parser(Sink& sink) : sink_(sink) {}

      private:
        void on_request_impl(beast_http::verb verb, string_view name, string_view text, int version,
                             ErrorCode& ec) override {
            sink_.method_name = sink_.arena.keep(std_view(name));
            sink_.on_line(to_method(verb), std_view(text), version, ec);
        }
        void on_field_impl(beast_http::field field, string_view name, string_view value,
                           ErrorCode& ec) override {
            sink_.on_field(field, std_view(name), std_view(value), ec);
        }
        void on_header_impl(ErrorCode& ec) override { sink_.on_head_end(ec); }
        void on_body_init_impl(const boost::optional<std::uint64_t>& length, ErrorCode&) override {
            if (length && !sink_.streams)
                sink_.request.body.reserve(std::min<std::uint64_t>(*length, base::k_free_body_bytes));
        }
        std::size_t on_body_impl(string_view bytes, ErrorCode& ec) override {
            return sink_.on_body(std_view(bytes), ec);
        }
        void on_chunk_header_impl(std::uint64_t size, string_view extensions, ErrorCode& ec) override {
            sink_.chunk_left = size;
            sink_.on_chunk_extensions(std_view(extensions), ec);
        }
        std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, ErrorCode& ec) override {
            return sink_.on_body(std_view(bytes), ec);
        }
        void on_finish_impl(ErrorCode&) override { sink_.on_end(); }
        void on_response_impl(int, string_view, int, ErrorCode&) override {}

        Sink& sink_;
    };

    using Piece = FieldArena::Piece;

    void start(const ParserLimits& limits) {
        parser.emplace(*this);
        // Beast's header limit restarts with each field, so the cap on the head is kept by feed().
        parser->header_limit(static_cast<std::uint32_t>(limits.head_bytes));
        // Beast's body limit would end a message before its head is complete: so on_body() enforces our
        // limit.
        parser->body_limit(boost::none);
        body_limit = limits.body_bytes;
        targets = limits.targets;
        parser->eager(false);
    }

    void clear() {
        parser.reset();
        request = Request{};
        arena.clear();
        refusal.reset();
        method_name = target = host = Piece{};
        hosts = lengths = codings = origins = authorizations = 0;
        head_bytes = blank_lines = 0;
        chunk_left = body_bytes = 0;
        room = {};
        expects_continue = failed = streams = false;
    }

    void refuse(ErrorCode& ec, std::string detail) {
        refusal.emplace(Errc::invalid_request, std::move(detail));
        ec = beast_http::error::bad_value;
    }

    // Beast takes any byte in a quoted one.
    void on_chunk_extensions(std::string_view text, ErrorCode& ec) {
        const bool is_text =
            std::ranges::all_of(text, [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; });
        if (!is_text)
            refuse(ec, "A chunk's extension holds a control character.");
    }

    void on_line(Method method, std::string_view text, int version, ErrorCode& ec) {
        request.method = method;
        request.version = static_cast<unsigned>(version);
        target = arena.keep(text);
        if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f && c != '#'; }))
            refuse(ec, "The request target holds characters that a URI cannot have; percent-encode them.");
    }

    void on_field(beast_http::field field, std::string_view name, std::string_view value, ErrorCode& ec) {
        if (is_folded(input, name))
            return refuse(ec, "A field must not go on in another line.");
        if (parser->is_header_done()) {
            // A trailer: nothing here may change the request. The views of the head must stay as they are.
            if (streams)
                arena.add_trailer(name, value);
            return;
        }
        const Piece kept = arena.add_field(name, value);
        switch (field) {
            case beast_http::field::host:
                host = kept;
                ++hosts;
                break;
            case beast_http::field::content_length:
                if (++lengths > 1 || !parse_decimal(value))
                    refuse(ec, "Content-Length must be one decimal number, given once.");
                break;
            case beast_http::field::transfer_encoding:
                if (++codings > 1 || !iequals(value, "chunked") || request.version < 11)
                    refuse(ec, "The only Transfer-Encoding is chunked, given once, over HTTP/1.1.");
                break;
            case beast_http::field::expect:
                if (!iequals(value, "100-continue"))
                    refuse(ec, "The only expectation is 100-continue.");
                expects_continue = request.version >= 11;
                break;
            case beast_http::field::origin:
                if (++origins > 1)
                    refuse(ec, "There must be at most one Origin field.");
                break;
            case beast_http::field::authorization:
                if (++authorizations > 1)
                    refuse(ec, "There must be at most one Authorization field.");
                break;
            default:
                break;
        }
    }

    void on_head_end(ErrorCode& ec) {
        arena.show_fields(request.fields);
        request.method_text = arena.view(method_name);
        if (lengths > 0 && codings > 0)
            return refuse(ec, "Content-Length and Transfer-Encoding cannot be given together.");
        // RFC 9112 section 3.2: 400 to an HTTP/1.1 request without Host, and to any with more than one.
        if (hosts > 1 || (hosts == 0 && request.version >= 11))
            return refuse(ec, "There must be one Host field.");
        split_target(ec);
    }

    void on_end() { arena.show_trailers(request.trailers); }

    std::size_t on_body(std::string_view bytes, ErrorCode& ec) {
        if (streams) {
            bytes = bytes.substr(0, room.size());
            if (!passes)
                std::copy(bytes.begin(), bytes.end(), room.begin());
            room = room.subspan(bytes.size());
        } else if (bytes.size() > body_limit - request.body.size()) {
            ec = beast_http::error::body_limit;
            return 0;
        } else {
            request.body.append(bytes);
        }
        body_bytes += bytes.size();
        chunk_left -= std::min<std::uint64_t>(chunk_left, bytes.size());
        return bytes.size();
    }

    Error failure(Error error) {
        failed = true;
        return error;
    }

    bool parsing() const noexcept { return parser.has_value(); }

    std::optional<Parser> parser;
    Request request;
    FieldArena arena;
    std::optional<Error> refusal;
    Piece method_name;
    Piece target;
    Piece host;
    int hosts = 0;
    int lengths = 0;
    int codings = 0;
    int origins = 0;
    int authorizations = 0;
    std::size_t head_bytes = 0;
    std::size_t blank_lines = 0;  // before the request line
    std::size_t body_limit = 0;
    TargetForms targets = TargetForms::of_server;
    std::uint64_t body_bytes = 0;  // parsed so far
    std::uint64_t chunk_left = 0;  // of the chunk that has begun
    std::span<char> room;          // for the body that is streamed
    bool streams = false;
    bool passes = false;  // the body's bytes are passed on already; of `room` only the size counts
    bool expects_continue = false;
    bool failed = false;     // even if Beast has read all of the message
    std::string_view input;  // the parser's present input; contains all of the present field

  private:
    // RFC 9112 section 3.2: origin-form or absolute-form. The authority of an absolute-form counts instead of
    // Host.
    void split_target(ErrorCode& ec) {
        auto text = arena.view(target);
        if (targets == TargetForms::of_proxy)
            return split_proxy_target(text, ec);
        request.authority = arena.view(host);
        for (const std::string_view scheme : {"http://", "https://"}) {
            if (text.size() > scheme.size() && take_authority(text, scheme)) {
                if (request.authority.empty())
                    return refuse(ec, "The request target needs a host.");
                if (text.empty() || text.front() == '?')
                    return split_path("/", text);  // RFC 9110 section 4.2.3
                break;
            }
        }
        // RFC 9112 section 3.2.4: asterisk-form, for OPTIONS alone.
        if (text == "*" && request.method == Method::options)
            return split_path(text, {});
        if (text.empty() || text.front() != '/')
            return refuse(ec, "The request target must be a path that begins with '/'.");
        const auto end = std::min(text.find('?'), text.size());
        split_path(text.substr(0, end), text.substr(end));
    }

    // Another protocol follows CONNECT: some readers would take a body for a part of it, others for a part of
    // the request.
    void split_proxy_target(std::string_view text, ErrorCode& ec) {
        if (request.method_text == "CONNECT") {
            if (lengths > 0 || codings > 0)
                return refuse(ec, "CONNECT has no body.");
            request.authority = text;
            return;
        }
        if (!take_authority(text, "http://"))
            return refuse(
                ec, "This is a proxy: it takes CONNECT host:port, and addresses that begin with http://.");
        if (request.authority.empty())
            return refuse(ec, "The request target needs a host.");
        const auto end = std::min(text.find('?'), text.size());
        // RFC 9112 section 3.2.4: OPTIONS without a path is for the server as a whole.
        const std::string_view without_path = text.empty() && request.method == Method::options ? "*" : "/";
        split_path(end == 0 ? without_path : text.substr(0, end), text.substr(end));
    }

    // True if `text` began with `scheme`: then that and the authority are gone from it.
    bool take_authority(std::string_view& text, std::string_view scheme) {
        if (!iequals(text.substr(0, scheme.size()), scheme))
            return false;
        text.remove_prefix(scheme.size());
        const auto end = std::min(text.find_first_of("/?"), text.size());
        request.authority = text.substr(0, end);
        text.remove_prefix(end);
        return true;
    }

    // `rest` is empty or the query with its '?'.
    void split_path(std::string_view path, std::string_view rest) {
        request.path = path;
        request.has_query = !rest.empty();
        request.query = rest.substr(request.has_query ? 1 : 0);
    }
};

RequestParser::RequestParser(ParserLimits limits) : sink_(std::make_unique<Sink>()), limits_(limits) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;

namespace {

// True if a line of at most `limit_bytes` ends in `bytes`.
bool holds_line(std::string_view bytes, std::size_t limit_bytes) {
    return bytes.find("\r\n") <= std::min(limit_bytes, bytes.size());
}

Error error_of(const ErrorCode& ec, std::optional<Error>& refusal) {
    if (refusal)
        return std::move(*refusal);
    if (ec == beast_http::error::body_limit)
        return Error(Errc::body_too_large, "The body is longer than this route takes.");
    return Error(Errc::invalid_request, "This is not well-formed HTTP/1.1: " + ec.message() + '.');
}

// RFC 9112 section 2.2: a few empty lines before a request line are ignored.
std::size_t leading_empty_lines(std::string_view bytes) {
    std::size_t count = 0;
    while (bytes.substr(count, 2) == "\r\n")
        count += 2;
    return count;
}

}  // namespace

base::Result<std::size_t> RequestParser::feed(std::string_view bytes) {
    std::size_t used = 0;
    if (!sink_->parsing()) {
        used = leading_empty_lines(bytes);
        sink_->blank_lines += used / 2;
        if (sink_->blank_lines > base::k_max_leading_blank_lines)
            return sink_->failure(Error(Errc::invalid_request, "Too many blank lines before a request."));
        if (used == bytes.size() || bytes.substr(used) == "\r")
            return used;
        sink_->start(limits_);
    }
    return parse(bytes, used);
}

base::Result<RequestParser::Fed> RequestParser::feed_body(std::string_view bytes, std::span<char> room) {
    sink_->room = room;
    const auto used = parse(bytes, 0);
    if (used.has_error())
        return used.error();
    return Fed{*used, room.size() - sink_->room.size()};
}

base::Result<std::size_t> RequestParser::pass_body(std::string_view bytes) {
    sink_->passes = true;
    // Not written to.
    sink_->room = std::span<char>(const_cast<char*>(bytes.data()), bytes.size());
    auto used = parse(bytes, 0);
    sink_->passes = false;
    return used;
}

std::uint64_t RequestParser::body_left() const {
    return content_length().value_or(sink_->body_bytes) - sink_->body_bytes;
}

// From `used` on. Gives where it stopped.
base::Result<std::size_t> RequestParser::parse(std::string_view bytes, std::size_t used) {
    auto& parser = *sink_->parser;
    const bool in_head = !parser.is_header_done();
    const bool in_line = in_head && sink_->target.size == 0;
    const auto too_long = [&, begun = bytes.substr(used)] {
        return in_line && !holds_line(begun, limits_.head_bytes)
                   ? Error(Errc::target_too_long, "The request line is too long.")
                   : Error(Errc::header_too_large, "The head, a chunk's line or the trailers are too long.");
    };
    const auto is_full = [&] { return sink_->streams && sink_->room.empty(); };
    while (used < bytes.size() && !parser.is_done() && in_head == !parser.is_header_done() && !is_full()) {
        ErrorCode ec;
        const auto rest = bytes.substr(used);
        // Beast asserts that no less than this follows once it has seen the last chunk's size. Inside a
        // chunk it takes whatever has come.
        if (!in_head && parser.chunked() && sink_->chunk_left == 0 &&
            rest.size() < k_least_chunked_rest_bytes)
            break;
        sink_->input = rest;
        const auto body_before = sink_->body_bytes;
        const auto count = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
        used += count;
        if (in_head)
            sink_->head_bytes += count;
        if (ec == beast_http::error::need_more)
            break;
        if (ec == beast_http::error::header_limit)
            return sink_->failure(too_long());
        if (ec)
            return sink_->failure(error_of(ec, sink_->refusal));
        // A chunk line or the trailers that came as a whole: the cap is the same as when they grow.
        if (!in_head && count - (sink_->body_bytes - body_before) > limits_.head_bytes)
            return sink_->failure(too_long());
    }
    // Bytes that are neither consumed nor complete are a line that still grows: of the head, of a chunk, of a
    // trailer.
    const bool growing = in_head ? !parser.is_header_done() : !parser.is_done() && !is_full();
    const std::size_t pending = growing ? bytes.size() - used : 0;
    if ((in_head ? sink_->head_bytes : 0) + pending > limits_.head_bytes)
        return sink_->failure(too_long());
    return used;
}

void RequestParser::set_body_limit(std::size_t bytes) noexcept {
    sink_->body_limit = bytes;
}
void RequestParser::stream_body() noexcept {
    sink_->streams = true;
}
bool RequestParser::started() const noexcept {
    return sink_->parsing();
}
bool RequestParser::head_done() const noexcept {
    return sink_->parsing() && sink_->parser->is_header_done();
}
bool RequestParser::done() const noexcept {
    return sink_->parsing() && sink_->parser->is_done() && !sink_->failed;
}
std::optional<std::uint64_t> RequestParser::content_length() const {
    const auto length = sink_->parser->content_length();
    return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}
bool RequestParser::wants_keep_alive() const {
    return sink_->parser->keep_alive();
}
bool RequestParser::expects_continue() const noexcept {
    return sink_->expects_continue;
}
Request& RequestParser::request() noexcept {
    return sink_->request;
}
const Request& RequestParser::request() const noexcept {
    return sink_->request;
}
void RequestParser::reset() {
    sink_->clear();
}

}  // namespace atl::http
