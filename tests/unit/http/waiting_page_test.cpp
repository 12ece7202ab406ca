#include "http/proxy/waiting_page.hpp"

#include <openssl/evp.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "core/base/base64.hpp"

namespace waiting_page_test {

using namespace atl;
using base::Errc;

namespace {

std::string header(const http::Response& response, std::string_view name) {
    for (const auto& [each, value] : response.headers)
        if (each == name)
            return value;
    return "";
}

/// The text of the only element of that name.
std::string text_of(const std::string& page, const std::string& name) {
    const auto begin = page.find('<' + name + '>') + name.size() + 2;
    const auto end = page.find("</" + name + '>');
    REQUIRE(end != std::string::npos);
    REQUIRE(page.find('<' + name, begin) == std::string::npos);
    return page.substr(begin, end - begin);
}

std::string source_of(const std::string& text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    REQUIRE(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
    std::string out;
    base::append_base64(out, {reinterpret_cast<const char*>(digest.data()), size});
    return "'sha256-" + out + "'";
}

bool is_navigation(http::Method method, std::vector<http::HeaderField> fields) {
    http::Request request;
    request.method = method;
    request.fields = std::move(fields);
    return http::is_navigation(request);
}

}  // namespace

TEST_CASE("waiting page: its policy lets its own script and style pass, and nothing else") {
    for (const auto& [why, status] :
         {std::pair{Errc::no_listener, 503U}, std::pair{Errc::paused, 503U}, std::pair{Errc::capacity, 503U},
          std::pair{Errc::sandbox_failed, 503U}, std::pair{Errc::shutting_down, 503U},
          std::pair{Errc::storage_failed, 503U}, std::pair{Errc::upstream_failed, 502U},
          std::pair{Errc::deadline_exceeded, 504U}}) {
        CAPTURE(status);
        CHECK(http::may_pass(why));
        CHECK_FALSE(http::is_closed(why));
        const http::Response page = http::waiting_page(why);
        CHECK(page.status == status);
        CHECK(page.problem_code == base::code_name(why));
        // Else a page that answers HEAD, and breaks GET, would be loaded each second without an end.
        CHECK((page.body.find("data-broken") != std::string::npos) == (status != 503));
        CHECK(http::is_broken_answer(why) == (status != 503));
        CHECK(header(page, "Content-Security-Policy") ==
              "default-src 'none'; script-src " + source_of(text_of(page.body, "script")) + "; style-src " +
                  source_of(text_of(page.body, "style")) +
                  "; connect-src 'self'; base-uri 'none'; form-action 'none'");
        // A policy of digests would block style attributes and event handlers in attributes.
        CHECK(page.body.find(" style=") == std::string::npos);
        CHECK(page.body.find(" on") == std::string::npos);
        CHECK(page.body.find("\"HEAD\"") != std::string::npos);
        CHECK(page.body.find(http::k_waiting_field) != std::string::npos);
    }
}

TEST_CASE(
    "waiting page: it names the port on which nothing listens, and says of nothing else that it is closed") {
    CHECK(http::waiting_page(Errc::no_listener, 5173).body.find("<h1>Nothing listens on port 5173</h1>") !=
          std::string::npos);
    CHECK(http::waiting_page(Errc::no_listener).body.find("<h1>Nothing listens here yet</h1>") !=
          std::string::npos);
    const std::string paused = http::waiting_page(Errc::paused, 5173).body;
    CHECK(paused.find("<h1>This conversation is paused</h1>") != std::string::npos);
    CHECK(paused.find("data-why=\"paused\"") != std::string::npos);
}

TEST_CASE("waiting page: what time does not change has a page without a script") {
    for (const auto& [why, status] :
         {std::pair{Errc::preview_private, 403U}, std::pair{Errc::port_not_public, 403U},
          std::pair{Errc::not_found, 404U}, std::pair{Errc::preview_ended, 410U}}) {
        CAPTURE(status);
        CHECK(http::is_closed(why));
        CHECK_FALSE(http::may_pass(why));
        const http::Response page = http::closed_page(why);
        CHECK(page.status == status);
        CHECK(page.problem_code == base::code_name(why));
        CHECK(header(page, "Content-Security-Policy").starts_with("default-src 'none'; "));
        CHECK(page.body.find("<script") == std::string::npos);
        CHECK(page.body.find("The preview does not answer") == std::string::npos);
    }
    CHECK_FALSE(http::may_pass(Errc::internal));
    CHECK_FALSE(http::is_closed(Errc::internal));
}

TEST_CASE("waiting page: only who will show a page gets one") {
    using http::Method;
    CHECK(is_navigation(Method::get, {{"Accept", "text/html,*/*"}}));
    CHECK(is_navigation(Method::get, {{"Accept", "text/html"}, {"Sec-Fetch-Mode", "navigate"}}));
    CHECK_FALSE(is_navigation(Method::get, {{"Accept", "*/*"}}));
    CHECK_FALSE(is_navigation(Method::get, {{"Accept", "text/html"}, {"Sec-Fetch-Mode", "cors"}}));
    CHECK_FALSE(is_navigation(Method::get, {{"Accept", "text/html"}, {"Upgrade", "websocket"}}));
    CHECK_FALSE(is_navigation(Method::head, {{"Accept", "text/html"}}));
    CHECK_FALSE(is_navigation(Method::post, {{"Accept", "text/html"}}));
}

}  // namespace waiting_page_test
