#include "http/server/problem.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "http/wire/json_reader.hpp"

using namespace atl::http;
using atl::base::Errc;
using atl::base::Error;

TEST_CASE("every error has a status with a reason phrase, and a code of its own") {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto code = static_cast<Errc>(i);
        INFO(code_name(code));
        CHECK(status_of(code) >= 400);
        CHECK_FALSE(reason_phrase(status_of(code)).empty());
        names.emplace_back(code_name(code));
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("clients can rely on these statuses") {
    CHECK(status_of(Errc::invalid_json) == 400);
    CHECK(status_of(Errc::unknown_field) == 422);
    CHECK(status_of(Errc::unauthorized) == 401);
    CHECK(status_of(Errc::turn_in_progress) == 409);
    CHECK(status_of(Errc::seq_expired) == 410);
    CHECK(status_of(Errc::sandbox_failed) == 503);
    CHECK(status_of(Errc::capacity) == 503);
    CHECK(status_of(Errc::too_many_requests) == 429);
    CHECK(status_of(Errc::target_too_long) == 414);
}

TEST_CASE("a problem tells title, status, detail, code and request") {
    const auto response = problem(Error(Errc::unknown_field, "There is no field `x\xFF` here."), "req-1");
    CHECK(response.status == 422);
    CHECK(response.content_type == "application/problem+json");
    const auto body = parse_json(response.body);
    REQUIRE(body.has_value());
    CHECK((*body)["title"] == "Unprocessable Content");
    CHECK((*body)["status"] == 422);
    CHECK((*body)["code"] == "unknown_field");
    CHECK((*body)["requestId"] == "req-1");
    CHECK((*body)["detail"].get<std::string>().starts_with("There is no field"));
}

TEST_CASE("a full server says when to come again, a missing key how to send it") {
    const auto has = [](const Response& response, std::string_view name) {
        return std::any_of(response.headers.begin(), response.headers.end(),
                           [&](const auto& header) { return header.first == name; });
    };
    CHECK(has(problem(Error(Errc::capacity), "r"), "Retry-After"));
    CHECK(has(problem(Error(Errc::too_many_streams), "r"), "Retry-After"));
    const auto soon = problem(Error(Errc::too_many_requests, "Wait.", std::chrono::seconds(7)), "r");
    CHECK(soon.headers.back() == std::pair<std::string_view, std::string>("Retry-After", "7"));
    CHECK(has(problem(Error(Errc::unauthorized), "r"), "WWW-Authenticate"));
    CHECK_FALSE(has(problem(Error(Errc::not_found), "r"), "Retry-After"));
}
