#include "core/egress/ceilings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/egress/limits.hpp"
#include "tests/support/result_printer.hpp"

namespace egress_ceilings_test {

using namespace atl::egress;
using atl::base::Errc;
using Texts = std::vector<std::string>;

namespace {

struct Flags {
    Texts allow;
    Texts groups;
    Texts ranges;
};

Ceilings ceilings(const Flags& flags) {
    Ceilings made;
    for (const auto& text : flags.allow)
        REQUIRE(made.allow(text));
    for (const auto& text : flags.groups)
        REQUIRE(made.add_group(text));
    for (const auto& text : flags.ranges)
        REQUIRE(made.allow_private(text));
    REQUIRE(made.check_groups());
    return made;
}

AllowList list(const Texts& texts, SetBy set_by) {
    return AllowList::parse(texts, set_by).value();
}

atl::base::Result<void> set(const Ceilings& ceilings, const Texts& texts, SetBy set_by) {
    return ceilings.check(list(texts, set_by));
}

bool may_user_list(const Ceilings& ceilings, const std::string& rule) {
    return set(ceilings, {rule}, SetBy::user_key).has_value();
}

Verdict judged(const Ceilings& ceilings, const AllowList& list, std::string_view endpoint) {
    return ceilings.judge(list, parse_endpoint(endpoint).value());
}

atl::base::IpAddress ip(const char* text) {
    return boost::asio::ip::make_address(text);
}

std::string refusal(const Ceilings& ceilings, const char* address, std::uint16_t port, Reach reach) {
    const std::vector own{ip("203.0.113.7"), ip("2001:db8::7")};
    return std::string(ceilings.refusal(ip(address), port, reach, own).value_or("none"));
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Without a flag of the operator there is no egress, for no key and no list") {
    const Ceilings off;
    CHECK_FALSE(off.is_on());
    for (const SetBy set_by : {SetBy::operator_key, SetBy::user_key}) {
        for (const Texts& texts : {Texts{}, Texts{"api.example.com"}}) {
            const auto refused = set(off, texts, set_by);
            REQUIRE(refused.has_error());
            CHECK(refused.error().code() == Errc::network_not_allowed);
            CHECK(has(refused.error().detail(), "--egress-allow"));
        }
    }
    // Each of the flags switches it on.
    for (const Flags& flags :
         {Flags{{"a.example"}, {}, {}}, Flags{{}, {"g=a.example"}, {}}, Flags{{}, {}, {"10.0.0.0/8:443"}}})
        CHECK(set(ceilings(flags), {}, SetBy::user_key));
}

TEST_CASE("A key without a user lists any public name and address") {
    const Ceilings some = ceilings({{"a.example"}, {}, {}});
    for (const char* rule : {"elsewhere.example.net", "*.example.org:8443", "host:22/tcp", "*",
                             "8.8.8.8:53/tcp", "[2606:4700::1111]"}) {
        INFO(rule);
        CHECK(set(some, {rule}, SetBy::operator_key));
    }
    const AllowList all = list({"*", "host.example:22/tcp"}, SetBy::operator_key);
    CHECK(judged(some, all, "elsewhere.example.net:443").grant == Grant{Bytes::tls, Reach::public_only});
    CHECK(judged(some, all, "host.example:22").grant == Grant{Bytes::any, Reach::ranges});
}

TEST_CASE("A key with a user lists only what the ceiling matches whole") {
    const Ceilings some = ceilings({{"a.example", "*.example.org:443", "b.example:80", "b.example:443",
                                     "git.example:22/tcp", "c.example:443", "*.example.org:8443/tcp"},
                                    {},
                                    {}});
    for (const char* rule :
         {"a.example", "a.example:80", "a.example:443", "x.example.org:443", "y.x.example.org:443",
          "*.example.org:443", "*.x.example.org:443", "b.example", "git.example:22", "git.example:22/tcp",
          "c.example:443", "x.example.org:8443/tcp", "A.EXAMPLE."}) {
        INFO(rule);
        CHECK(may_user_list(some, rule));
    }
    for (const char* rule :
         {"elsewhere.example.net", "a.example:8080", "x.a.example", "*.a.example", "x.example.org",
          "example.org:443", "x.example.org:80", "*.example.org", "c.example", "git.example", "*", "*:443",
          "a.example:443/tcp", "x.example.org:443/tcp", "evilexample.org:443", "a.example.evil.example"}) {
        INFO(rule);
        const auto refused = set(some, {"a.example", rule}, SetBy::user_key);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == Errc::network_not_allowed);
        CHECK(has(refused.error().detail(), rule));
        CHECK(has(refused.error().detail(), "--egress-allow"));
        // Control: the same rule of a key without a user.
        CHECK(set(some, {"a.example", rule}, SetBy::operator_key));
    }
}

TEST_CASE("The asterisk alone is every public name") {
    const Ceilings all = ceilings({{"*"}, {}, {"10.0.0.5:443"}});
    CHECK(may_user_list(all, "a.example"));
    CHECK(may_user_list(all, "*.example.org"));
    CHECK(may_user_list(all, "*"));
    CHECK_FALSE(may_user_list(all, "a.example:22"));
    CHECK_FALSE(may_user_list(all, "8.8.8.8"));
    // A name of a stranger that leads to an address which the operator opened for others.
    const auto grant = judged(all, list({"a.example"}, SetBy::user_key), "a.example:443").grant;
    REQUIRE(grant);
    CHECK(grant->reach == Reach::public_only);
    CHECK(refusal(all, "10.0.0.5", 443, grant->reach) == "private");
    // Control: a ceiling that names the host.
    const Ceilings named = ceilings({{"*", "a.example"}, {}, {"10.0.0.5:443"}});
    const auto wider = judged(named, list({"a.example"}, SetBy::user_key), "a.example:443").grant;
    REQUIRE(wider);
    CHECK(refusal(named, "10.0.0.5", 443, wider->reach) == "none");
}

TEST_CASE("A key with a user lists no address, also where a range or a ceiling has it") {
    const Ceilings some = ceilings({{"127.0.0.1:8080", "8.8.8.8", "*"}, {}, {"127.0.0.0/8:8080"}});
    for (const char* rule : {"127.0.0.1:8080", "8.8.8.8", "[2606:4700::1111]"}) {
        INFO(rule);
        CHECK(set(some, {rule}, SetBy::user_key).error().code() == Errc::network_not_allowed);
        CHECK(set(some, {rule}, SetBy::operator_key));
    }
}

TEST_CASE("A special address needs its range and its port, for any key") {
    const Ceilings some = ceilings(
        {{}, {}, {"127.0.0.1/32:8080", "10.0.0.0/8:443", "[fd00::/8]:443", "fe80::/10:80", "[::1]:8080"}});
    for (const char* rule : {"127.0.0.1:8080", "127.0.0.1:8080/tcp", "10.1.2.3:443", "[fd00::1]:443",
                             "[fe80::1]:80", "[::1]:8080"}) {
        INFO(rule);
        CHECK(set(some, {rule}, SetBy::operator_key));
    }
    for (const char* rule :
         {"127.0.0.1:8081", "127.0.0.2:8080", "10.1.2.3", "10.1.2.3:80", "[::1]:443", "169.254.169.254:80",
          "192.168.0.1:443", "0.0.0.0:8080", "100.64.0.1:443", "[::]:8080", "[64:ff9b::7f00:1]:8080",
          "[2002:7f00:1::]:8080", "224.0.0.1:443"}) {
        INFO(rule);
        const auto refused = set(some, {rule}, SetBy::operator_key);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == Errc::network_not_allowed);
        CHECK(has(refused.error().detail(), "--egress-private"));
    }
    CHECK(refusal(some, "127.0.0.1", 8080, Reach::ranges) == "none");
    CHECK(refusal(some, "127.0.0.1", 8080, Reach::public_only) == "loopback");
    CHECK(refusal(some, "127.0.0.1", 8081, Reach::ranges) == "loopback");
    CHECK(refusal(some, "::ffff:127.0.0.1", 8080, Reach::ranges) == "IPv4 in IPv6");
    CHECK(refusal(some, "169.254.169.254", 80, Reach::ranges) == "link-local");
    CHECK(refusal(some, "8.8.8.8", 443, Reach::public_only) == "none");
}

TEST_CASE("An address of this host itself is refused, unless its range names it") {
    const Ceilings some = ceilings({{}, {}, {"203.0.113.7:8080"}});
    CHECK(refusal(some, "203.0.113.7", 443, Reach::ranges) == "this host's own");
    CHECK(refusal(some, "2001:db8::7", 443, Reach::ranges) == "this host's own");
    CHECK(refusal(some, "203.0.113.7", 8080, Reach::public_only) == "this host's own");
    CHECK(refusal(some, "203.0.113.7", 8080, Reach::ranges) == "none");
    CHECK(refusal(some, "203.0.113.8", 443, Reach::public_only) == "none");
}

TEST_CASE("A group stands for its patterns, in lists and in ceilings") {
    const Ceilings some = ceilings(
        {{"@npm", "*.example.org"},
         {"npm=registry.example:443,*.cdn.example:443", "lan=10.0.0.5:443,git.lan", "org=a.example.org"},
         {"10.0.0.5:443"}});
    CHECK(some.group_names() == Texts{"lan", "npm", "org"});
    CHECK(may_user_list(some, "@npm"));
    CHECK(may_user_list(some, "@org"));
    CHECK(may_user_list(some, "x.cdn.example:443"));
    CHECK_FALSE(may_user_list(some, "@lan"));
    CHECK(set(some, {"@lan"}, SetBy::operator_key));
    const auto unknown = set(some, {"@nmp"}, SetBy::operator_key);
    REQUIRE(unknown.has_error());
    CHECK(unknown.error().code() == Errc::invalid_field);
    CHECK(has(unknown.error().detail(), "`npm`"));

    const AllowList npm = list({"@npm"}, SetBy::user_key);
    CHECK(judged(some, npm, "registry.example:443").grant);
    CHECK(judged(some, npm, "a.cdn.example:443").grant);
    CHECK_FALSE(judged(some, npm, "registry.example:80").grant);
    CHECK_FALSE(judged(some, npm, "git.lan:443").grant);
    // A group that a later start does not have matches nothing.
    CHECK_FALSE(judged(ceilings({{"*"}, {}, {}}), npm, "registry.example:443").grant);
    // A group with an address of a range that is not open.
    const Ceilings closed = ceilings({{}, {"lan=10.0.0.5:443"}, {}});
    CHECK(set(closed, {"@lan"}, SetBy::operator_key).error().code() == Errc::network_not_allowed);
}

TEST_CASE("A request is judged by the list and by the ceilings of who set it") {
    const Ceilings some = ceilings({{"*.example.org", "git.example:22/tcp"}, {}, {}});
    const Texts texts{"a.example.org", "git.example:22/tcp", "*.example.net"};
    const AllowList of_user = list(texts, SetBy::user_key);
    CHECK(judged(some, of_user, "a.example.org:443").grant == Grant{Bytes::tls, Reach::ranges});
    CHECK(judged(some, of_user, "git.example:22").grant == Grant{Bytes::any, Reach::ranges});
    // The ceilings of a later start are narrower than those that the list was checked with.
    const Verdict beyond = judged(some, of_user, "x.example.net:443");
    CHECK_FALSE(beyond.grant);
    CHECK(beyond.reason == "not_listed");
    CHECK(has(beyond.why, "x.example.net:443"));
    CHECK(has(beyond.why, "--egress-allow"));
    CHECK(judged(some, list(texts, SetBy::operator_key), "x.example.net:443").grant);
    // The ceiling matches this one, the list does not.
    const Verdict unlisted = judged(some, of_user, "b.example.org:443");
    CHECK_FALSE(unlisted.grant);
    CHECK(unlisted.reason == "not_listed");
    CHECK(has(unlisted.why, "\"b.example.org:443\""));
    CHECK(judged(some, of_user, "8.8.8.8:443").reason == "ip_literal");
    CHECK_FALSE(judged(some, AllowList(), "a.example.org:443").grant);
}

TEST_CASE("A user's rules in an operator's list are held to the ceilings, and the operator's are not") {
    const Texts users{"a.example.org", "x.example.net", "both.example/tcp"};
    const AllowList mixed =
        AllowList::parse(Texts{"free.example", "a.example.org", "x.example.net", "both.example/tcp"},
                         SetBy::operator_key, users)
            .value();
    CHECK(mixed.set_by() == SetBy::operator_key);
    const Ceilings narrow = ceilings({{"*.example.org"}, {}, {}});
    CHECK(judged(narrow, mixed, "free.example:443").grant);
    CHECK(judged(narrow, mixed, "a.example.org:443").grant);
    const Verdict beyond = judged(narrow, mixed, "x.example.net:443");
    CHECK_FALSE(beyond.grant);
    CHECK(has(beyond.why, "--egress-allow"));
    CHECK(narrow.check(mixed).error().code() == Errc::network_not_allowed);
    const Ceilings wide = ceilings({{"*.example.org", "*.example.net", "both.example/tcp"}, {}, {}});
    CHECK(judged(wide, mixed, "x.example.net:443").grant);
    CHECK(wide.check(mixed));
    // A rule of each: they do not add up, and the wider one counts.
    const AllowList both = AllowList::parse(Texts{"a.example", "a.example:443/tcp"}, SetBy::operator_key,
                                            Texts{"a.example:443/tcp"})
                               .value();
    CHECK(judged(narrow, both, "a.example:443").grant == Grant{Bytes::tls, Reach::ranges});
    CHECK(judged(ceilings({{"*/tcp"}, {}, {}}), both, "a.example:443").grant ==
          Grant{Bytes::tls, Reach::ranges});
    CHECK(judged(ceilings({{"a.example/tcp"}, {}, {}}), both, "a.example:443").grant ==
          Grant{Bytes::any, Reach::ranges});
}

TEST_CASE("Any bytes pass only where the list and the ceiling say so") {
    const Ceilings tls = ceilings({{"a.example:443"}, {}, {}});
    const AllowList any = list({"a.example:443/tcp"}, SetBy::user_key);
    CHECK(judged(tls, any, "a.example:443").grant == Grant{Bytes::tls, Reach::ranges});
    const Ceilings wide = ceilings({{"a.example:443", "a.example:443/tcp"}, {}, {}});
    CHECK(judged(wide, any, "a.example:443").grant == Grant{Bytes::any, Reach::ranges});
    CHECK(judged(wide, list({"a.example"}, SetBy::user_key), "a.example:443").grant ==
          Grant{Bytes::tls, Reach::ranges});
}

TEST_CASE("A tunnel stays open while the new list grants as much") {
    const Grant tls{Bytes::tls, Reach::public_only};
    const Grant any{Bytes::any, Reach::ranges};
    CHECK(tls.holds(tls));
    CHECK(any.holds(tls));
    CHECK_FALSE(tls.holds(any));
    CHECK_FALSE(Grant{Bytes::tls, Reach::ranges}.holds(any));
    CHECK_FALSE(Grant{Bytes::any, Reach::public_only}.holds(any));
}

TEST_CASE("Values of flags that are none are refused") {
    Ceilings made;
    for (const char* text : {"", "https://a.example", "*.com", "127.1", "@", "a.example:0"}) {
        INFO(text);
        CHECK(made.allow(text).has_error());
    }
    for (const char* text : {"", "npm", "npm=", "=a.example", "n m=a.example", "npm=a.example,,b.example",
                             "npm=@other", "npm=a b"}) {
        INFO(text);
        CHECK(made.add_group(text).has_error());
    }
    REQUIRE(made.add_group("npm=a.example"));
    CHECK(has(made.add_group("npm=b.example").error().detail(), "twice"));
    for (const char* text : {"", "10.0.0.0/8", "10.0.0.1/8:443", "10.0.0.0/33:443", "10.0.0.0/8:0",
                             "10.0.0.0/8:65536", "10.0.0.0/8:443/tcp", "localhost:80", "::1:80", "fd00::1:80",
                             "[fd00::/8]", "[]:80", "10.0.0.0/8:*", ":80", "0x7f.1:80"}) {
        INFO(text);
        CHECK(made.allow_private(text).has_error());
    }
    REQUIRE(made.allow("@pip"));
    CHECK(has(made.check_groups().error().detail(), "@pip"));
    REQUIRE(made.add_group("pip=index.example:443"));
    CHECK(made.check_groups());
}

TEST_CASE("Flags are bounded in number") {
    Ceilings made;
    for (std::size_t i = 0; i < k_max_patterns; ++i)
        REQUIRE(made.allow("h" + std::to_string(i) + ".example"));
    CHECK(made.allow("one.more.example").has_error());
    for (std::size_t i = 0; i < k_max_groups; ++i)
        REQUIRE(made.add_group("g" + std::to_string(i) + "=a.example"));
    CHECK(made.add_group("more=a.example").has_error());
    for (std::size_t i = 0; i < k_max_private_ranges; ++i)
        REQUIRE(made.allow_private("10.0.0.0/8:" + std::to_string(i + 1)));
    CHECK(made.allow_private("10.0.0.0/8:443").has_error());
}

}  // namespace egress_ceilings_test
