#include "http/wire/byte_range.hpp"

#include <catch2/catch_test_macros.hpp>

namespace byte_range_test {

using namespace atl::http;

namespace {

constexpr std::uint64_t k_size = 1000;
constexpr std::string_view k_etag = "\"tag\"";

using Kind = ByteRange::Kind;

ByteRange choose(std::string_view range, std::string_view if_range = {}, Method method = Method::get,
                 std::uint64_t size = k_size) {
    Request request;
    request.method = method;
    request.fields = {{"Range", range}};
    if (!if_range.empty())
        request.fields.push_back({"If-Range", if_range});
    return choose_range(request, size, k_etag);
}

void check_part(std::string_view range, std::uint64_t offset, std::uint64_t length) {
    INFO(range);
    const auto chosen = choose(range);
    CHECK(chosen.kind == Kind::part);
    CHECK(chosen.offset == offset);
    CHECK(chosen.length == length);
}

}  // namespace

TEST_CASE("one range of bytes is a part") {
    check_part("bytes=0-0", 0, 1);
    check_part("bytes=0-499", 0, 500);
    check_part("bytes=500-", 500, 500);
    check_part("bytes=999-999", 999, 1);
    check_part("bytes=0-", 0, 1000);
    check_part("bytes=-1", 999, 1);
    check_part("bytes=-1000", 0, 1000);
    check_part("Bytes=1-2", 1, 2);
    check_part("bytes= 1-2 ", 1, 2);
}

TEST_CASE("a range that goes beyond the end ends there") {
    check_part("bytes=900-1000", 900, 100);
    check_part("bytes=0-99999999999999999999999", 0, 1000);
    check_part("bytes=-1001", 0, 1000);
    check_part("bytes=-99999999999999999999999", 0, 1000);
}

TEST_CASE("a range that begins at the end or has no bytes cannot be had") {
    for (const auto* range :
         {"bytes=1000-", "bytes=1000-1001", "bytes=99999999999999999999999-", "bytes=-0"}) {
        INFO(range);
        CHECK(choose(range).kind == Kind::unsatisfiable);
        CHECK(choose(range).length == 0);
    }
}

TEST_CASE("several ranges and what is none get the whole") {
    for (const auto* range : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=0-1,3-4",
                              "bytes=,0-1", "lines=0-1", "bytes 0-1", "bytes=1", "bytes=+1-2", "bytes=0x1-2",
                              "bytes=--1", "bytes=1-2-3", "bytes=1 - 2"}) {
        INFO(range);
        const auto chosen = choose(range);
        CHECK(chosen.kind == Kind::whole);
        CHECK(chosen.length == k_size);
    }
    Request twice;
    twice.method = Method::get;
    twice.fields = {{"Range", "bytes=0-1"}, {"Range", "bytes=0-1"}};
    CHECK(choose_range(twice, k_size, k_etag).kind == Kind::whole);
    CHECK(choose_range(Request{}, k_size, k_etag).kind == Kind::whole);
}

TEST_CASE("only GET has ranges, and an empty representation has none") {
    CHECK(choose("bytes=0-1", {}, Method::head).kind == Kind::whole);
    CHECK(choose("bytes=0-1", {}, Method::post).kind == Kind::whole);
    CHECK(choose("bytes=0-", {}, Method::get, 0).kind == Kind::whole);
    CHECK(choose("bytes=-5", {}, Method::get, 0).kind == Kind::whole);
}

TEST_CASE("If-Range holds for the same strong tag alone") {
    CHECK(choose("bytes=0-1", "\"tag\"").kind == Kind::part);
    for (const auto* condition : {"\"other\"", "W/\"tag\"", "tag", "\"", "Sun, 06 Nov 1994 08:49:37 GMT"}) {
        INFO(condition);
        CHECK(choose("bytes=0-1", condition).kind == Kind::whole);
    }
    Request request;
    request.method = Method::get;
    request.fields = {{"Range", "bytes=0-1"}, {"If-Range", "W/\"tag\""}};
    CHECK(choose_range(request, k_size, "W/\"tag\"").kind == Kind::whole);
}

TEST_CASE("the fields of a response tell its range") {
    Response part;
    set_range(part, {Kind::part, 10, 5}, 100);
    CHECK(part.status == 206);
    CHECK(part.length == 5U);
    CHECK(part.headers.back() ==
          std::pair<std::string_view, std::string>("Content-Range", "bytes 10-14/100"));
    Response none;
    set_range(none, {Kind::unsatisfiable}, 100);
    CHECK(none.status == 416);
    CHECK_FALSE(none.length.has_value());
    CHECK_FALSE(none.content_type.empty());
    CHECK(none.headers.back() == std::pair<std::string_view, std::string>("Content-Range", "bytes */100"));
    Response whole;
    set_range(whole, {Kind::whole, 0, 100}, 100);
    CHECK(whole.status == 200);
    CHECK(whole.length == 100U);
    CHECK(whole.headers.size() == 1);
}

}  // namespace byte_range_test
