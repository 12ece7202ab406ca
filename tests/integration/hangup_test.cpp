// SIGHUP for a server without TLS, as when its terminal goes, and for the programs that work for it, as
// `systemctl kill -s HUP` sends it to a whole unit.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <string>

#include "tests/support/api_client.hpp"

namespace hangup_test {

using namespace atl::test;

namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// Programs of the server itself: helpers and what waits to become a sandbox.
std::vector<pid_t> own_programs(const ServerProcess& server) {
    std::vector<pid_t> found = descendants(server.pid());
    std::erase_if(found, [](pid_t pid) {
        return !first_line("/proc/" + std::to_string(pid) + "/comm").starts_with("atoll-");
    });
    return found;
}

/// proc(5): SigIgn is a mask, in which signal 1 is the lowest bit.
bool ignores_hangup(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigIgn:"))
            return (std::stoull(line.substr(7), nullptr, 16) & 1U) != 0;
    return false;
}

std::size_t count_of(const std::string& text, const std::string& word) {
    std::size_t found = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++found;
    return found;
}

/// True if `is_so` becomes true in time. The API is asked meanwhile: a turn of the server's loop.
template <class IsSo>
bool becomes(ApiClient& api, IsSo is_so) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (!is_so()) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        api.http().request("GET", "/healthz");
    }
    return true;
}

}  // namespace

TEST_CASE("SIGHUP without a certificate is logged and ends neither the server nor its helpers") {
    ServerProcess server;
    ApiClient api(server);
    const auto logs = [&](std::size_t times) {
        return becomes(api, [&] { return count_of(server.log(), "evt=nothing_to_reload") == times; });
    };
    server.signal(SIGHUP);
    REQUIRE(logs(1));
    const auto programs = own_programs(server);
    REQUIRE(programs.size() >= 4);
    for (const pid_t pid : programs) {
        INFO(pid << ' ' << first_line("/proc/" + std::to_string(pid) + "/comm"));
        // A program that has just begun ignores the signal a moment later.
        REQUIRE(becomes(api, [&] { return ignores_hangup(pid); }));
        REQUIRE(::kill(pid, SIGHUP) == 0);
    }
    server.signal(SIGHUP);
    REQUIRE(logs(2));
    const auto left = own_programs(server);
    for (const pid_t pid : programs)
        CHECK(std::ranges::count(left, pid) == 1);
    CHECK(api.message(api.create()["id"], "echo on").output == "on\n");
    CHECK(server.stop() == 0);
}

}  // namespace hangup_test
