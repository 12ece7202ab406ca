#include "http/wire/download.hpp"

#include <catch2/catch_test_macros.hpp>

namespace download_test {

using namespace atl::http;

namespace {

std::string field(const Response& response, std::string_view name) {
    for (const auto& [known, value] : response.headers)
        if (known == name)
            return value;
    return "";
}

}  // namespace

TEST_CASE("a name to save under holds nothing that ends the field or names another place") {
    CHECK(content_disposition("attachment", "a b.txt") == "attachment; filename=\"a b.txt\"");
    CHECK(content_disposition("attachment", "x\"; filename=\"evil.exe") ==
          "attachment; filename=\"x_; filename=_evil.exe\"; "
          "filename*=UTF-8''x%22%3B%20filename%3D%22evil.exe");
    CHECK(content_disposition("attachment", "a\r\nSet-Cookie: x") ==
          "attachment; filename=\"a__Set-Cookie: x\"; filename*=UTF-8''a__Set-Cookie%3A%20x");
    CHECK(content_disposition("inline", "\xc3\xa4\xe2\x82\xac.png") ==
          "inline; filename=\"__.png\"; filename*=UTF-8''%C3%A4%E2%82%AC.png");
    CHECK(content_disposition("attachment", "100%41\\/") ==
          "attachment; filename=\"100_41__\"; filename*=UTF-8''100%2541%5C_");
    CHECK(content_disposition("attachment", "") == "attachment; filename=\"\"");
}

TEST_CASE("only pictures, PDF and text are ever shown, and nothing that runs scripts has its own type") {
    for (const char* const name :
         {"x.html", "x.svg", "x.xml", "x.xhtml", "x.htm", "x", "x.png.html", ".", "x."}) {
        Response response;
        set_download(response, name, Showing::if_harmless);
        CHECK(response.content_type == "application/octet-stream");
        CHECK(field(response, "Content-Disposition").starts_with("attachment; "));
    }
    for (const char* const name : {"x.png", "x.JPG", "x.html.txt", "main.py", "a.pdf"}) {
        Response shown;
        set_download(shown, name, Showing::if_harmless);
        CHECK(field(shown, "Content-Disposition").starts_with("inline; "));
        CHECK(field(shown, "Content-Security-Policy") == "sandbox; default-src 'none'");
        CHECK(field(shown, "Cross-Origin-Resource-Policy") == "same-origin");
        Response saved;
        set_download(saved, name, Showing::never);
        CHECK(field(saved, "Content-Disposition").starts_with("attachment; "));
    }
    CHECK(harmless_type("a.JSON") == "text/plain; charset=utf-8");
    CHECK(harmless_type("a.webp") == "image/webp");
}

}  // namespace download_test
