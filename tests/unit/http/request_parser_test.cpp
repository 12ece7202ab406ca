#include "http/wire/request_parser.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <utility>

namespace request_parser_test {

using namespace atl::http;
using atl::base::Errc;

namespace {

constexpr ParserLimits k_limits{1024, 100};

// Feeds `bytes` in pieces of `step` and keeps the unconsumed rest, as a session does.
atl::base::Result<std::size_t> feed_all(RequestParser& parser, std::string_view bytes, std::size_t step) {
    std::string kept;
    std::size_t used_total = 0;
    while (!parser.done() && (!bytes.empty() || !kept.empty())) {
        kept += bytes.substr(0, step);
        bytes.remove_prefix(std::min(step, bytes.size()));
        for (std::size_t used = 1; used > 0 && !kept.empty() && !parser.done();) {
            const auto result = parser.feed(kept);
            if (result.has_error())
                return result.error();
            used = *result;
            used_total += used;
            kept.erase(0, used);
        }
        if (bytes.empty())
            break;
    }
    return used_total;
}

Errc refusal(std::string_view bytes, std::size_t step = 4096) {
    RequestParser parser(k_limits);
    const auto result = feed_all(parser, bytes, step);
    INFO(bytes);
    REQUIRE(result.has_error());
    CHECK_FALSE(parser.done());  // or a session would go on after it
    return result.error().code();
}

}  // namespace

TEST_CASE("a request is read whatever pieces it comes in") {
    const auto step = GENERATE(1U, 2U, 3U, 7U, 64U, 4096U);
    const std::string_view bytes =
        "POST /v1/things/a%20b?x=1&y=2 HTTP/1.1\r\nHost: localhost:4100\r\nContent-Type: application/json\r\n"
        "Content-Length: 7\r\n\r\n{\"a\":1}";
    RequestParser parser(k_limits);
    CHECK(feed_all(parser, bytes, step).value() == bytes.size());
    REQUIRE(parser.done());
    const auto& request = parser.request();
    CHECK(request.method == Method::post);
    CHECK(request.path == "/v1/things/a%20b");
    CHECK(request.query == "x=1&y=2");
    CHECK(request.has_query);
    CHECK(request.authority == "localhost:4100");
    CHECK(request.header("content-TYPE") == "application/json");
    CHECK(request.body == "{\"a\":1}");
    CHECK(parser.wants_keep_alive());
}

TEST_CASE("a chunked body with extensions and trailers is read in any pieces") {
    const auto step = GENERATE(1U, 2U, 5U, 4096U);
    const std::string_view bytes =
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3;name=value\r\nabc\r\n4\r\ndefg\r\n0\r\nTrailer: hidden\r\n\r\n";
    RequestParser parser(k_limits);
    CHECK(feed_all(parser, bytes, step).value() == bytes.size());
    REQUIRE(parser.done());
    CHECK(parser.request().body == "abcdefg");
    CHECK_FALSE(parser.request().has_header("Trailer"));
}

TEST_CASE("a chunked body without a chunk is read in any pieces") {
    const auto step = GENERATE(1U, 2U, 3U, 4U, 4096U);
    const auto* trailer = GENERATE("", "A: b\r\n");
    const auto* size = GENERATE("0", "00000", "0;x");
    const std::string bytes = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
                              std::string(size) + "\r\n" + trailer + "\r\n";
    RequestParser parser(k_limits);
    CHECK(feed_all(parser, bytes, step).value() == bytes.size());
    REQUIRE(parser.done());
    CHECK(parser.request().body.empty());
}

TEST_CASE("what follows a request is left for the next one") {
    RequestParser parser(k_limits);
    const std::string_view first = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    const std::string both = std::string(first) + "GET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    CHECK(parser.feed(both).value() == first.size());
    REQUIRE(parser.done());
    CHECK(parser.request().path == "/a");
    parser.reset();
    CHECK_FALSE(parser.started());
    CHECK(parser.feed(std::string_view(both).substr(first.size())).value() == both.size() - first.size());
    CHECK(parser.request().path == "/b");
}

TEST_CASE("empty lines before a request are skipped") {
    RequestParser parser(k_limits);
    const std::string_view bytes = "\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    CHECK(feed_all(parser, bytes, 1).value() == bytes.size());
    CHECK(parser.request().path == "/a");
}

TEST_CASE("more than a few empty lines before a request are refused, whatever pieces they come in") {
    for (const std::size_t step : {1U, 2U, 3U, 4096U}) {
        RequestParser parser(k_limits);
        const std::string request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
        const std::string lines = "\r\n\r\n\r\n\r\n";
        CHECK(feed_all(parser, lines + request, step).has_value());
        parser.reset();
        CHECK(feed_all(parser, lines + request, step).has_value());
        parser.reset();
        const auto refused = feed_all(parser, lines + "\r\n" + request, step);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == Errc::invalid_request);
    }
}

TEST_CASE("ambiguous framing is refused, since another reader may see another request") {
    const auto step = GENERATE(1U, 4096U);
    const auto with = [&](const std::string& fields) {
        return refusal("POST / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\nabcdefghij0\r\n\r\n", step);
    };
    CHECK(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: 5\r\nContent-Length: 6\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: 5\r\nContent-Length: 5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: 5, 5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: +5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: 0x5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: -1\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: \r\n") == Errc::invalid_request);
    CHECK(with("Content-Length : 5\r\n") == Errc::invalid_request);
    CHECK(with("Content-Length: 99999999999999999999999\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding: gzip, chunked\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding: identity\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding: xchunked\r\n") == Errc::invalid_request);
    CHECK(with("Transfer-Encoding\r\n") == Errc::invalid_request);
    CHECK(refusal("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == Errc::invalid_request);
}

TEST_CASE("a field that goes on in another line is refused") {
    const auto step = GENERATE(1U, 4096U);
    const auto* fold = GENERATE("\r\n ", "\r\n\t", "\r\n \t \r\n  ");
    const auto with = [&](const std::string& fields) {
        return refusal("POST / HTTP/1.1\r\n" + fields + "\r\n0\r\n\r\n", step);
    };
    CHECK(with("Host: x\r\nA: b" + std::string(fold) + "c\r\n") == Errc::invalid_request);
    CHECK(with("Host: x\r\nA:" + std::string(fold) + "c\r\n") == Errc::invalid_request);
    CHECK(with("Host: x\r\nA:" + std::string(fold) + "\r\n") == Errc::invalid_request);
    CHECK(with("Host:" + std::string(fold) + "x\r\n") == Errc::invalid_request);
    CHECK(with("Host: x\r\nTransfer-Encoding:" + std::string(fold) + "chunked\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\n Host: x\r\n\r\n", step) == Errc::invalid_request);
    CHECK(refusal("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b" +
                      std::string(fold) + "c\r\n\r\n",
                  step) == Errc::invalid_request);
}

TEST_CASE("bad chunks are refused") {
    const auto chunked = [](const std::string& body) {
        return refusal("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
    };
    CHECK(chunked("zz\r\nabc\r\n0\r\n\r\n") == Errc::invalid_request);
    CHECK(chunked("3\r\nabcX\r\n0\r\n\r\n") == Errc::invalid_request);
    CHECK(chunked("-3\r\nabc\r\n0\r\n\r\n") == Errc::invalid_request);
    CHECK(chunked("ffffffffffffffffff\r\n") == Errc::invalid_request);
    CHECK(chunked("ffffffff\r\n" + std::string(200, 'a')) == Errc::body_too_large);
}

TEST_CASE("malformed requests are refused") {
    CHECK(refusal("GET  / HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/2.0\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\nHost: x\n\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == Errc::invalid_request);
    // Which of two is meant depends on the reader: a proxy may have checked the other field.
    for (const std::string field : {"Origin: https://a.example\r\n", "Authorization: Bearer k\r\n"}) {
        RequestParser parser(k_limits);
        CHECK(feed_all(parser, "GET / HTTP/1.1\r\nHost: a\r\n" + field + "\r\n", 4096).has_value());
        CHECK(refusal("GET / HTTP/1.1\r\nHost: a\r\n" + field + field + "\r\n") == Errc::invalid_request);
    }
    CHECK(refusal("GET relative HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET /\xC3\xA9 HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET / HTTP/1.1\r\nHost: x\r\nExpect: payment\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("\x16\x03\x01\x02") == Errc::invalid_request);  // a TLS hello
}

TEST_CASE("an absolute target names the host") {
    RequestParser parser(k_limits);
    REQUIRE(parser.feed("GET http://real.example:80/path?q HTTP/1.1\r\nHost: other\r\n\r\n").has_value());
    CHECK(parser.request().authority == "real.example:80");
    CHECK(parser.request().path == "/path");
    CHECK(parser.request().query == "q");
    parser.reset();
    REQUIRE(parser.feed("GET HTTP://real.example HTTP/1.1\r\nHost: other\r\n\r\n").has_value());
    CHECK(parser.request().authority == "real.example");
    CHECK(parser.request().path == "/");
    CHECK_FALSE(parser.request().has_query);
    parser.reset();
    REQUIRE(parser.feed("GET /? HTTP/1.1\r\nHost: other\r\n\r\n").has_value());
    CHECK(parser.request().path == "/");
    CHECK(parser.request().has_query);
    CHECK(parser.request().query.empty());
    parser.reset();
    REQUIRE(parser.feed("GET http://real.example?q HTTP/1.1\r\nHost: other\r\n\r\n").has_value());
    CHECK(parser.request().path == "/");
    CHECK(parser.request().query == "q");
    CHECK(refusal("GET http:///path HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("GET http:// HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
}

TEST_CASE("the target of OPTIONS alone may be the whole server") {
    RequestParser parser(k_limits);
    REQUIRE(parser.feed("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").has_value());
    CHECK(parser.request().path == "*");
    CHECK(parser.request().query.empty());
    CHECK(parser.request().authority == "x");
    CHECK(refusal("GET * HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
    CHECK(refusal("OPTIONS *x HTTP/1.1\r\nHost: x\r\n\r\n") == Errc::invalid_request);
}

TEST_CASE("a head over its cap is refused however it is cut") {
    const auto step = GENERATE(1U, 100U, 4096U);
    CHECK(refusal("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", step) ==
          Errc::target_too_long);
    CHECK(refusal("\r\n\r\nGET /" + std::string(2000, 'a'), step) == Errc::target_too_long);
    CHECK(refusal("GET /" + std::string(1005, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", step) ==
          Errc::header_too_large);
    CHECK(refusal("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(2000, 'a') + "\r\n\r\n", step) ==
          Errc::header_too_large);
    std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
    for (int i = 0; i < 200; ++i)
        many += "Name-" + std::to_string(i) + ": value\r\n";
    CHECK(refusal(many + "\r\n", step) == Errc::header_too_large);
}

TEST_CASE("a chunk line or trailer that never ends is refused") {
    const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    CHECK(refusal(head + "3;" + std::string(4000, 'a'), 10) == Errc::header_too_large);
    CHECK(refusal(head + "0\r\nA: " + std::string(4000, 'a'), 10) == Errc::header_too_large);
}

TEST_CASE("a chunk line or trailers over the cap are refused however they are cut") {
    const auto step = GENERATE(1U, 1000U, 8192U);
    const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    CHECK(refusal(head + "3;" + std::string(1100, 'a') + "\r\nabc\r\n0\r\n\r\n", step) ==
          Errc::header_too_large);
    CHECK(refusal(head + "0\r\nA: " + std::string(1100, 'a') + "\r\n\r\n", step) == Errc::header_too_large);
    RequestParser parser(k_limits);
    const std::string fits = head + "3;" + std::string(900, 'a') + "\r\nabc\r\n0\r\n\r\n";
    CHECK(feed_all(parser, fits, step).value() == fits.size());
}

namespace {

struct Streamed {
    std::string body;
    bool done = false;
    std::optional<Errc> refusal;
    std::size_t left = 0;  // bytes behind the message
};

// Reads a message whose body is streamed, in pieces of `step`, into a room of `room_bytes`.
Streamed stream_all(std::string_view bytes, std::size_t step, std::size_t room_bytes) {
    RequestParser parser(k_limits);
    Streamed seen;
    std::string kept;
    std::string room(room_bytes, ' ');
    while (!parser.done() && !bytes.empty()) {
        kept += bytes.substr(0, step);
        bytes.remove_prefix(std::min(step, bytes.size()));
        if (!parser.head_done()) {
            kept.erase(0, parser.feed(kept).value());
            if (!parser.head_done())
                continue;
            parser.stream_body();
        }
        for (;;) {
            const auto fed = parser.feed_body(kept, room);
            if (fed.has_error()) {
                seen.refusal = fed.error().code();
                CHECK_FALSE(parser.done());
                return seen;
            }
            kept.erase(0, fed->used);
            seen.body.append(room, 0, fed->written);
            CHECK(fed->written <= room_bytes);
            if (fed->written == 0)
                break;
        }
    }
    CHECK(parser.request().body.empty());
    seen.done = parser.done();
    seen.left = kept.size() + bytes.size();
    return seen;
}

const std::string k_post = "POST / HTTP/1.1\r\nHost: x\r\n";

}  // namespace

TEST_CASE("a streamed body comes in pieces, of any length, and ends where a collected one does") {
    const auto step = GENERATE(1U, 7U, 1000U, 100'000U);
    const auto room = GENERATE(1U, 5U, 512U, 4096U);
    const std::string text(20'000, 'y');
    const auto length = stream_all(k_post + "Content-Length: 20000\r\n\r\n" + text + "GET", step, room);
    CHECK(length.done);
    CHECK(length.body == text);
    CHECK((step < 1000 || length.left == 3));
    const auto chunks = stream_all(k_post + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n4e20;a=b\r\n" +
                                       text + "\r\n0\r\nTrailer: t\r\n\r\n",
                                   step, room);
    CHECK(chunks.done);
    CHECK(chunks.body == "abcde" + text);
    CHECK(chunks.left == 0);
}

TEST_CASE("what has come of a chunk is handed out, however little it is") {
    RequestParser parser(k_limits);
    REQUIRE(parser.feed(k_post + "Transfer-Encoding: chunked\r\n\r\n").has_value());
    parser.stream_body();
    std::string room(10, ' ');
    CHECK(parser.feed_body("3\r\nab", room).value().written == 2);
    CHECK(parser.feed_body("c", room).value().written == 1);
    CHECK(parser.feed_body("\r\n", room).value().used == 0);
    std::string end = "\r\n0\r\n\r\n";
    for (int i = 0; i < 3 && !parser.done(); ++i)
        end.erase(0, parser.feed_body(end, room).value().used);
    CHECK(end.empty());
    CHECK(parser.done());
}

TEST_CASE("a streamed body that is malformed is refused") {
    const auto step = GENERATE(1U, 4096U);
    const std::string chunked = k_post + "Transfer-Encoding: chunked\r\n\r\n";
    CHECK(stream_all(chunked + "3\r\nabc\r\nzz\r\nxxxxxx", step, 100).refusal == Errc::invalid_request);
    CHECK(stream_all(chunked + "3\r\nabcdefgh", step, 100).refusal == Errc::invalid_request);
    CHECK(stream_all(chunked + "3;" + std::string(4000, 'a'), step, 100).refusal == Errc::header_too_large);
    CHECK(stream_all(chunked + "0\r\nA: " + std::string(4000, 'a'), step, 100).refusal ==
          Errc::header_too_large);
}

TEST_CASE("the cap on a body is set behind its head") {
    const std::string head = k_post + "Content-Length: 200\r\n\r\n";
    for (const std::size_t cap : {199U, 200U}) {
        RequestParser parser(k_limits);
        REQUIRE(parser.feed(head).has_value());
        parser.set_body_limit(cap);
        CHECK(parser.feed(std::string(200, 'a')).has_value() == (cap == 200));
    }
}

TEST_CASE("a body over its cap is refused, its announced length told before") {
    RequestParser parser(k_limits);
    const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n";
    REQUIRE(parser.feed(head).has_value());
    REQUIRE(parser.head_done());
    CHECK(parser.content_length() == 101U);
    CHECK(parser.feed(std::string(101, 'a')).error().code() == Errc::body_too_large);
}

TEST_CASE("what a request says about its connection is understood") {
    const auto keeps = [](const std::string& head) {
        RequestParser parser(k_limits);
        REQUIRE(parser.feed(head).has_value());
        REQUIRE(parser.done());
        return parser.wants_keep_alive();
    };
    CHECK(keeps("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK_FALSE(keeps("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    CHECK_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
    CHECK(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST_CASE("a proxy takes CONNECT and absolute http: targets, and nothing else") {
    constexpr ParserLimits k_of_proxy{1024, 100, TargetForms::of_proxy};
    const auto step = GENERATE(1U, 5U, 4096U);
    RequestParser parser(k_of_proxy);
    const std::string_view connect = "CONNECT a.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    CHECK(feed_all(parser, connect, step).value() == connect.size());
    REQUIRE(parser.done());
    CHECK(parser.request().method_text == "CONNECT");
    CHECK(parser.request().authority == "a.example:443");
    CHECK(parser.request().path.empty());
    parser.reset();
    const std::string_view absolute = "GET HTTP://a.example:80?x HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    CHECK(feed_all(parser, absolute, step).value() == absolute.size());
    REQUIRE(parser.done());
    CHECK(parser.request().authority == "a.example:80");
    CHECK(parser.request().path == "/");
    CHECK(parser.request().query == "x");
    for (const auto& [target, path] :
         {std::pair("OPTIONS http://a.example", "*"), std::pair("OPTIONS http://a.example/", "/"),
          std::pair("GET http://a.example", "/")}) {
        INFO(target);
        parser.reset();
        REQUIRE(feed_all(parser, std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n", step).has_value());
        CHECK(parser.request().path == path);
    }
    for (const std::string target :
         {"GET /", "GET *", "OPTIONS *", "GET a.example:443", "GET https://a.example/", "GET http://",
          "GET http:///x", "GET ftp://a.example/"}) {
        INFO(target);
        parser.reset();
        CHECK(feed_all(parser, target + " HTTP/1.1\r\nHost: a.example\r\n\r\n", step).has_error());
    }
    for (const std::string field : {"Content-Length: 0", "Transfer-Encoding: chunked"}) {
        INFO(field);
        parser.reset();
        CHECK(feed_all(parser, "CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n" + field + "\r\n\r\n", step)
                  .has_error());
    }
}

}  // namespace request_parser_test
