#include "http/egress/resolver.hpp"

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/temp_dir.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/dns_server.hpp"

namespace resolver_test {

using namespace atl;
using namespace std::chrono_literals;
using http::Resolution;
using http::Resolver;
using Status = Resolution::Status;
using test::dns_address;
using test::dns_reply;
using test::DnsCode;
using test::DnsQuestion;
using Replies = test::DnsServer::Replies;

namespace {

constexpr base::Millis k_deadline{5000};

// Time stands still, except where a test moves it; sockets are real.
class Lab {
  public:
    explicit Lab(std::vector<test::DnsRecord> records = {}) {
        write_servers("nameserver 127.0.0.1\nsearch evil.example\noptions ndots:5\n");
        if (!records.empty())
            server.answer = [records](const DnsQuestion& question) {
                return Replies{dns_reply(question, records)};
            };
        restart();
    }
    void restart(http::AddressCache::Bounds cache = {}, const std::string& hosts = "/etc/hosts") {
        resolver.reset();
        resolver = std::make_unique<Resolver>(loop.get_executor(), timers, clock,
                                              Resolver::Options{servers_file(), server.port(), cache, hosts});
    }
    // Replaced, as network managers do: another file, whatever the resolution of its times.
    void write_servers(const std::string& text) {
        const std::string fresh = servers_file() + ".new";
        std::ofstream(fresh) << text;
        std::filesystem::rename(fresh, servers_file());
    }
    std::unique_ptr<Resolver::Query> start(const std::string& name, base::Millis deadline = k_deadline) {
        Resolver::Shares shares;
        shares.push_back(lookups.take(base::ShareHolder::thing("sbx_1"), 1).value());
        return resolver->start(name, std::move(shares), deadline, [this] { ++told; });
    }
    template <class Done>
    void until(const Done& done) {
        while (!done()) {
            if (!timers.run_deferred()) {
                loop.restart();
                loop.run_one();
            }
        }
    }
    Resolution resolve(const std::string& name) {
        const auto query = start(name);
        until([&] { return query->answer() != nullptr; });
        return *query->answer();
    }
    std::string servers_file() const { return (folder.path() / "resolv.conf").string(); }

    boost::asio::io_context loop{1};
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    bench::TempDir folder;
    test::DnsServer server{loop};
    base::Budget lookups{{"lookups", "look-ups", "", 100}, 100};
    std::size_t told = 0;
    std::unique_ptr<Resolver> resolver;
};

std::vector<std::string> texts(const Resolution& resolution) {
    std::vector<std::string> all;
    for (const auto& address : resolution.addresses)
        all.push_back(address.to_string());
    return all;
}

}  // namespace

TEST_CASE("a name has the addresses of both families, which alternate") {
    Lab lab({dns_address("192.0.2.1"), dns_address("192.0.2.2"), dns_address("2001:db8::1"),
             dns_address("::ffff:127.0.0.1")});
    const auto found = lab.resolve("API.example.com.");
    CHECK(found.status == Status::found);
    // An IPv4 address that is mapped into IPv6 is an IPv4 address.
    CHECK(texts(found) == std::vector<std::string>{"192.0.2.1", "2001:db8::1", "192.0.2.2", "127.0.0.1"});
    CHECK(lab.server.asked("api.example.com") == 2);
    CHECK(lab.lookups.used() == 0);
}

TEST_CASE("no search domain is tried") {
    Lab lab;
    lab.server.answer = [](const DnsQuestion& question) {
        return Replies{dns_reply(question, {}, DnsCode::no_such_name)};
    };
    CHECK(lab.resolve("intranet").status == Status::no_addresses);
    CHECK(lab.server.asked("intranet") == 2);
    CHECK(lab.server.questions.size() == 2);
}

TEST_CASE("a literal and what is no name are asked for nowhere") {
    Lab lab({dns_address("192.0.2.1")});
    for (const std::string text :
         {"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "a.0x", "::1", "[::1]", "a..b", ".", "",
          "-%00", "a b", "a\tb", "ex\xc3\xa4mple.com", "fe80::1%eth0", ".a", "a.."})
        CHECK(lab.start(text)->answer()->status == Status::not_a_name);
    CHECK(lab.start(std::string("a\0.example.com", 14))->answer()->status == Status::not_a_name);
    CHECK(lab.start(std::string(64, 'a') + ".com")->answer()->status == Status::not_a_name);
    std::string longest;  // 253 characters
    for (int label = 0; label < 63; ++label)
        longest += "abc.";
    longest += 'a';
    CHECK(lab.start("a" + longest)->answer()->status == Status::not_a_name);
    CHECK(lab.server.questions.empty());
    CHECK(lab.lookups.used() == 0);
    CHECK(lab.resolve(longest).status == Status::found);
    CHECK(lab.resolve("_a-1." + std::string(63, 'b') + ".x1").status == Status::found);
    CHECK(lab.server.questions.size() == 4);
}

TEST_CASE("a name of the hosts file is not asked for") {
    Lab lab({dns_address("192.0.2.1")});
    const auto query = lab.start("localhost");
    REQUIRE(query->answer());
    REQUIRE(query->answer()->status == Status::found);
    CHECK(query->answer()->addresses.front().is_loopback());
    CHECK(lab.server.questions.empty());
}

TEST_CASE("The hosts file is read once a version of it, and a name has all of its addresses there") {
    Lab lab({dns_address("192.0.2.1")});
    const auto hosts = lab.folder.path() / "hosts";
    std::ofstream(hosts)
        << "192.0.2.7 Inner.example alias\n2001:db8::7\tinner.example\n192.0.2.8 inner.example";
    lab.restart({}, hosts);
    const auto seven = std::vector<std::string>{"192.0.2.7", "2001:db8::7", "192.0.2.8"};
    CHECK(texts(lab.resolve("inner.EXAMPLE.")) == seven);
    CHECK(lab.server.questions.empty());
    // Another text whose size and times are those of the text before.
    const auto written = std::filesystem::last_write_time(hosts);
    std::ofstream(hosts)
        << "192.0.2.9 Inner.example alias\n2001:db8::9\tinner.example\n192.0.2.9 inner.example";
    std::filesystem::last_write_time(hosts, written);
    lab.clock.advance(Resolver::k_own_ttl);
    CHECK(texts(lab.resolve("inner.example")) == seven);
    CHECK(texts(lab.resolve("alias")) == std::vector<std::string>{"192.0.2.7"});
    // Control: another time is another version.
    std::filesystem::last_write_time(hosts, written + 1s);
    lab.clock.advance(Resolver::k_own_ttl);
    CHECK(texts(lab.resolve("alias")) == std::vector<std::string>{"192.0.2.9"});
    std::filesystem::remove(hosts);
    lab.clock.advance(Resolver::k_own_ttl);
    CHECK(texts(lab.resolve("alias")) == std::vector<std::string>{"192.0.2.1"});
}

TEST_CASE("an answer is kept for its shortest time") {
    Lab lab({{test::k_dns_alias, test::dns_name_bytes("b.example.com"), 20, ""},
             {test::k_dns_a, std::string("\xc0\0\x02\1", 4), 60, "b.example.com"}});
    CHECK(texts(lab.resolve("a.example.com")) == std::vector<std::string>{"192.0.2.1"});
    lab.clock.advance(19s);
    CHECK(lab.start("A.example.com.")->answer());
    CHECK(lab.server.questions.size() == 2);
    lab.clock.advance(1s);
    CHECK(lab.resolve("a.example.com").status == Status::found);
    CHECK(lab.server.questions.size() == 4);
}

TEST_CASE("an answer that is valid once is not kept, and one for ever not for ever") {
    Lab lab({dns_address("192.0.2.1", 0)});
    CHECK(lab.resolve("a.example.com").status == Status::found);
    CHECK_FALSE(lab.start("a.example.com")->answer());
    lab.restart();
    lab.server.answer = [](const DnsQuestion& question) {
        return Replies{dns_reply(question, {dns_address("192.0.2.1", 0x7fffffff)})};
    };
    CHECK(lab.resolve("a.example.com").status == Status::found);
    lab.clock.advance(Resolver::k_longest_ttl - 1s);
    CHECK(lab.start("a.example.com")->answer());
    lab.clock.advance(1s);
    CHECK_FALSE(lab.start("a.example.com")->answer());
}

TEST_CASE("that there is no address is kept for a short time, and a failure is not") {
    Lab lab;
    auto code = DnsCode::no_such_name;
    lab.server.answer = [&](const DnsQuestion& question) { return Replies{dns_reply(question, {}, code)}; };
    CHECK(lab.resolve("a.example.com").status == Status::no_addresses);
    CHECK(lab.start("a.example.com")->answer());
    lab.clock.advance(Resolver::k_own_ttl);
    for (const auto failure : {DnsCode::server_failure, DnsCode::refused}) {
        code = failure;
        CHECK(lab.resolve("a.example.com").status == Status::server_failed);
    }
    code = DnsCode::ok;
    CHECK(lab.resolve("a.example.com").status == Status::no_addresses);
}

TEST_CASE("equal look-ups at the same time are one") {
    Lab lab({dns_address("192.0.2.1", 0)});
    std::vector<std::unique_ptr<Resolver::Query>> queries;
    for (const std::string name : {"a.example.com", "A.EXAMPLE.com", "a.example.com.", "b.example.com"})
        queries.push_back(lab.start(name));
    CHECK(lab.resolver->open_lookups() == 2);
    CHECK(lab.lookups.used() == 4);
    lab.until([&] { return lab.told == 4; });
    for (const auto& query : queries)
        CHECK(query->answer()->status == Status::found);
    CHECK(lab.server.asked("a.example.com") == 2);
    CHECK(lab.server.asked("b.example.com") == 2);
    CHECK(lab.lookups.used() == 0);
}

TEST_CASE("a query that is destroyed hears nothing, and its look-up serves the next one") {
    Lab lab({dns_address("192.0.2.1")});
    lab.start("a.example.com").reset();
    CHECK(lab.lookups.used() == 1);
    {
        const auto other = lab.start("a.example.com");
        CHECK(lab.lookups.used() == 2);
    }
    CHECK(lab.lookups.used() == 1);  // that of the look-up
    lab.until([&] { return lab.resolver->open_lookups() == 0; });
    while (lab.timers.run_deferred()) {
    }
    CHECK(lab.told == 0);
    CHECK(lab.lookups.used() == 0);
    CHECK(lab.start("a.example.com")->answer());
    CHECK(lab.server.questions.size() == 2);
}

TEST_CASE("whoever is told may end other queries and start new ones") {
    Lab lab({dns_address("192.0.2.1", 0)});
    std::unique_ptr<Resolver::Query> first;
    std::unique_ptr<Resolver::Query> second;
    std::unique_ptr<Resolver::Query> third;
    first = lab.resolver->start("a.example.com", {}, k_deadline, [&] {
        ++lab.told;
        second.reset();
        third = lab.start("a.example.com");
        first.reset();
    });
    second = lab.start("a.example.com");
    lab.until([&] { return lab.told == 2; });
    CHECK_FALSE(first);
    CHECK(third->answer()->status == Status::found);
}

TEST_CASE("a dead server costs a query its deadline, and the look-up its share until it is given up") {
    Lab lab;
    const auto query = lab.start("a.example.com", 5s);
    lab.until([&] { return lab.server.questions.size() >= 2; });
    lab.timers.advance(4999ms);
    CHECK_FALSE(query->answer());
    const auto late = lab.start("a.example.com", 5s);
    lab.timers.advance(1ms);
    REQUIRE(query->answer());
    CHECK(query->answer()->status == Status::timed_out);
    CHECK(lab.told == 1);
    CHECK_FALSE(late->answer());
    CHECK(lab.lookups.used() == 2);
    lab.timers.advance(5s);
    CHECK(late->answer()->status == Status::timed_out);
    CHECK(lab.lookups.used() == 1);
    CHECK(lab.resolver->open_lookups() == 1);
    lab.resolver.reset();
    CHECK(lab.lookups.used() == 0);
    CHECK(lab.timers.armed() == 0);
}

TEST_CASE("IPv4 addresses do not wait long for IPv6 ones that never come") {
    Lab lab;
    lab.server.answer = [](const DnsQuestion& question) {
        return question.type == test::k_dns_a ? Replies{dns_reply(question, {dns_address("192.0.2.1")})}
                                              : Replies{};
    };
    const auto query = lab.start("a.example.com");
    const auto hasty = lab.start("a.example.com", 100ms);
    lab.until(
        [&] { return lab.timers.armed() == 4; });  // the two deadlines, the repetition, the other family
    lab.timers.advance(100ms);
    REQUIRE(hasty->answer());
    CHECK(hasty->answer()->status == Status::found);
    CHECK_FALSE(query->answer());
    lab.timers.advance(Resolver::k_other_family_wait);
    lab.until([&] { return query->answer() != nullptr; });
    CHECK(texts(*query->answer()) == std::vector<std::string>{"192.0.2.1"});
    CHECK(lab.start("a.example.com")->answer());
}

TEST_CASE("an answer of many addresses comes over TCP and is cut") {
    Lab lab;
    // The most that a message can hold.
    const int count = GENERATE(200, 2300);
    std::vector<test::DnsRecord> records;
    for (int number = 0; number < count; ++number) {
        records.push_back(dns_address("192.0.2." + std::to_string(number % 256)));
        records.push_back(dns_address("2001:db8::" + std::to_string(number)));
    }
    lab.server.answer = [&](const DnsQuestion& question) {
        if (question.transport == DnsQuestion::Transport::udp)
            return Replies{dns_reply(question, {}, DnsCode::ok, test::k_dns_truncated)};
        return Replies{dns_reply(question, records)};
    };
    const auto found = lab.resolve("a.example.com");
    REQUIRE(found.addresses.size() == Resolver::k_max_addresses);
    CHECK(found.addresses[0].is_v4());
    CHECK(found.addresses[63].is_v6());
}

TEST_CASE("an answer with another id or to another question is none") {
    Lab lab;
    lab.server.answer = [](const DnsQuestion& question) {
        const std::vector<test::DnsRecord> wrong{dns_address("198.51.100.1"), dns_address("2001:db8::bad")};
        DnsQuestion forged = question;
        forged.id ^= 1U;
        DnsQuestion other = question;
        other.section =
            test::dns_name_bytes("evil.example") + question.section.substr(other.section.size() - 4);
        return Replies{dns_reply(forged, wrong), dns_reply(other, wrong),
                       dns_reply(question, {dns_address("192.0.2.1")})};
    };
    CHECK(texts(lab.resolve("a.example.com")) == std::vector<std::string>{"192.0.2.1"});
}

TEST_CASE("chains and circles of aliases end") {
    std::vector<test::DnsRecord> circle;
    for (int number = 0; number < 100; ++number)
        circle.push_back({test::k_dns_alias,
                          test::dns_name_bytes('n' + std::to_string((number + 1) % 100) + ".example.com"), 60,
                          'n' + std::to_string(number) + ".example.com"});
    Lab lab(circle);
    CHECK(lab.resolve("n0.example.com").status != Status::found);
    CHECK(lab.server.asked("n0.example.com") == lab.server.questions.size());
}

TEST_CASE("bytes that are no answer end the look-up or are passed over") {
    Lab lab;
    lab.server.answer = [](const DnsQuestion& question) {
        const auto whole = dns_reply(question, {dns_address("192.0.2.1"), dns_address("2001:db8::1")});
        Replies replies;
        for (std::size_t size = 0; size < whole.size(); ++size)
            replies.push_back(whole.substr(0, size));
        replies.push_back(whole);
        return replies;
    };
    const auto query = lab.start("a.example.com");
    lab.until([&] { return query->answer() || lab.server.questions.size() == 2; });
    lab.timers.advance(k_deadline, [&] {
        while (lab.loop.poll_one() != 0) {
        }
    });
    REQUIRE(query->answer());
    for (const auto& text : texts(*query->answer()))
        CHECK((text == "192.0.2.1" || text == "2001:db8::1"));
}

TEST_CASE("the servers are read again when the file has changed") {
    Lab lab({dns_address("192.0.2.1")});
    test::DnsServer second(lab.loop, "127.0.0.2", lab.server.port());
    second.answer = [](const DnsQuestion& question) {
        return Replies{dns_reply(question, {dns_address("192.0.2.2")})};
    };
    CHECK(texts(lab.resolve("a.example.com")) == std::vector<std::string>{"192.0.2.1"});
    lab.server.answer = [](const DnsQuestion&) { return Replies{}; };
    const auto waiting = lab.start("b.example.com");
    lab.until([&] { return lab.server.asked("b.example.com") == 2; });
    lab.write_servers("nameserver 127.0.0.2\n");
    // The answers of the old servers count no more, and look-ups that wait for them ask the new ones.
    CHECK(texts(lab.resolve("a.example.com")) == std::vector<std::string>{"192.0.2.2"});
    lab.until([&] { return waiting->answer() != nullptr; });
    CHECK(texts(*waiting->answer()) == std::vector<std::string>{"192.0.2.2"});
    CHECK(lab.server.questions.size() == 4);
    CHECK(second.questions.size() == 4);
}

TEST_CASE("a socket that is closed and made again is watched anew") {
    Lab lab({dns_address("192.0.2.1", 0)});
    for (int round = 0; round < 50; ++round)
        REQUIRE(lab.resolve("a.example.com").status == Status::found);
    CHECK(lab.server.questions.size() == 100);
}

TEST_CASE("kept answers are bounded in number and in bytes, the least recently used go first") {
    using namespace std::string_literals;
    const base::SteadyTime now{1s};
    const auto of = [](std::size_t count) {
        auto resolution = std::make_shared<Resolution>();
        resolution->status = Status::found;
        resolution->addresses.resize(count);
        return resolution;
    };
    SECTION("number") {
        http::AddressCache cache({3, 1'000'000});
        for (const auto& name : {"a"s, "b"s, "c"s})
            cache.put(name, of(1), now + 10s);
        CHECK(cache.find("a", now));
        cache.put("d", of(1), now + 10s);
        CHECK(cache.entries() == 3);
        CHECK_FALSE(cache.find("b", now));
        CHECK(cache.find("a", now));
        cache.put("a", of(2), now + 20s);
        CHECK(cache.entries() == 3);
        CHECK(cache.find("a", now + 19s)->addresses.size() == 2);
        CHECK_FALSE(cache.find("c", now + 10s));
        CHECK(cache.entries() == 2);
        cache.clear();
        CHECK(cache.bytes() == 0);
    }
    SECTION("bytes") {
        http::AddressCache cache({1'000'000, 100'000});
        for (int number = 0; number < 1000; ++number) {
            cache.put(std::to_string(number), of(64), now + 10s);
            REQUIRE(cache.bytes() <= 100'000);
        }
        CHECK(cache.entries() > 10);
        CHECK(cache.find("999", now));
        CHECK_FALSE(cache.find("0", now));
        cache.put("large", of(100'000), now + 10s);
        CHECK_FALSE(cache.find("large", now));
    }
}

}  // namespace resolver_test
