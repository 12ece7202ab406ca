// The addresses of this host: read once, and again when one of them changes.
#include "http/egress/own_addresses.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

namespace own_addresses_test {

using namespace atl;

namespace {

constexpr int k_no_namespace = 100;

/// Gives the loopback interface this address, which replaces the one before; 0.0.0.0 only removes it.
bool give_address(const char* text) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", sizeof "lo");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(http::parse_address(text)->to_v4().to_uint());
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    return ::ioctl(fd.get(), SIOCSIFADDR, &request) == 0;
}

bool has(http::OwnAddresses& own, const char* text) {
    const auto& now = own.now();
    return now && std::find(now->begin(), now->end(), *http::parse_address(text)) != now->end();
}

/// In a net namespace of its own. The number of the first step that is not as it should be; 0: there is none.
int change_addresses() {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return k_no_namespace;
    http::OwnAddresses own;
    if (!own.now() || has(own, "192.0.2.1"))
        return 1;
    if (!give_address("192.0.2.1") || !has(own, "192.0.2.1"))
        return 2;
    if (!give_address("192.0.2.2") || !has(own, "192.0.2.2") || has(own, "192.0.2.1"))
        return 3;
    if (!give_address("0.0.0.0") || !own.now() || has(own, "192.0.2.2"))
        return 4;
    return 0;
}

}  // namespace

TEST_CASE("An address that this host gets is one of its own at once, and none once it is gone") {
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(change_addresses());
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == k_no_namespace)
        SKIP("no user namespaces on this host");
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace own_addresses_test
