// Ports of this machine that another sandbox had: what makes browsers forget what it left there.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "http/proxy/heads.hpp"
#include "tests/unit/http/preview_house.hpp"
#include "tests/unit/http/proxy_lab.hpp"

namespace preview_stale_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr const char* k_forget = "\r\nClear-Site-Data: \"cache\", \"storage\"\r\n";
constexpr const char* k_ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A sandbox at a number that another one had.
struct Site {
    Site() : sandbox(lab.make_sandbox()), number(lab.number(sandbox)) {}

    std::string get(std::string_view target, std::string_view fields = "") const {
        return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost:" + number + "\r\n" +
               std::string(fields) + "\r\n";
    }
    std::shared_ptr<FakePeer> connect() { return lab.connect(number); }
    /// True if the answer to the next navigation tells the browser to forget what it stored.
    bool is_stale() { return has(lab.ask(*connect(), navigation(number), k_ok), k_forget); }

    PreviewHouse lab{{}, PreviewHouse::Numbers::used};
    std::string sandbox;
    std::string number;
};

}  // namespace

TEST_CASE("A browser forgets what another sandbox left by every answer, until one to a navigation") {
    Site site;
    const auto client = site.connect();
    for (int i = 0; i < 3; ++i) {
        const std::string part = site.lab.ask(*client, site.get("/main.js", "Accept: */*\r\n"), k_ok);
        CHECK(part.starts_with("HTTP/1.1 200 OK\r\n"));
        CHECK(has(part, k_forget));
    }
    CHECK(has(site.lab.ask(*client, navigation(site.number), k_ok), k_forget));
    CHECK_FALSE(has(site.lab.ask(*client, site.get("/main.js"), k_ok), "Clear-Site-Data"));
    CHECK_FALSE(site.is_stale());
}

TEST_CASE("A dev server cannot confirm a file that another sandbox left in a browser's cache") {
    Site site;
    const std::string of_cache =
        "If-None-Match: \"a\"\r\nIf-Modified-Since: x\r\nRange: bytes=1-\r\nIf-Range: \"a\"\r\n";
    const auto client = site.connect();
    site.lab.ask(*client, navigation(site.number, of_cache), k_ok);
    CHECK(has(site.lab.seen(), "\r\nAccept: "));
    CHECK_FALSE(has(site.lab.seen(), "If-"));
    CHECK_FALSE(has(site.lab.seen(), "Range"));
    site.lab.ask(*client, navigation(site.number, of_cache), k_ok);
    CHECK(has(site.lab.seen(), "\r\n" + of_cache));
}

TEST_CASE("A number that nobody had has nothing to forget") {
    PreviewHouse lab;
    const std::string number = lab.number(lab.make_sandbox());
    CHECK_FALSE(has(lab.ask(*lab.connect(number), navigation(number), k_ok), "Clear-Site-Data"));
}

TEST_CASE(
    "The update check of a service worker is answered for good, what a page fetches in its name is not") {
    const auto [fields, is_update] = GENERATE(table<std::string, bool>({
        {"Service-Worker: script\r\n", true},
        {"Service-Worker: script\r\nSec-Fetch-Dest: serviceworker\r\n", true},
        {"Service-Worker: script\r\nSec-Fetch-Dest: empty\r\n", false},
        {"Accept: text/html\r\nSec-Fetch-Mode: cors\r\n", false},
    }));
    CAPTURE(fields);
    Site site;
    CHECK(has(site.lab.ask(*site.connect(), site.get("/worker.js", fields), k_ok), k_forget));
    CHECK(site.is_stale() != is_update);
}

TEST_CASE("A dev server that breaks its answer cannot have a browser keep what another sandbox left") {
    const std::string broken =
        GENERATE(as<std::string>(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
                 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "nothing\r\n\r\n");
    CAPTURE(broken);
    Site site;
    const std::string answer = site.lab.ask(*site.connect(), navigation(site.number), broken);
    CHECK(answer.starts_with("HTTP/1.1 502 "));
    CHECK(has(answer, k_forget));
    CHECK_FALSE(site.is_stale());
}

TEST_CASE("An answer that the browser did not get to the end of its head tells it nothing") {
    const std::size_t taken = GENERATE(0UL, 1UL, 40UL);
    CAPTURE(taken);
    Site site;
    const auto client = site.connect();
    client->take_only(taken);
    SECTION("of a dev server") {
        CHECK(site.lab.ask(*client, navigation(site.number), k_ok).size() == taken);
    }
    SECTION("of this server") {
        const std::string own = "GET /.atoll/none HTTP/1.1" + navigation(site.number).substr(14);
        CHECK(site.lab.ask(*client, own).size() == taken);
    }
    client->refuse_writes();
    site.lab.run();
    CHECK(client->is_closed());
    CHECK(site.is_stale());
    CHECK_FALSE(site.is_stale());
}

TEST_CASE("An answer of this server to a navigation has a browser forget, too") {
    Site site;
    const std::string own = "GET /.atoll/none HTTP/1.1" + navigation(site.number).substr(14);
    const std::string answer = site.lab.ask(*site.connect(), own);
    CHECK(answer.starts_with("HTTP/1.1 404 "));
    CHECK(has(answer, k_forget));
    CHECK_FALSE(site.is_stale());
}

TEST_CASE("What asks for another number's page tells nobody to forget that one") {
    Site site;
    const std::string other = site.lab.number(site.lab.make_sandbox());
    const std::string astray = site.lab.ask(*site.lab.connect(other), navigation(site.number));
    CHECK(astray.starts_with("HTTP/1.1 421 "));
    CHECK_FALSE(has(astray, "Clear-Site-Data"));
    CHECK(site.is_stale());
}

}  // namespace preview_stale_test
