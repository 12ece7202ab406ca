#include "http/wire/response_parser.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "http/wire/field_arena.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

namespace beast_http = boost::beast::http;
using base::Errc;
using base::Error;
using boost::beast::string_view;
using ErrorCode = boost::beast::error_code;

std::string_view response_view(string_view text) {
    return {text.data(), text.size()};
}

Error bad_upstream(std::string_view why) {
    return {Errc::upstream_failed,
            "What answers inside the sandbox does not speak HTTP/1.1: " + std::string(why)};
}

}  // namespace

// Receives the elements that Beast's parser finds. A refusal of ours is kept in `refusal`, and Beast gets
// bad_value.
class ResponseParser::Sink {
  public:
    // Beast's parser cannot be used twice, so it is made anew for each message.
    class Parser final : public beast_http::basic_parser<false> {
      public:
        explicit Parser(Sink& sink) : sink_(sink) {}

      private:
        void on_request_impl(beast_http::verb, string_view, string_view, int, ErrorCode&) override {}
        void on_response_impl(int status, string_view reason, int version, ErrorCode&) override {
            sink_.status = static_cast<unsigned>(status);
            sink_.version = version;
            sink_.reason_at = sink_.arena.keep(response_view(reason));
        }
        void on_field_impl(beast_http::field field, string_view name, string_view value,
                           ErrorCode& ec) override {
            sink_.on_field(field, response_view(name), response_view(value), ec);
        }
        void on_header_impl(ErrorCode& ec) override { sink_.on_head_end(ec); }
        void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
        std::size_t on_body_impl(string_view bytes, ErrorCode&) override { return sink_.on_body(bytes); }
        void on_chunk_header_impl(std::uint64_t size, string_view, ErrorCode&) override {
            sink_.chunk_left = size;
        }
        std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, ErrorCode&) override {
            return sink_.on_body(bytes);
        }
        void on_finish_impl(ErrorCode&) override { sink_.on_end(); }

        Sink& sink_;
    };

    void begin(std::size_t head_limit, bool to_head) {
        is_to_head = to_head;
        arena.clear();
        fields.clear();
        trailers.clear();
        refusal.reset();
        reason_at = {};
        status = 0;
        lengths = codings = 0;
        head_bytes = 0;
        body_bytes = chunk_left = 0;
        body = nullptr;
        parser.emplace(*this);
        parser->header_limit(static_cast<std::uint32_t>(head_limit));
        parser->body_limit(boost::none);
        parser->eager(false);
        parser->skip(to_head);
    }

    std::optional<Parser> parser;
    FieldArena arena;
    std::vector<HeaderField> fields;
    std::vector<HeaderField> trailers;
    std::optional<std::string> refusal;
    FieldArena::Piece reason_at;
    BodyEnd body_end = BodyEnd::none;
    bool is_to_head = false;
    unsigned status = 0;
    int version = 11;
    std::size_t head_bytes = 0;
    std::uint64_t body_bytes = 0;  // parsed so far
    std::uint64_t chunk_left = 0;  // of the chunk that has begun
    std::string* body = nullptr;   // where body bytes go; null: they are passed on already
    std::size_t body_room = 0;     // how many may still go there
    std::string_view input;        // the parser's present input; contains all of the present field

  private:
    void refuse(ErrorCode& ec, const char* why) {
        refusal = why;
        ec = beast_http::error::bad_value;
    }
    void on_field(beast_http::field field, std::string_view name, std::string_view value, ErrorCode& ec) {
        if (is_folded(input, name))
            return refuse(ec, "a field goes on in another line");
        if (parser->is_header_done()) {
            arena.add_trailer(name, value);
            return;
        }
        arena.add_field(name, value);
        if (field == beast_http::field::content_length && (++lengths > 1 || !parse_decimal(value)))
            refuse(ec, "Content-Length is not one decimal number");
        if (field == beast_http::field::transfer_encoding && (++codings > 1 || !iequals(value, "chunked")))
            refuse(ec, "a transfer coding other than chunked");
    }
    void on_head_end(ErrorCode& ec) {
        arena.show_fields(fields);
        if (status < 100)
            return refuse(ec, "a status below 100");
        if (lengths > 0 && codings > 0)
            return refuse(ec, "Content-Length together with Transfer-Encoding");
        if (codings > 0 && version < 11)
            return refuse(ec, "Transfer-Encoding in HTTP/1.0");
        // RFC 9112 section 6.3.
        const bool bodiless = is_to_head || status < 200 || status == 204 || status == 304;
        body_end = bodiless      ? BodyEnd::none
                   : codings > 0 ? BodyEnd::chunked
                   : lengths > 0 ? BodyEnd::length
                                 : BodyEnd::close;
    }
    void on_end() { arena.show_trailers(trailers); }
    std::size_t on_body(string_view bytes) {
        const std::size_t count = std::min(bytes.size(), body_room);
        if (body != nullptr)
            body->append(bytes.data(), count);
        body_room -= count;
        body_bytes += count;
        chunk_left -= std::min<std::uint64_t>(chunk_left, count);
        return count;
    }
    int lengths = 0;
    int codings = 0;
};

ResponseParser::ResponseParser(std::size_t head_bytes)
    : sink_(std::make_unique<Sink>()), head_bytes_(head_bytes) {
    begin(false);
}
ResponseParser::~ResponseParser() = default;
ResponseParser::ResponseParser(ResponseParser&&) noexcept = default;

void ResponseParser::begin(bool to_head) {
    sink_->begin(head_bytes_, to_head);
}

base::Result<std::size_t> ResponseParser::feed_head(std::string_view bytes) {
    return parse(bytes);
}

base::Result<std::size_t> ResponseParser::feed_body(std::string_view bytes, std::string& body,
                                                    std::size_t most_bytes) {
    sink_->body = &body;
    sink_->body_room = most_bytes;
    return parse(bytes);
}

base::Result<std::size_t> ResponseParser::pass_body(std::string_view bytes) {
    sink_->body = nullptr;
    sink_->body_room = bytes.size();
    return parse(bytes);
}

std::uint64_t ResponseParser::body_left() const noexcept {
    return body_end() == BodyEnd::length ? *content_length() - sink_->body_bytes : 0;
}

base::Result<std::size_t> ResponseParser::parse(std::string_view bytes) {
    auto& parser = *sink_->parser;
    const bool in_head = !parser.is_header_done();
    const auto is_full = [&] { return !in_head && sink_->body_room == 0; };
    std::size_t used = 0;
    while (used < bytes.size() && !parser.is_done() && !is_full() && !(in_head && parser.is_header_done())) {
        const std::string_view rest = bytes.substr(used);
        // Beast asserts that no less than this follows once it has seen the last chunk's size.
        if (!in_head && parser.chunked() && sink_->chunk_left == 0 &&
            rest.size() < k_least_chunked_rest_bytes)
            break;
        sink_->input = rest;
        ErrorCode ec;
        const std::uint64_t body_before = sink_->body_bytes;
        const std::size_t count = parser.put(boost::asio::buffer(rest.data(), rest.size()), ec);
        used += count;
        if (in_head)
            sink_->head_bytes += count;
        if (ec == beast_http::error::need_more)
            break;
        if (ec)
            return bad_upstream(sink_->refusal ? *sink_->refusal : ec.message());
        if (!in_head && count - (sink_->body_bytes - body_before) > head_bytes_)
            return bad_upstream("a chunk's line or the trailers are too long");
    }
    // What is neither consumed nor complete is a line that still grows.
    const bool growing = in_head ? !parser.is_header_done() : !parser.is_done() && !is_full();
    if ((in_head ? sink_->head_bytes : 0) + (growing ? bytes.size() - used : 0) > head_bytes_)
        return bad_upstream("the head, a chunk's line or the trailers are too long");
    return used;
}

base::Result<void> ResponseParser::end_input() {
    if (done())
        return {};
    if (body_end() != BodyEnd::close || !head_done())
        return bad_upstream("the connection ended before the response was complete");
    ErrorCode ec;
    sink_->parser->put_eof(ec);
    return {};
}

bool ResponseParser::started() const noexcept {
    return sink_->parser->got_some();
}
bool ResponseParser::head_done() const noexcept {
    return sink_->parser->is_header_done();
}
bool ResponseParser::done() const noexcept {
    return sink_->parser->is_done();
}
unsigned ResponseParser::status() const noexcept {
    return sink_->status;
}
std::string_view ResponseParser::reason() const noexcept {
    return sink_->arena.view(sink_->reason_at);
}
const std::vector<HeaderField>& ResponseParser::fields() const noexcept {
    return sink_->fields;
}
const std::vector<HeaderField>& ResponseParser::trailers() const noexcept {
    return sink_->trailers;
}
BodyEnd ResponseParser::body_end() const noexcept {
    return sink_->body_end;
}
std::optional<std::uint64_t> ResponseParser::content_length() const noexcept {
    const auto length = sink_->parser->content_length();
    return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}
bool ResponseParser::keeps_alive() const noexcept {
    return sink_->parser->keep_alive();
}

}  // namespace atl::http
