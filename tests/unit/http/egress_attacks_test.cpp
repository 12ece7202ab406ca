// Ways around egress proxies that are known from the wild, hostile programs inside, hostile upstreams and
// name servers: against the proxy of a sandbox with the parts that a server has. Each has its control, the
// same towards a host that is allowed.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "core/base/preview_times.hpp"
#include "core/plain/egress_limits.hpp"
#include "tests/unit/http/client_hello_bytes.hpp"
#include "tests/unit/http/egress_house.hpp"
#include "tests/unit/http/tls_upstream.hpp"

namespace egress_attacks_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using Replies = DnsServer::Replies;

namespace {

const std::string k_open = "HTTP/1.1 200 Connection Established\r\n\r\n";
const std::string k_target = "a.example:PORT";

std::string tunnel_to(const std::string& target) {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: a.example\r\n\r\n";
}

std::string get(const std::string& target) {
    return "GET http://" + target + "/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// From now on every name has these addresses.
void resolve_to(EgressHouse& house, const std::vector<std::string>& addresses) {
    house.names.answer = [addresses](const DnsQuestion& question) {
        std::vector<DnsRecord> records;
        for (const std::string& address : addresses)
            records.push_back(dns_address(address));
        return Replies{dns_reply(question, records)};
    };
}

/// A TLS client in memory that begins with a.example, and names `second` when the server asks again.
class RetryClient {
  public:
    explicit RetryClient(const char* second) : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
        tls_bytes::name_another_on_retry(context_.get(), second);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_bio(ssl_.get(), in_, out_);
        SSL_set_connect_state(ssl_.get());
        SSL_set_tlsext_host_name(ssl_.get(), "a.example");
    }
    /// Gives it these bytes, and gets those that it then sends.
    std::string step(const std::string& bytes) {
        if (!bytes.empty())
            REQUIRE(BIO_write(in_, bytes.data(), static_cast<int>(bytes.size())) > 0);
        SSL_do_handshake(ssl_.get());
        std::string sent(BIO_ctrl_pending(out_), '\0');
        if (!sent.empty())
            BIO_read(out_, sent.data(), static_cast<int>(sent.size()));
        return sent;
    }
    bool is_done() const { return SSL_is_init_finished(ssl_.get()) == 1; }

  private:
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
    BIO* const in_ = BIO_new(BIO_s_mem());
    BIO* const out_ = BIO_new(BIO_s_mem());
};

/// The same for a TLS server.
std::string server_step(TlsUpstream& server, const std::string& bytes) {
    REQUIRE(::send(server.client_end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    server.shake_hands();
    std::array<char, 16UL * 1024> room{};
    const ssize_t got = ::recv(server.client_end.get(), room.data(), room.size(), MSG_DONTWAIT);
    return {room.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

std::string name_at(TlsUpstream& server) {
    const char* const name = SSL_get_servername(server.ssl(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
}

std::vector<std::string> dialed(const EgressHouse& house) {
    std::vector<std::string> texts;
    for (const auto& addresses : house.dialed) {
        for (const auto& address : addresses)
            texts.push_back(address.to_string());
    }
    return texts;
}

}  // namespace

TEST_CASE("No other spelling of a host passes the list, and no name server hears of one") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    const std::pair<std::string, std::string> targets[] = {
        {"evil.example:PORT", "403"},
        {"data-in-a-label.evil.example:PORT", "403"},
        {"a.example.evil.example:PORT", "403"},
        {"sub.a.example:PORT", "403"},
        {"xa.example:PORT", "403"},
        {"a.example:443", "403"},
        {"localhost:PORT", "403"},
        {"127.0.0.2:PORT", "403"},
        {"[::1]:PORT", "403"},
        {"[64:ff9b::7f00:2]:PORT", "403"},
        {"127.2:PORT", "400"},
        {"0x7f.2:PORT", "400"},
        {"0x7f000002:PORT", "400"},
        {"0177.0.0.2:PORT", "400"},
        {"2130706434:PORT", "400"},
        {"[::ffff:127.0.0.2]:PORT", "400"},
        {"[fe80::1%eth0]:PORT", "400"},
        {"a.example..:PORT", "400"},
        {"a.example%00.evil.example:PORT", "400"},
        {"a.example\0.evil.example:PORT"s, "400"},
        {"a.example%2eevil.example:PORT", "400"},
        {"a.example@evil.example:PORT", "400"},
        {"evil.example:PORT@a.example:PORT", "400"},
        {"evil.example\\@a.example:PORT", "400"},
        {"evil.example#@a.example:PORT", "400"},
        {"\xef\xbd\x81.example:PORT", "400"},
        {"a.example:0", "400"},
        {"a.example:+443", "400"},
        {"a.example:65979", "400"},
    };
    for (const auto& [target, status] : targets) {
        INFO(target);
        CHECK(house.status(tunnel_to(target)) == status);
        CHECK(house.status(get(target)) == status);
    }
    CHECK(house.names.questions.empty());
    CHECK(house.dialed.empty());
    for (const std::string target : {"a.example:PORT", "A.Example.:PORT"}) {
        INFO(target);
        const auto inside = house.connect_through(tunnel_to(target));
        CHECK(house.take_bytes(*inside, k_open.size()) == k_open);
        house.connect_through(get(target));
        CHECK(house.upstream_bytes(1).starts_with("GET / HTTP/1.1\r\n"));
    }
}

TEST_CASE("An address literal is reached only if that literal is listed") {
    EgressHouse house({"127.0.0.2:PORT"});
    CHECK(house.status(get("127.0.0.3:PORT")) == "403");
    CHECK(house.status(get("a.example:PORT")) == "403");
    house.connect_through(get("127.0.0.2:PORT"));
    CHECK(contains(house.upstream_bytes(1), house.with_port("\r\nHost: 127.0.0.2:PORT\r\n")));
    CHECK(house.names.questions.empty());
}

TEST_CASE("A listed name is dialled at none of its addresses that are not public") {
    EgressHouse house({"*.a.example:PORT"});
    int number = 0;
    // The loopback of the host, its networks, the metadata of clouds, and IPv4 addresses in IPv6 ones.
    for (const std::string address :
         {"127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
          "224.0.0.1", "255.255.255.255", "::1", "fe80::1", "fd00:ec2::254", "::ffff:10.0.0.1",
          "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::127.0.0.2"}) {
        INFO(address);
        resolve_to(house, {address});
        const std::string target = 'n' + std::to_string(++number) + ".a.example:PORT";
        CHECK(house.status(tunnel_to(target)) == "403");
        CHECK(house.status(get(target)) == "403");
    }
    CHECK(house.dialed.empty());
    resolve_to(house, {"10.0.0.1", "127.0.0.2", "169.254.169.254"});
    house.connect_through(get("mixed.a.example:PORT"));
    CHECK(dialed(house) == std::vector<std::string>{"127.0.0.2"});
}

TEST_CASE(
    "A name that changes its address between two requests is checked at each, and connected as checked") {
    EgressHouse house({k_target});
    std::string address = "127.0.0.1";
    house.names.answer = [&](const DnsQuestion& question) {
        // Asked once more for the same request, it would say another one.
        const std::string said = question.type == k_dns_a ? std::exchange(address, "127.0.0.1") : "::1";
        return Replies{dns_reply(question, {dns_address(said, 0)})};
    };
    CHECK(house.status(get(k_target)) == "403");
    address = "127.0.0.2";
    house.connect_through(get(k_target));
    CHECK(contains(house.upstream_bytes(1), "GET / "));
    CHECK(house.upstreams.back()->socket.local_endpoint().address().to_string() == "127.0.0.2");
    CHECK(house.status(get(k_target)) == "403");
    CHECK(dialed(house) == std::vector<std::string>{"127.0.0.2"});
    CHECK(house.names.asked("a.example") == 6);  // once a request and family
}

TEST_CASE("A tunnel whose first bytes are not TLS for its host is cut before the upstream has one of them") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    std::string with_nul = tls_bytes::hello("a.example.evil.example");
    with_nul[with_nul.find("a.example.evil") + 9] = '\0';
    const tls_bytes::Extension ech{0xfe0d, std::string(200, 'e')};
    const std::string two_names =
        tls_bytes::names(tls_bytes::server_name("a.example") + tls_bytes::server_name("evil.example"));
    const std::string refused[] = {tls_bytes::hello("evil.example"),
                                   tls_bytes::hello("sub.a.example"),
                                   tls_bytes::hello(nullptr),
                                   tls_bytes::hello("outer.example", 0, {ech}),
                                   tls_bytes::hello("a.example", 0, {{0x4242, std::string(17'000, 'k')}}),
                                   tls_bytes::record(tls_bytes::message_with({{0, two_names}})),
                                   with_nul,
                                   "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
                                   "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
                                   "SSH-2.0-x\r\n",
                                   "\x16\x03\x01\x00\x00"s,
                                   "\0"s};
    for (const std::string& bytes : refused) {
        INFO(bytes.substr(0, 30));
        const auto inside = house.connect_through(tunnel_to(k_target));
        house.send(*inside, bytes);
        house.until([&] { return inside->is_closed(); });
        CHECK(inside->was_reset());
        CHECK(house.upstream_bytes(1).empty());
    }
    // The name behind a key share for post-quantum cryptography, in one record, in two hundred, and a byte in
    // each.
    const std::string late = tls_bytes::record(tls_bytes::message_with(
        {{0x33, std::string(1'400, 'k')}, {0, tls_bytes::names(tls_bytes::server_name("a.example"))}}));
    for (const std::string& bytes :
         {tls_bytes::hello("a.example"), tls_bytes::hello("A.Example."), late,
          tls_bytes::in_records(late, 1 + late.size() / 200), tls_bytes::in_records(late, 1)}) {
        const auto inside = house.connect_through(tunnel_to(k_target) + bytes);
        CHECK(house.upstream_bytes(bytes.size()) == bytes);
        house.answer("back");
        CHECK(house.take_bytes(*inside, k_open.size() + 4) == k_open + "back");
    }
}

TEST_CASE("A second ClientHello that the upstream asks for passes only for the host of the tunnel") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    for (const char* second : {"evil.example", "a.example"}) {
        INFO(second);
        // Control: without the proxy the second name counts.
        RetryClient direct(second);
        TlsUpstream reached(issued("DNS:a.example"));
        const std::string question = server_step(reached, direct.step(""));
        server_step(reached, direct.step(question));
        CHECK(name_at(reached) == second);

        RetryClient client(second);
        TlsUpstream server(issued("DNS:a.example"));
        const std::string first = client.step("");
        const auto inside = house.connect_through(tunnel_to(k_target) + first);
        CHECK(house.upstream_bytes(first.size()) == first);
        const std::string retry = server_step(server, first);
        house.answer(retry);
        const std::string heard = house.take_bytes(*inside, k_open.size() + retry.size());
        CHECK(heard == k_open + retry);
        const std::string again = client.step(retry);
        REQUIRE(contains(again, second));
        house.send(*inside, again);
        if (second == "evil.example"s) {
            house.until([&] { return inside->is_closed() && house.upstreams.back()->ended; });
            CHECK(inside->was_reset());
            CHECK_FALSE(contains(house.upstreams.back()->received, second));
            continue;
        }
        CHECK(house.upstream_bytes(first.size() + again.size()) == first + again);
        const std::string answer = server_step(server, again);
        house.answer(answer);
        const std::string finished = client.step(house.take_bytes(*inside, answer.size()));
        CHECK(client.is_done());
        house.send(*inside, finished);
        CHECK(house.upstream_bytes(first.size() + again.size() + finished.size()) ==
              first + again + finished);
    }
    // A program that does not wait for the question.
    RetryClient hasty("evil.example");
    TlsUpstream server(issued("DNS:a.example"));
    const std::string first = hasty.step("");
    const std::string retry = server_step(server, first);
    const auto inside = house.connect_through(tunnel_to(k_target) + first + hasty.step(retry));
    CHECK(contains(house.upstream_bytes(first.size()), first));
    house.answer(retry);
    house.until([&] { return inside->is_closed() && house.upstreams.back()->ended; });
    CHECK_FALSE(contains(house.upstreams.back()->received, "evil.example"));
}

TEST_CASE("Neither Host nor a path leads elsewhere, and a redirect leads nowhere") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    const std::string path = "/x/../%2e%2e//evil.example";
    const auto inside = house.connect_through("GET http://a.example:PORT" + path +
                                              " HTTP/1.1\r\nHost: evil.example\r\nX-Last: 1\r\n\r\n");
    house.until([&] { return contains(house.upstreams.back()->received, "X-Last: 1\r\n\r\n"); });
    CHECK(house.upstreams.back()->received ==
          house.with_port("GET " + path + " HTTP/1.1\r\nHost: a.example:PORT\r\nX-Last: 1\r\n\r\n"));
    const std::string location = house.with_port("Location: http://127.0.0.1:PORT/\r\n");
    house.answer("HTTP/1.1 302 Found\r\n" + location + "Content-Length: 0\r\n\r\n");
    std::string answer;
    house.until([&] { return contains(answer += inside->take(), "\r\n\r\n"); });
    CHECK(contains(answer, location));
    CHECK(house.status(get("127.0.0.1:PORT")) == "403");
    CHECK(house.status("GET http://a.example:PORT/ HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n") ==
          "400");
    CHECK(house.upstreams.size() == 1);
    CHECK(house.dialed.size() == 1);
}

TEST_CASE(
    "A head that comes a byte a second, or is a megabyte long, is refused before anything is looked up") {
    EgressHouse house({k_target});
    const auto slow = house.connect("G");
    for (auto passed = 0s; passed < base::k_header_deadline; passed += 1s) {
        CHECK(house.take(*slow).empty());
        house.send(*slow, "X");
        house.advance(1s);
    }
    CHECK(house.take(*slow).starts_with("HTTP/1.1 408 "));
    CHECK(house.status("GET http://a.example:PORT/ HTTP/1.1\r\nX: " + std::string(1'000'000, 'x')) == "431");
    CHECK(house.status("CONNECT " + std::string(1'000'000, 'x')) == "414");
    CHECK(house.names.questions.empty());
}

TEST_CASE("A ClientHello that comes a byte a second ends with the time for it") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    const std::string bytes = tls_bytes::hello("a.example");
    const auto slow = house.connect_through(tunnel_to(k_target));
    CHECK(house.take_bytes(*slow, k_open.size()) == k_open);
    std::size_t sent = 0;
    for (base::Millis passed{0}; passed < base::k_egress_opening_time; passed += 1s) {
        CHECK_FALSE(slow->is_closed());
        house.send(*slow, bytes.substr(sent++, 1));
        house.advance(1s);
    }
    CHECK(slow->was_reset());
    CHECK(house.upstream_bytes(1).empty());
    CHECK(house.door->open() == 0);
}

TEST_CASE("What a program sends behind a tunnel that is refused is no request to others") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    const auto inside = house.connect(tunnel_to("evil.example:PORT") + tls_bytes::hello("evil.example"));
    std::string text;
    house.until([&] {
        text += inside->take();
        return contains(text, "HTTP/1.1 400 ") || inside->input_ended();
    });
    CHECK(text.starts_with("HTTP/1.1 403 "));
    CHECK(house.dialed.empty());
}

TEST_CASE("An upstream that never answers is given up, in words that name it") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    const auto inside = house.connect_through(get(k_target));
    CHECK(contains(house.upstream_bytes(1), "GET / "));
    house.advance(base::k_relay_answer_time - 1ms);
    CHECK(house.take(*inside).empty());
    house.advance(1ms);
    const std::string answer = house.take(*inside);
    CHECK(answer.starts_with("HTTP/1.1 504 "));
    CHECK(contains(answer, house.with_port("a.example:PORT did not answer in time.")));
}

TEST_CASE("An upstream that breaks HTTP gets no byte of it through, and a part of an answer is cut") {
    EgressHouse house({k_target});
    resolve_to(house, {"127.0.0.2"});
    std::string interim;
    for (std::size_t i = 0; i < 1'000; ++i)
        interim += "HTTP/1.1 100 Continue\r\n\r\n";
    for (const std::string& bytes :
         {"HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'x'), interim,
          "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"s,
          "SSH-2.0-x\r\n\r\n"s,
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc"s}) {
        INFO(bytes.substr(0, 80));
        const auto inside = house.connect_through(get(k_target));
        CHECK(contains(house.upstream_bytes(1), "GET / "));
        house.answer(bytes);
        CHECK(house.take_bytes(*inside, 13).starts_with("HTTP/1.1 502 "));
    }
    const auto inside = house.connect_through(get(k_target));
    CHECK(contains(house.upstream_bytes(1), "GET / "));
    house.answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    house.until([&] { return contains(inside->take(), "abc"); });
    house.upstreams.back()->socket.close();
    house.until([&] { return inside->is_closed(); });
    CHECK(inside->was_reset());
}

TEST_CASE("A name without an address, and one that no name server answers for, are told apart") {
    EgressHouse house({"*.a.example:PORT"});
    resolve_to(house, {});
    CHECK(house.status(get("empty.a.example:PORT")) == "502");
    for (const DnsCode code : {DnsCode::no_such_name, DnsCode::server_failure}) {
        house.names.answer = [code](const DnsQuestion& question) {
            return Replies{dns_reply(question, {}, code)};
        };
        CHECK(house.status(get("n" + std::to_string(static_cast<int>(code)) + ".a.example:PORT")) == "502");
    }
    house.names.answer = [](const DnsQuestion&) { return Replies{}; };
    const auto inside = house.connect(get("dead.a.example:PORT"));
    house.until([&] { return house.names.asked("dead.a.example") >= 2; });
    house.advance(base::k_egress_look_up_time - 1ms);
    CHECK(house.take(*inside).empty());
    house.advance(1ms);
    const std::string answer = house.take(*inside);
    CHECK(answer.starts_with("HTTP/1.1 504 "));
    CHECK(contains(answer, house.with_port("dead.a.example:PORT: ")));
    CHECK(house.dialed.empty());
    resolve_to(house, {"127.0.0.2"});
    house.connect_through(get("well.a.example:PORT"));
}

TEST_CASE("So many addresses of a name are tried, and no more") {
    EgressHouse house({k_target}, {"127.0.1.0/24"});
    house.names.answer = [](const DnsQuestion& question) {
        if (question.transport == DnsQuestion::Transport::udp)
            return Replies{dns_reply(question, {}, DnsCode::ok, k_dns_truncated)};
        std::vector<DnsRecord> records;
        for (int i = 1; i <= 200; ++i)
            records.push_back(dns_address("127.0.1." + std::to_string(i)));
        return Replies{dns_reply(question, records)};
    };
    house.connect_through(get(k_target));
    REQUIRE(house.dialed.size() == 1);
    CHECK(house.dialed.front().size() == base::k_max_egress_addresses);
}

TEST_CASE("A rule that is taken back while its host is looked up grants nothing any more") {
    EgressHouse house({k_target});
    bool is_taken_back = false;
    house.names.answer = [&](const DnsQuestion& question) {
        if (is_taken_back)
            house.change({});
        return Replies{dns_reply(question, {dns_address("127.0.0.2", 0)})};
    };
    house.connect_through(get(k_target));
    CHECK(contains(house.upstream_bytes(1), "GET / "));
    is_taken_back = true;
    CHECK(house.status(get(k_target)) == "403");
    for (std::size_t i = 1; i < house.upstreams.size(); ++i)
        CHECK(house.upstreams[i]->received.empty());
}

}  // namespace egress_attacks_test
