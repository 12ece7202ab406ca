// A log that nobody reads: the server goes on, and tells later what is missing.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/api_client.hpp"

namespace unread_log_test {

using namespace atl::test;

TEST_CASE("A log that nobody reads does not stop the server") {
    ServerOptions options;
    options.log = LogTo::unread_pipe;
    options.arguments = {"--access-log", "all"};  // without a line of its own for each, refusals are counted
    ServerProcess server(options);
    const std::string address = server.address();
    HttpClient anyone(address);
    // Each is a line of the log; the pipe holds a few of them.
    for (int i = 0; i < 1000; ++i)
        REQUIRE(anyone.request("GET", "/v1/system").status == 401);
    ApiClient api(server);
    CHECK(api.message(api.create()["id"], "echo works").output == "works\n");
    const std::string metrics = api.http().request("GET", "/metrics").body;
    const auto at = metrics.find("\natoll_log_lines_dropped_total ");
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(metrics.substr(metrics.find(' ', at + 1))) > 500);
    // Somebody reads at last.
    const std::string first = server.log();
    CHECK(first.find("evt=server_listening") != std::string::npos);
    CHECK(anyone.request("GET", "/v1/system").status == 401);
    std::string later = server.log();
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    while (later.find("evt=request ") == std::string::npos && std::chrono::steady_clock::now() < until)
        later += server.log();
    INFO(later);
    CHECK(later.find("evt=log_dropped lines=") < later.find("evt=request "));
    CHECK(later.find("evt=request ") != std::string::npos);
    CHECK(server.stop() == 0);
}

}  // namespace unread_log_test
