#include "http/server/router.hpp"

#include <catch2/catch_test_macros.hpp>

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
    CHECK(preferred_media("text/html,application/xhtml+xml,*/*;q=0.8") == MediaType::json);
}
