// Answers as servers really write them: what is certain is read, what is not is refused, and the refusal says
// why.
#include "http/wire/response_parser.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/base/preview_times.hpp"

namespace response_parser_test {

using namespace atl;

namespace {

// The status, the fields, the body and the trailers of one answer, or why it is refused.
std::string read(std::string_view answer, std::size_t piece_bytes, bool to_head = false) {
    http::ResponseParser parser(base::k_max_answer_head_bytes);
    parser.begin(to_head);
    std::string body;
    for (std::string_view rest = answer; !rest.empty() && !parser.done();) {
        const auto piece = rest.substr(0, piece_bytes);
        const auto used =
            parser.head_done() ? parser.feed_body(piece, body, piece.size()) : parser.feed_head(piece);
        if (used.has_error())
            return used.error().detail();
        if (*used == 0)
            return "stuck";
        rest.remove_prefix(*used);
    }
    if (const auto ended = parser.end_input(); ended.has_error())
        return ended.error().detail();
    std::string text = std::to_string(parser.status()) + '|' + std::string(parser.reason());
    for (const auto& [name, value] : parser.fields())
        text.append("|").append(name).append("=").append(value);
    text.append("|").append(body);
    for (const auto& [name, value] : parser.trailers())
        text.append("|").append(name).append("=").append(value);
    return text;
}

}  // namespace

TEST_CASE("response parser: the forms that browsers and curl read are read, however their bytes come") {
    const auto [answer, expected] = GENERATE(table<std::string, std::string>({
        {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200||Content-Length=2|ok"},
        {"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", "200||Content-Length=2|ok"},
        {"HTTP/1.1 404 Nicht da\xc3\xa4\nContent-Length: 2\n\nok",
         "404|Nicht da\xc3\xa4|Content-Length=2|ok"},
        {"HTTP/1.0 200 OK\nA: b\r\n\nto its end\r\n", "200|OK|A=b|to its end\r\n"},
        {"HTTP/1.1 200 OK\r\nA: b \r\n \t c\r\n\td\r\n \r\nContent-Length:\r\n 0\r\n\r\n",
         "200|OK|A=b c d|Content-Length=0|"},
        {"HTTP/1.1 200 OK\r\nA \t:b\r\nB:\r\nContent-Length: 0\r\n\r\n", "200|OK|A=b|B=|Content-Length=0|"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
         "200|OK|Content-Length=2|Content-Length=2|ok"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2, 02\r\n\r\nok", "200|OK|Content-Length=2, 02|ok"},
        {"HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n2;a=b\nok\n3 \r\nmor\r\n0\nX: y\n z\n\n",
         "200|OK|Transfer-Encoding=Chunked|okmor|X=y z"},
        {"HTTP/1.1 101\nUpgrade: websocket\n\n", "101||Upgrade=websocket|"},
        {"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok", "200|OK|Content-Length=2|ok"},
        {"HTTP/1.1 \t200\t  Very good \r\nContent-Length: 2\r\n\r\nok", "200|Very good|Content-Length=2|ok"},
        {"http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200|OK|Content-Length=2|ok"},
        {"Http/1.0 200\r\n\r\nto its end", "200||to its end"},
        {"HTTP/1.1 200 OK\r\nFoo Bar: x\r\n y\r\nA(b): x\r\n: x\r\nL\xc3\xa4nge: 5\r\nContent-Length: "
         "2\r\n\r\nok",
         "200|OK|Content-Length=2|ok"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nFoo Bar: x\r\nX: y\r\n\r\n",
         "200|OK|Transfer-Encoding=chunked||X=y"},
    }));
    const std::size_t piece_bytes = GENERATE(1, 2, 3, 1'000);
    CAPTURE(answer, piece_bytes);
    CHECK(read(answer, piece_bytes) == expected);
}

TEST_CASE("response parser: what two readers could understand differently is refused with its own sentence") {
    const auto [answer, why] = GENERATE(table<std::string, std::string>({
        {"200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two Content-Lengths that differ"},
        {"200 OK\r\nContent-Length: 1, 2\r\n\r\n", "two Content-Lengths that differ"},
        {"200 OK\r\nContent-Length: 1,\r\n\r\n", "no decimal number"},
        {"200 OK\r\nContent-Length: +1\r\n\r\n", "no decimal number"},
        {"200 OK\r\nContent-Length:\r\n\r\n", "no decimal number"},
        {"200 OK\r\nContent-Length: 1\r\n 2\r\n\r\n", "no decimal number"},
        {"200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "together with"},
        {"200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "another Transfer-Encoding"},
        {"200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "another Transfer-Encoding"},
        {"200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "another Transfer-Encoding"},
        {"200 OK\r\nA: b\rContent-Length: 1\r\n\r\n", "a bare CR"},
        {"200 OK\r\nA: b\r\r\n\r\n", "a bare CR"},
        {std::string("200 OK\r\nA: b\0c\r\n\r\n", 18), "a NUL"},
        {"200 OK\r\n A: b\r\n\r\n", "has not begun"},
        {"200 OK\r\nA\r\n : b\r\n\r\n", "has not begun"},
        {"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 1\r\n\r\n", "trailers"},
        {"200 OK\r\nContent-Length : 1\r\n\r\n", "resembles"},
        {"200 OK\r\nContent-Length\t: 1\r\n\r\n", "resembles"},
        {"200 OK\r\nTransfer-Encoding : chunked\r\n\r\n", "resembles"},
        {"200 OK\r\nTransfer Encoding: chunked\r\n\r\n", "resembles"},
        {"200 OK\r\ncontent length: 1\r\n\r\n", "resembles"},
        {"200 OK\r\nContent\xe2\x80\x90Length: 1\r\n\r\n", "resembles"},
        {"200 OK\r\n\x01Transfer-\x0b"
         "Encoding: chunked\r\n\r\n",
         "resembles"},
        {"200 OK\r\nX (Content-Length): 1\r\n\r\n", "resembles"},
        {"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent Length: 1\r\n\r\n", "resembles"},
    }));
    const std::size_t piece_bytes = GENERATE(1, 1'000);
    CAPTURE(answer, piece_bytes);
    const std::string told = read("HTTP/1.1 " + answer, piece_bytes);
    CHECK(told.find("read in more than one way") != std::string::npos);
    CHECK(told.find(why) != std::string::npos);
}

TEST_CASE("response parser: what is no answer of HTTP/1.1 is refused at the first byte that shows it") {
    const std::string answer = GENERATE(
        "SSH", "HTTP/2", "\r\n", "\x15\x03\x01", "HTTP/1.1 20\r\n", "HTTP/1.1 099 No\r\n",
        "HTTP/1.1 200OK\r\n", "HTTP/1.1200 OK\r\n", "HTTP/1.1 2 00 OK\r\n", " HTTP/1.1 200 OK\r\n",
        "HTTP /1.1 200 OK\r\n", "HTTP/1.1\v200 OK\r\n", "HTTP/1.10 200 OK\r\n", "HTTP/1.\r\n", "HTTP/1.1\r\n",
        "HTTP/1.1 \r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.2 200 OK\r\n", "HTTP/1.1 200 O\x01K\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\nBad Name: \x7f\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11112222333344445\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokx");
    CAPTURE(answer);
    const std::string told = read(answer, GENERATE(1, 1'000));
    CHECK(told.find("does not speak HTTP/1.1") != std::string::npos);
    CHECK(told.find("before the answer was complete") == std::string::npos);
}

TEST_CASE("response parser: a head has 64 KiB and 1024 fields, and the refusal names them") {
    const std::string begin = "HTTP/1.1 204 No Content\r\nA: ";
    const std::string end = "\r\n\r\n";
    const std::size_t piece_bytes = GENERATE(1'000, 100'000);
    const std::string filler(base::k_max_answer_head_bytes - begin.size() - end.size(), 'x');
    CHECK(read(begin + filler + end, piece_bytes) == "204|No Content|A=" + filler + '|');
    CHECK(read(begin + filler + 'x' + end, piece_bytes) ==
          "The answer from inside the sandbox has a head of more than 64 KiB, the most that a preview passes "
          "on.");
    std::string many = "HTTP/1.1 204 No Content\r\n";
    for (std::size_t i = 0; i < base::k_max_answer_fields; ++i)
        many += "A: b\r\n";
    CHECK(read(many + "\r\n", piece_bytes).starts_with("204|"));
    CHECK(read(many + "A: b\r\n\r\n", piece_bytes) ==
          "The answer from inside the sandbox has more than 1024 fields, the most that a preview passes on.");
}

TEST_CASE("response parser: a connection is used again where the answer lets it") {
    const auto [head, keeps] = GENERATE(table<std::string, bool>({
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
        {"HTTP/1.1 200 OK\nContent-Length: 0\nConnection: x, Close\n\n", false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\n\r\n", false},
    }));
    CAPTURE(head);
    http::ResponseParser parser(base::k_max_answer_head_bytes);
    parser.begin(false);
    const auto used = parser.feed_head(head);
    REQUIRE(used.has_value());
    CHECK(*used == head.size());
    CHECK(parser.keeps_alive() == keeps);
}

}  // namespace response_parser_test
