// Clients without a key: none of them fills the server's log, or holds a connection by bytes that are no
// request.
#include <poll.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/isolation/lab.hpp"

namespace strangers_test {

using namespace atl::test;

namespace {

std::size_t lines_with(const std::string& text, std::string_view word) {
    std::size_t count = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++count;
    return count;
}

}  // namespace

TEST_CASE("Refused requests without a key write a few lines and a count, those with a key a line each",
          "[redteam][strangers]") {
    constexpr std::size_t k_requests = 200;
    Lab lab(Privilege::as_started);
    // The control: each refusal of a client with a key has its line.
    HttpClient client = lab.api.connect();
    for (std::size_t i = 0; i < k_requests; ++i)
        CHECK(client.request("GET", "/v1/with-a-key").status == 404);
    HttpClient stranger(lab.server.address());
    for (std::size_t i = 0; i < k_requests; ++i)
        CHECK(stranger.request("GET", "/v1/without-a-key").status == 401);
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    std::string log;
    while (lines_with(log, "evt=requests_suppressed") == 0 && std::chrono::steady_clock::now() < until) {
        ::poll(nullptr, 0, 20);
        log = lab.server.log();
    }
    CHECK(lines_with(log, "/v1/with-a-key") == k_requests);
    CHECK(lines_with(log, "/v1/without-a-key") >= 1);
    CHECK(lines_with(log, "/v1/without-a-key") < k_requests / 2);
    CHECK(lines_with(log, "evt=requests_suppressed") >= 1);
}

TEST_CASE("A few blank lines before a request are taken, more are 400 and the end of the connection",
          "[redteam][strangers]") {
    Lab lab(Privilege::as_started);
    const std::string request = "GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // The control: a few are none of an attack.
    HttpClient client(lab.server.address());
    client.send_raw("\r\n\r\n" + request);
    CHECK(client.read_response().status == 200);
    HttpClient stranger(lab.server.address());
    for (int line = 0; line < 5; ++line)
        stranger.send_raw("\r\n");
    CHECK(stranger.read_until_close().starts_with("HTTP/1.1 400 "));
}

}  // namespace strangers_test
