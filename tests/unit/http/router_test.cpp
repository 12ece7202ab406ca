#include "http/server/router.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace router_test {

using namespace atl::http;

namespace {

atl::base::Task<atl::base::Result<Response>> async_nothing(RequestContext&) {
    co_return Response{};
}

Router sample() {
    std::vector<Route> routes;
    routes.push_back({Method::get, "/v1/things", "list", "", async_nothing});
    routes.push_back({Method::post, "/v1/things", "create", "", async_nothing});
    routes.push_back({Method::get, "/v1/things/{id}", "get", "", async_nothing});
    routes.push_back({Method::delete_, "/v1/things/{id}", "remove", "", async_nothing});
    routes.push_back({Method::post, "/v1/things/{id}/parts/{part}", "act", "", async_nothing});
    return Router(std::move(routes));
}

}  // namespace

TEST_CASE("a path finds its route and its parameters, decoded") {
    const auto router = sample();
    CHECK(router.match(Method::get, "/v1/things").route->name == "list");
    CHECK(router.match(Method::post, "/v1/things").route->name == "create");
    const auto match = router.match(Method::post, "/v1/things/a%2Fb/parts/c");
    REQUIRE(match.route != nullptr);
    CHECK(match.params ==
          std::vector<std::pair<std::string_view, std::string>>{{"id", "a/b"}, {"part", "c"}});
    CHECK(router.match(Method::get, "/v1/things/%ff").malformed);
    CHECK(router.match(Method::get, "/v1/things/%2").malformed);
}

TEST_CASE("HEAD is answered where GET is") {
    CHECK(sample().match(Method::head, "/v1/things").route->name == "list");
}

TEST_CASE("another method is told from another path") {
    const auto router = sample();
    const auto other = router.match(Method::put, "/v1/things/x");
    CHECK(other.route == nullptr);
    CHECK(other.allow == "GET, HEAD, DELETE");
    for (const char* path :
         {"/", "/v1", "/v1/things/", "/v1/things/x/", "/v1/things/x/parts", "//v1/things", "/V1/things"}) {
        INFO(path);
        const auto none = router.match(Method::get, path);
        CHECK(none.route == nullptr);
        CHECK(none.allow.empty());
    }
}

TEST_CASE("a table with the same route twice is refused") {
    std::vector<Route> routes;
    routes.push_back({Method::get, "/a", "one", "", async_nothing});
    routes.push_back({Method::get, "/a", "two", "", async_nothing});
    CHECK_THROWS(Router(std::move(routes)));
}

namespace {

Router files() {
    std::vector<Route> routes;
    routes.push_back({Method::get, "/{all...}", "rest", "", async_nothing});
    routes.push_back({Method::get, "/boxes/{id}/files/{path...}", "read", "", async_nothing});
    routes.push_back({Method::put, "/boxes/{id}/files/{path...}", "write", "", async_nothing});
    routes.push_back({Method::get, "/boxes/{id}/files/stat", "stat", "", async_nothing});
    routes.push_back({Method::get, "/boxes/{id}", "box", "", async_nothing});
    return Router(std::move(routes));
}

std::string tail(std::string_view path) {
    const auto router = files();
    const auto match = router.match(Method::get, path);
    REQUIRE(match.route != nullptr);
    CHECK(match.route->name == "read");
    CHECK_FALSE(match.malformed);
    REQUIRE(match.params.size() == 2);
    CHECK(match.params[0].second == "b");
    CHECK(match.params[1].first == "path");
    return match.params[1].second;
}

}  // namespace

TEST_CASE("a last parameter that spans segments is the rest of the path, decoded once into bytes") {
    CHECK(tail("/boxes/b/files/a") == "a");
    CHECK(tail("/boxes/b/files/a/b%20c/d") == "a/b c/d");
    CHECK(tail("/boxes/b/files/") == "");
    CHECK(tail("/boxes/b/files") == "");
    CHECK(tail("/boxes/b/files/a/") == "a/");
    CHECK(tail("/boxes/b/files//a//b") == "/a//b");
    CHECK(tail("/boxes/b/files/a%2Fb%2f..") == "a/b/..");
    CHECK(tail("/boxes/b/files/../../etc/./passwd") == "../../etc/./passwd");
    CHECK(tail("/boxes/b/files/%252e") == "%2e");
    CHECK(tail("/boxes/b/files/%ff%c3") == "\xff\xc3");
}

TEST_CASE("the rest of a path with a NUL or a broken escape is refused") {
    for (const char* path : {"/boxes/b/files/a%00b", "/boxes/b/files/%00", "/boxes/b/files/%0",
                             "/boxes/b/files/a/%zz", "/boxes/%ff/files/a"}) {
        INFO(path);
        CHECK(files().match(Method::get, path).malformed);
    }
}

TEST_CASE("other patterns come before one that spans segments, and a longer one before a shorter one") {
    const auto router = files();
    CHECK(router.match(Method::get, "/boxes/b/files/stat").route->name == "stat");
    CHECK(router.match(Method::put, "/boxes/b/files/stat").route->name == "write");
    CHECK(router.match(Method::get, "/boxes/b/files/stat/").route->name == "read");
    CHECK(router.match(Method::get, "/boxes/b").route->name == "box");
    CHECK(router.match(Method::get, "/boxes/b/filesx").route->name == "rest");
    CHECK(router.match(Method::get, "/boxes//files/a").route->name == "rest");
    CHECK(router.match(Method::get, "/").route->name == "rest");
    const auto other = router.match(Method::post, "/boxes/b/files/stat");
    CHECK(other.route == nullptr);
    CHECK(other.allow == "GET, HEAD, PUT");
}

TEST_CASE("a table whose spanning parameter is not the last, or stands for another one, is refused") {
    std::vector<Route> middle;
    middle.push_back({Method::get, "/a/{b...}/c", "one", "", async_nothing});
    CHECK_THROWS(Router(std::move(middle)));
    std::vector<Route> twice;
    twice.push_back({Method::get, "/a/{b}", "one", "", async_nothing});
    twice.push_back({Method::get, "/a/{b...}", "two", "", async_nothing});
    CHECK_THROWS(Router(std::move(twice)));
}

TEST_CASE("an event stream is sent only to those who name it") {
    CHECK(preferred_media("") == MediaType::json);
    CHECK(preferred_media("*/*") == MediaType::json);
    CHECK(preferred_media("application/json") == MediaType::json);
    CHECK(preferred_media("text/event-stream") == MediaType::event_stream);
    CHECK(preferred_media("Text/Event-Stream; charset=utf-8") == MediaType::event_stream);
    CHECK(preferred_media("application/json, text/event-stream") == MediaType::event_stream);
    CHECK(preferred_media("application/json, text/event-stream;q=0.5") == MediaType::json);
    CHECK(preferred_media("application/json;q=0.4, text/event-stream;q=0.5") == MediaType::event_stream);
    CHECK(preferred_media("text/event-stream;q=0") == MediaType::json);
    // The largest weight of a type that is named twice counts.
    CHECK(preferred_media("text/event-stream, application/json;q=0.5, text/event-stream;q=0.1") ==
          MediaType::event_stream);
    CHECK(preferred_media("text/html,application/xhtml+xml,*/*;q=0.8") == MediaType::json);
}

}  // namespace router_test
