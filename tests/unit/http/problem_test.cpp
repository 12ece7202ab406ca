#include "http/server/problem.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <map>

#include "http/wire/json_reader.hpp"
#include "tests/support/paths.hpp"

namespace problem_test {

using namespace atl::http;
using atl::base::Errc;
using atl::base::Error;

TEST_CASE("every error has a status with a reason phrase, and a code of its own") {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto code = static_cast<Errc>(i);
        INFO(code_name(code));
        CHECK(status_of(code) >= 400);
        CHECK(reason_phrase(status_of(code)) != "<unknown-status>");
        names.emplace_back(code_name(code));
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("titles of problems are the reason phrases of RFC 9110") {
    const auto title_of = [](Errc code) { return Json::parse(problem(Error(code), "1").body)["title"]; };
    CHECK(title_of(Errc::body_too_large) == "Content Too Large");
    CHECK(title_of(Errc::invalid_field) == "Unprocessable Content");
    CHECK(title_of(Errc::target_too_long) == "URI Too Long");
    CHECK(title_of(Errc::range_not_satisfiable) == "Range Not Satisfiable");
    CHECK(title_of(Errc::header_too_large) == "Request Header Fields Too Large");
    CHECK(title_of(Errc::disk_full) == "Insufficient Storage");
}

TEST_CASE("clients can rely on these statuses") {
    CHECK(status_of(Errc::invalid_json) == 400);
    CHECK(status_of(Errc::unknown_field) == 422);
    CHECK(status_of(Errc::unauthorized) == 401);
    CHECK(status_of(Errc::turn_in_progress) == 409);
    CHECK(status_of(Errc::seq_expired) == 410);
    CHECK(status_of(Errc::sandbox_failed) == 503);
    CHECK(status_of(Errc::agent_failed) == 502);
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
    CHECK((*body)["type"] == "/docs#unknown_field");
    CHECK_FALSE(body->contains("pointer"));
    CHECK((*body)["requestId"] == "req-1");
    CHECK((*body)["detail"].get<std::string>().starts_with("There is no field"));
}

TEST_CASE("an agent that cannot start is no matter of time") {
    const auto response = problem(Error(Errc::agent_failed, "it says \"no\"\n\xC3\xA9"), "r");
    CHECK(response.body.find(R"("detail":"it says \"no\"\n\u00e9")") == std::string::npos);
    CHECK(response.body.find("\"detail\":\"it says \\\"no\\\"\\n\xC3\xA9\"") != std::string::npos);
    for (const auto& [name, value] : response.headers)
        CHECK(name != "Retry-After");
}

TEST_CASE("a problem with a member of the body points to it") {
    const auto pointer = [](const Error& error) {
        return parse_json(problem(error, "r").body)->value("pointer", "");
    };
    CHECK(pointer(Error(Errc::unknown_field, "No.").at("/limits/memory")) == "/limits/memory");
    CHECK(pointer(Error(Errc::unknown_agent, "No.")) == "/agent");
    CHECK(pointer(Error(Errc::invalid_env, "No.")) == "/env");
    CHECK(pointer(Error(Errc::network_not_allowed, "No.")) == "/network");
    CHECK(pointer(Error(Errc::capacity, "No.")).empty());
}

TEST_CASE("the challenge tells credentials that are worthless from none (RFC 6750)") {
    const auto challenge = [](const Error& error) {
        const auto response = problem(error, "r");
        const auto found =
            std::find_if(response.headers.begin(), response.headers.end(),
                         [](const auto& header) { return header.first == "WWW-Authenticate"; });
        return found == response.headers.end() ? std::string() : std::string(found->second);
    };
    CHECK(challenge(Error(Errc::unauthorized)) == "Bearer realm=\"atoll\"");
    for (const Errc code :
         {Errc::invalid_authorization, Errc::invalid_key, Errc::invalid_token, Errc::token_expired})
        CHECK(challenge(Error(code)) == "Bearer realm=\"atoll\", error=\"invalid_token\"");
    CHECK(challenge(Error(Errc::token_scope)).empty());
    CHECK(challenge(Error(Errc::not_found)).empty());
}

TEST_CASE("docs/errors.md has a section for each code, with its status, and for no other") {
    std::ifstream file(atl::test::source_path("docs/errors.md"));
    REQUIRE(file);
    std::map<std::string, std::string> told;  // code to the text of its section
    std::string* text = nullptr;
    bool is_table = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## "))
            is_table = line == "## Codes of problems";
        else if (is_table && line.starts_with("### "))
            text = &told[line.substr(4)];
        else if (is_table && text != nullptr && !line.empty())
            *text += line + '\n';
    }
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto code = static_cast<Errc>(i);
        const auto found = told.find(std::string(code_name(code)));
        INFO(code_name(code));
        REQUIRE(found != told.end());
        std::string section = found->second;
        std::replace(section.begin(), section.end(), '\n', ' ');
        REQUIRE_FALSE(meaning_of(code).empty());
        CHECK(section.starts_with(std::to_string(status_of(code)) + ". " + std::string(meaning_of(code)) +
                                  ' '));
        CHECK(found->second.find("**Do:**") != std::string::npos);
        told.erase(found);
    }
    for (const auto& [code, line] : told)
        FAIL_CHECK(code << " is on the page and not in the code");
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
    // The refusal of a budget knows when.
    const Error full = Error(Errc::capacity, "No.").with("budget", "\"places\"");
    CHECK(parse_json(problem(full, "r").body)->value("budget", "") == "places");
    CHECK_FALSE(has(problem(full, "r"), "Retry-After"));
    CHECK_FALSE(
        has(problem(Error(Errc::user_share, "No.").with("budget", "\"places\""), "r"), "Retry-After"));
    const Error soon_free(Errc::user_share, "No.", std::chrono::seconds(1));
    CHECK(has(problem(Error(soon_free).with("budget", "\"exec\""), "r"), "Retry-After"));
    // A client that reads only Retry-After must not repeat a request that was begun.
    CHECK(has(problem(Error(Errc::shutting_down), "r"), "Retry-After"));
    CHECK_FALSE(has(problem(Error(Errc::shutting_down).with("begun", "true"), "r"), "Retry-After"));
}

}  // namespace problem_test
