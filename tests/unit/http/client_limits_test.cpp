#include "http/access/client_limits.hpp"

#include <catch2/catch_test_macros.hpp>

namespace client_limits_test {

using namespace atl;
using namespace atl::http;
using namespace std::chrono_literals;
using base::Errc;

namespace {

const base::SteadyTime k_now{1h};

LimitSettings small() {
    LimitSettings settings;
    settings.connections_per_address = 3;
    settings.requests_per_second_per_address = 4;
    settings.requests_per_second_per_key = 2;
    settings.failed_logins_per_minute = 5;
    settings.streams_per_conversation = 4;
    settings.streams_per_key = 2;
    return settings;
}

LimitSubject subject(const ClientLimits& limits, const char* address, const std::string& key = "") {
    Client client;
    client.address = parse_address(address);  // nothing for "unix"
    Principal principal;
    principal.limit_key = key;
    return limits.subject_of(limits.subject_of(client), principal);
}

template <class Take>
int granted(int attempts, Take take) {
    int count = 0;
    for (int i = 0; i < attempts; ++i)
        count += take().has_value() ? 1 : 0;
    return count;
}

}  // namespace

TEST_CASE("the values of a request's JSON count for its address and its key, 256 as one more") {
    ClientLimits limits(small());
    const auto one = subject(limits, "203.0.113.9", "a key");
    CHECK(limits.frame(one, k_now).has_value());
    limits.charge(one, 255, k_now);
    limits.charge(one, 2 * 256, k_now);
    CHECK(granted(50, [&] { return limits.key_request(one, k_now); }) == 1);
    CHECK(granted(50, [&] { return limits.request(one, k_now); }) == 5);
    CHECK(granted(50, [&] { return limits.request(subject(limits, "203.0.113.10"), k_now); }) == 8);
    // The server's own key, and who has no limits, pay nothing.
    const auto own = subject(limits, "unix");
    limits.charge(own, 1'000'000, k_now);
    CHECK(granted(50, [&] { return limits.frame(own, k_now); }) == 50);
}

TEST_CASE("an address has two seconds of requests at once, then waits as it is told") {
    ClientLimits limits(small());
    const auto one = subject(limits, "203.0.113.9");
    CHECK(granted(50, [&] { return limits.request(one, k_now); }) == 8);
    const auto refused = limits.request(one, k_now);
    CHECK(refused.error().code() == Errc::too_many_requests);
    CHECK(refused.error().retry_after() == 1s);
    CHECK(refused.error().detail().find("4 requests a second") != std::string::npos);
    CHECK(granted(50, [&] { return limits.request(one, k_now + 1s); }) == 4);
    CHECK(limits.request(subject(limits, "203.0.113.10"), k_now).has_value());
    // A network of IPv6 counts as one address.
    CHECK(granted(50, [&] { return limits.request(subject(limits, "2001:db8::1"), k_now); }) == 8);
    CHECK(limits.request(subject(limits, "2001:db8::2"), k_now).has_error());
    CHECK(limits.request(subject(limits, "2001:db8:0:1::2"), k_now).has_value());
}

TEST_CASE("the loopback and Unix sockets have the limits of an address only if asked for") {
    ClientLimits limits(small());
    LimitSettings settings = small();
    settings.loopback = LoopbackLimits::as_others;
    ClientLimits strict(settings);
    for (const char* address : {"127.0.0.1", "::1", "unix"}) {
        CHECK(granted(50, [&] { return limits.request(subject(limits, address), k_now); }) == 50);
        CHECK(granted(50, [&] { return strict.request(subject(strict, address), k_now); }) == 8);
    }
}

TEST_CASE("a trusted proxy has no limits of an address") {
    LimitSettings settings = small();
    settings.loopback = LoopbackLimits::as_others;
    ClientLimits limits(settings);
    TrustedProxies trusted;
    CHECK(trusted.add("10.0.0.1"));
    std::vector<CountLimiter::Lease> leases;
    const auto connect = [&](const char* from) {
        return granted(10, [&] {
            auto lease = limits.connect(parse_address(from), trusted);
            if (lease.has_value())
                leases.push_back(std::move(*lease));
            return lease;
        });
    };
    CHECK(connect("10.0.0.2") == 3);
    CHECK(connect("10.0.0.1") == 10);
    CHECK(limits.connect(parse_address("10.0.0.2"), trusted).error().code() == Errc::too_many_connections);
    leases.clear();
    CHECK(connect("10.0.0.2") == 3);
    Client proxy;
    proxy.address = parse_address("10.0.0.1");
    proxy.is_trusted = true;
    CHECK(granted(50, [&] { return limits.request(limits.subject_of(proxy), k_now); }) == 50);
}

TEST_CASE("a key has its rate wherever it is used, the server's own has none") {
    ClientLimits limits(small());
    const auto here = subject(limits, "127.0.0.1", "key-1");
    CHECK(granted(50, [&] { return limits.key_request(here, k_now); }) == 4);
    CHECK(limits.key_request(subject(limits, "203.0.113.9", "key-1"), k_now).has_error());
    CHECK(limits.key_request(subject(limits, "127.0.0.1", "key-2"), k_now).has_value());
    CHECK(granted(50, [&] { return limits.key_request(subject(limits, "203.0.113.9"), k_now); }) == 50);
    // A frame counts for both.
    const auto both = subject(limits, "203.0.113.20", "key-3");
    CHECK(granted(50, [&] { return limits.frame(both, k_now); }) == 4);
}

TEST_CASE("failures to log in count for every address, the loopback too") {
    ClientLimits limits(small());
    for (const char* address : {"127.0.0.1", "203.0.113.9", "unix"})
        CHECK(granted(50, [&] { return limits.failed_login(subject(limits, address), k_now); }) == 5);
    const auto refused = limits.failed_login(subject(limits, "127.0.0.1"), k_now);
    CHECK(refused.error().code() == Errc::too_many_requests);
    CHECK(refused.error().retry_after() == 12s);
    CHECK(limits.failed_login(subject(limits, "127.0.0.1"), k_now + 12s).has_value());
}

TEST_CASE("streams are counted by conversation, key and address, and given back") {
    ClientLimits limits(small());
    std::vector<StreamLease> leases;
    const auto open = [&](const LimitSubject& who, const char* conversation) {
        auto lease = limits.stream(who, conversation);
        if (lease.has_error())
            return false;
        leases.push_back(std::move(*lease));
        return true;
    };
    const auto one = subject(limits, "127.0.0.1", "key-1");
    CHECK(open(one, "c1"));
    CHECK(open(one, "c2"));
    CHECK_FALSE(open(one, "c3"));
    CHECK(limits.stream(one, "c3").error().code() == Errc::too_many_streams);
    CHECK(open(subject(limits, "127.0.0.1", "key-2"), "c1"));
    CHECK(open(subject(limits, "127.0.0.1", "key-3"), "c1"));
    CHECK(open(subject(limits, "127.0.0.1", "key-4"), "c1"));
    const auto fifth = subject(limits, "127.0.0.1", "key-5");
    CHECK_FALSE(open(fifth, "c1"));
    // The refused stream did not count for the key.
    CHECK(open(fifth, "c9"));
    CHECK(open(fifth, "c9"));
    // The operator's own key is not kept out by the others.
    CHECK(open(subject(limits, "127.0.0.1"), "c1"));
    leases.clear();
    CHECK(open(one, "c3"));
    leases.clear();
    for (int i = 0; i < 3; ++i)
        CHECK(open(subject(limits, "203.0.113.9"), "c1"));
    CHECK_FALSE(open(subject(limits, "203.0.113.9"), "c1"));
}

TEST_CASE("a limit of 0 is none") {
    LimitSettings settings{0, 0, 0, 0, 0, 0, LoopbackLimits::as_others};
    ClientLimits limits(settings);
    const auto one = subject(limits, "203.0.113.9", "key");
    CHECK(granted(5000, [&] { return limits.frame(one, k_now); }) == 5000);
    CHECK(granted(5000, [&] { return limits.failed_login(one, k_now); }) == 5000);
    std::vector<StreamLease> leases;
    for (int i = 0; i < 5000; ++i)
        leases.push_back(std::move(limits.stream(one, "c").value()));
}

}  // namespace client_limits_test
