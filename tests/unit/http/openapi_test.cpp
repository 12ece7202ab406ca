#include "http/api/openapi.hpp"

#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"

using namespace atl::http;

namespace {

atl::base::Task<atl::base::Result<Response>> async_nothing(RequestContext&) {
    co_return Response{};
}

Json document() {
    std::vector<Route> routes;
    routes.push_back({Method::get, "/", "root", "", async_nothing});
    routes.push_back({Method::put, "/boxes/{id}/files/{path...}", "write", "", async_nothing});
    routes.back().body = BodyKind::stream;
    routes.push_back({Method::post, "/boxes", "make", "", async_nothing});
    routes.back().body = BodyKind::optional_json;
    routes.back().request_schema = "AnyObject";
    return parse_json(openapi_document(routes, "1")).value();
}

}  // namespace

TEST_CASE("a parameter that spans segments is told as a plain one with a description") {
    const auto paths = document()["paths"];
    REQUIRE(paths.contains("/boxes/{id}/files/{path}"));
    const auto& parameters = paths["/boxes/{id}/files/{path}"]["put"]["parameters"];
    REQUIRE(parameters.size() == 2);
    CHECK_FALSE(parameters[0].contains("description"));
    CHECK(parameters[1]["name"] == "path");
    CHECK(parameters[1]["in"] == "path");
    CHECK(parameters[1]["required"] == true);
    CHECK(parameters[1]["description"].get<std::string>().find("slashes") != std::string::npos);
    CHECK(paths.contains("/"));
}

TEST_CASE("a body that streams is told as bytes, and gives no error of JSON") {
    const auto paths = document()["paths"];
    const auto& write = paths["/boxes/{id}/files/{path}"]["put"];
    CHECK(write["requestBody"]["content"].contains("application/octet-stream"));
    CHECK(write["responses"]["400"]["description"].get<std::string>().find("invalid_json") ==
          std::string::npos);
    const auto& make = paths["/boxes"]["post"];
    CHECK(make["requestBody"]["required"] == false);
    CHECK(make["responses"]["400"]["description"].get<std::string>().find("invalid_json") !=
          std::string::npos);
}
