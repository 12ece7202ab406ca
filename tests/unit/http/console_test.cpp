// The console's files as a browser gets them.
#include "http/console/console.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <optional>

#include "tests/unit/http/fake_server.hpp"
#include "tests/unit/http/test_server.hpp"

namespace console_test {

using namespace atl;
using namespace atl::test;

namespace {

class ConsoleServer final : public ServerThread {
  public:
    explicit ConsoleServer(std::string_view frames = {}) {
        start({}, http::Router(http::console_routes(frames)), "127.0.0.1:0");
    }
    ~ConsoleServer() { finish(); }
    /// A client without the key.
    HttpClient anyone() const { return HttpClient(address); }
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

base::Task<> async_call(const http::Handler& handler, http::RequestContext& context,
                        std::optional<http::Response>& out) {
    auto answer = co_await handler(context);
    out = std::move(*answer);
}

base::Task<base::Result<http::Response>> async_long_text(http::RequestContext&) {
    co_return http::json_response(std::string(100'000, 'x'));
}

}  // namespace

TEST_CASE("the console answers without a key, under a policy that lets nothing else in") {
    ConsoleServer server;
    auto client = server.anyone();
    const auto page = client.request("GET", "/");
    CHECK(page.status == 200);
    CHECK(page.header("content-type") == "text/html; charset=utf-8");
    CHECK(
        page.header("content-security-policy") ==
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; frame-src 'none'");
    CHECK(page.header("x-content-type-options") == "nosniff");
    CHECK(page.header("referrer-policy") == "no-referrer");
    CHECK(page.header("cache-control") == "no-cache");
    CHECK(page.body.starts_with("<!doctype html>"));
    CHECK(client.request("GET", "/?from=a-link").status == 200);
}

TEST_CASE("the console may show previews in frames, and nothing else") {
    ConsoleServer server("http://localhost:*");
    const auto page = server.anyone().request("GET", "/");
    CHECK(page.header("content-security-policy").ends_with("; frame-src http://localhost:*"));
}

TEST_CASE("every file of the console has its type and its bytes") {
    ConsoleServer server;
    auto client = server.anyone();
    REQUIRE(http::console_files().size() >= 10);
    for (const auto& file : http::console_files()) {
        INFO(file.name);
        const auto response = client.request("GET", "/console/" + std::string(file.name));
        CHECK(response.status == 200);
        CHECK(response.header("content-type") == file.content_type);
        CHECK(contains(file.content_type, "charset=utf-8"));
        CHECK(response.header("etag") == file.etag);
        CHECK(contains(response.header("content-security-policy"), "default-src 'none'"));
        CHECK(response.body == file.bytes);
        CHECK_FALSE(file.bytes.empty());
    }
}

TEST_CASE("the console's page and styles are free of what its policy refuses") {
    for (const auto& file : http::console_files()) {
        INFO(file.name);
        if (file.name.starts_with("xterm."))
            continue;  // not ours: the browser tests count what the policy refuses of it
        for (const char* refused : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                                    "style=\"", "onclick=\"", "onload=\"", "@import", "https://"})
            CHECK_FALSE(contains(file.bytes, refused));
    }
}

TEST_CASE("A file of the console is sent as it lies in memory, whoever does not read it") {
    const auto routes = http::console_routes({});
    const auto files = http::console_files();
    const auto largest = std::max_element(files.begin(), files.end(), [](const auto& a, const auto& b) {
        return a.bytes.size() < b.bytes.size();
    });
    http::Request request;
    const bool aborted = false;
    http::RequestContext context(request, nullptr, aborted);
    context.params.emplace_back("file", std::string(largest->name));
    std::optional<http::Response> response;
    boost::asio::io_context loop;
    boost::asio::co_spawn(loop.get_executor(), async_call(routes[1].handler, context, response),
                          [](const std::exception_ptr&) {});
    loop.run();
    REQUIRE(response);
    CHECK(response->body.empty());
    CHECK(response->lasting_body.data() == largest->bytes.data());
    CHECK(response->lasting_body.size() == largest->bytes.size());
}

TEST_CASE("Output that strangers do not read is one holder's, but for files of the console") {
    base::Budget budget({"connections", "bytes", "", 1024UL * 1024});
    TestSettings settings;
    settings.buffers = &budget;
    auto routes = http::console_routes({});
    http::Route route;
    route.method = http::Method::get;
    route.pattern = "/long";
    route.name = "long";
    route.auth = http::Auth::open;
    route.handler = async_long_text;
    routes.push_back(std::move(route));
    FakeServer server(settings, std::move(routes));
    const auto page = server.connect();
    page->take_only(1000);
    page->send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(server.take(*page).starts_with("HTTP/1.1 200 "));
    CHECK(budget.used() == 0);
    const auto text = server.connect();
    text->take_only(1000);
    text->send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(server.take(*text).starts_with("HTTP/1.1 200 "));
    CHECK(budget.held_by(base::ShareHolder::strangers()) > 99'000 + base::k_max_unsent_bytes);
    CHECK(budget.held_by(base::ShareHolder::strangers()) == budget.used());
    page->take_only(10'000'000);
    CHECK(server.take(*page).ends_with("</html>\n"));
}

TEST_CASE("what a client has already is not sent again") {
    ConsoleServer server;
    auto client = server.anyone();
    const auto etag = client.request("GET", "/").header("etag");
    REQUIRE(etag.size() > 10);
    for (const std::string& condition : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
        INFO(condition);
        const auto again = client.request("GET", "/", "", {{"If-None-Match", condition}});
        CHECK(again.status == 304);
        CHECK(again.body.empty());
        CHECK(again.header("etag") == etag);
        CHECK(again.header("cache-control") == "no-cache");
        CHECK(again.header("content-length").empty());
        CHECK(again.header("content-type").empty());
    }
    CHECK(client.request("GET", "/", "", {{"If-None-Match", "\"other\""}}).status == 200);
    CHECK(client.request("GET", "/", "", {{"If-None-Match", etag.substr(0, etag.size() - 2)}}).status == 200);
    CHECK(server.connections() == 1);
}

TEST_CASE("HEAD of a console file has the head of GET and no body") {
    ConsoleServer server;
    auto client = server.anyone();
    for (const char* path : {"/", "/console/console.css"}) {
        const auto get = client.request("GET", path);
        const auto head = client.request("HEAD", path);
        CHECK(head.status == 200);
        CHECK(head.body.empty());
        CHECK(head.header("content-length") == std::to_string(get.body.size()));
        CHECK(head.header("etag") == get.header("etag"));
        CHECK(client.request("HEAD", path, "", {{"If-None-Match", get.header("etag")}}).status == 304);
    }
}

TEST_CASE("names that are no file of the console are not found, and nothing is read from a disk") {
    ConsoleServer server;
    auto client = server.anyone();
    for (const char* name :
         {"nothing.mjs", "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd",
          "index.html%00.css", "INDEX.HTML", "README.md", "embed.cmake", "index.html%20"}) {
        INFO(name);
        const auto response = client.request("GET", "/console/" + std::string(name));
        CHECK(response.status == 404);
        CHECK(contains(response.body, "not_found"));
        CHECK(response.header("cache-control") == "no-store");
    }
    // Deeper paths are no route, and only a client with a key learns which paths are no route.
    for (const char* path : {"/console/", "/console/../api.cpp", "/console/a/b", "/console"})
        CHECK(client.request("GET", path).status >= 400);
    CHECK(client.request("GET", "/console/%ff").status == 400);
    CHECK(client.request("POST", "/console/app.mjs", "{}").status >= 400);
}

}  // namespace console_test
