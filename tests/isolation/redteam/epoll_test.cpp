// The epoll registrations of a uid that a rootless server shares with its sandboxes
// (fs.epoll.max_user_watches).
#include <poll.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <stdexcept>

#include "tests/isolation/lab.hpp"

namespace epoll_test {

using namespace atl::test;

namespace {

constexpr std::chrono::seconds k_deadline{180};
constexpr int k_pace_ms = 100;

}  // namespace

TEST_CASE("A server whose uid has no epoll registrations left serves on and ends the sandbox that took them",
          "[redteam]") {
    Lab& lab = each_lab();
    if (lab.has_private_uids)
        return;  // each sandbox has a table of its own
    Sandbox neighbour(lab);
    Sandbox greedy(lab);
    // The control: the table is full, and a registration that becomes free is taken at once.
    greedy.probe_in_background({"fill-epoll", "100"}, "table full");
    const auto deadline = std::chrono::steady_clock::now() + k_deadline;
    int answered = 0;
    int refused = 0;
    do {
        // Each connection needs a registration. The greedy sandbox may take the registration that the reserve
        // gives up for it, so the reserve can run out before the offender is found.
        try {
            HttpClient client = lab.api.connect();
            answered += client.request("GET", "/v1/conversations/" + neighbour.id()).status == 200 ? 1 : 0;
        } catch (const std::runtime_error&) {
            ++refused;
        }
        ::poll(nullptr, 0, k_pace_ms);
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        // On a connection that was open before: it is served all the time.
    } while (lab.api.get(greedy.id())["status"] != "paused");
    INFO(lab.server.log());
    INFO(answered << " new connections were answered, " << refused << " were not");
    CHECK(answered > 0);
    if (checks_bounds())
        CHECK(answered > refused);
    // `crash` where the kernel takes longer than a sandbox has to die in to give millions of them back.
    const std::string reason = lab.api.get(greedy.id())["statusReason"];
    CHECK((reason == "oom" || reason == "crash"));
    CHECK(lab.server.log().find("evt=epoll_exhausted sbx=" + greedy.sandbox_id()) != std::string::npos);
    // The kernel takes some seconds to give all of them back, and the neighbour's own programs need some.
    bool is_well = false;
    while (!is_well && std::chrono::steady_clock::now() < deadline) {
        try {
            is_well = neighbour.run("echo well").output == "well\n";
        } catch (const std::runtime_error&) {
            // Its agent waits for registrations longer than a turn's client does.
        }
    }
    CHECK(is_well);
    CHECK(neighbour.is_well());
}

}  // namespace epoll_test
