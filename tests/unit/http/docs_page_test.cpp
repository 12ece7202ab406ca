#include <catch2/catch_test_macros.hpp>

#include "http/api/docs_page.hpp"
#include "http/api/openapi.hpp"
#include "http/server/problem.hpp"

namespace docs_page_test {

using namespace atl::http;
using atl::base::Errc;

TEST_CASE("the page for people has each route, schema and error, and its text is no markup") {
    std::vector<Route> routes(1);
    routes[0].pattern = "/v1/system";
    routes[0].name = "getSystem";
    routes[0].summary = "Tells `x` & <script>.";
    routes[0].responses = {{200, "The answer.", "System"}};
    routes[0].auth = Auth::open;
    const std::string page = docs_page(openapi_document(routes, "7"));
    const auto has = [&page](const std::string& text) { return page.find(text) != std::string::npos; };
    CHECK(has("<h1>Atoll API 7</h1>"));
    CHECK(has("<h3 id=\"getSystem\"><code>GET /v1/system</code></h3>"));
    CHECK(has("<p>Tells <code>x</code> &amp; &lt;script&gt;."));
    CHECK_FALSE(has("<script"));
    CHECK(has("<h3 id=\"TurnStartEvent\">"));
    CHECK(has("<code>data.content</code>"));
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const std::string type = problem_type(static_cast<Errc>(i));
        INFO(type);
        REQUIRE(type.starts_with("/docs#"));
        CHECK(has("<h3 id=\"" + type.substr(6) + "\">"));
    }
}

TEST_CASE("the page is served as one that may run nothing") {
    const Route route = docs_route(std::make_shared<const std::string>("<!doctype html>"));
    CHECK(route.pattern == "/docs");
    CHECK(route.auth == Auth::open);
    CHECK(route.responses.front().media_type == "text/html; charset=utf-8");
}

}  // namespace docs_page_test
