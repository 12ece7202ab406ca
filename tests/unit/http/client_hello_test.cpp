#include "http/egress/client_hello.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/unit/http/client_hello_bytes.hpp"

namespace client_hello_test {

using atl::http::ClientHelloReader;
using atl::http::k_max_client_hello_bytes;
using Found = ClientHelloReader::Found;
using namespace atl::test::tls_bytes;

namespace {

Found verdict(const std::string& input) {
    return ClientHelloReader().read(input);
}

Found with_name(const std::string& value) {
    return verdict(record(message_with({{0, value}})));
}

}  // namespace

TEST_CASE("the server name of a real ClientHello is found, with TLS 1.2 and 1.3") {
    for (const int version : {0, TLS1_2_VERSION, TLS1_3_VERSION}) {
        ClientHelloReader reader;
        CHECK(reader.read(hello("API.Example.com", version)) == Found::name);
        CHECK(reader.server_name() == "api.example.com");
        CHECK(std::string(reader.reason()).empty());
        CHECK(verdict(hello(nullptr, version)) == Found::no_name);
    }
    ClientHelloReader dotted;
    CHECK(dotted.read(hello("a.example.")) == Found::name);
    CHECK(dotted.server_name() == "a.example");
}

TEST_CASE("a ClientHello is read the same in pieces of a byte and in two hundred records") {
    // OpenSSL's own has 300 to 1,800 bytes: some versions send a key that withstands quantum computers.
    const std::string whole =
        hello("a.example", 0, {{0x4242, std::string(2'500 - hello("a.example").size(), 'k')}});
    for (const std::string& input :
         {whole, in_records(whole, 1 + whole.size() / 200), in_records(whole, 1)}) {
        ClientHelloReader reader;
        for (std::size_t size = 0; size < input.size(); ++size)
            REQUIRE(reader.read(std::string_view(input).substr(0, size)) == Found::more);
        CHECK(reader.read(input) == Found::name);
        CHECK(reader.server_name() == "a.example");
    }
}

TEST_CASE("bytes behind the ClientHello are left to the server, unless they share its record") {
    const std::string whole = hello("a.example");
    CHECK(verdict(whole + "\x14\x03\x03\x00\x01\x01") == Found::name);
    CHECK(verdict(record(whole.substr(5) + "x")) == Found::invalid);
    ClientHelloReader early;
    const std::string longer = record(whole.substr(5) + "xyz");
    CHECK(early.read(std::string_view(longer).substr(0, longer.size() - 3)) == Found::invalid);
}

TEST_CASE("a ClientHello may have 16 KiB and no more") {
    const auto sized = [](std::size_t size) {
        return hello("a.example", 0, {{0x4242, std::string(size, 'k')}});
    };
    const std::size_t room = k_max_client_hello_bytes - sized(0).size();
    CHECK(verdict(sized(room - 600)) == Found::name);  // OpenSSL pads it by some bytes
    ClientHelloReader reader;
    CHECK(reader.read(sized(room + 1'000)) == Found::invalid);
    CHECK(reader.reason() == std::string("the ClientHello is too long"));
    // Records of a byte make six of each, and a length is refused before its bytes come.
    CHECK(verdict(in_records(sized(5'000), 1)) == Found::invalid);
    CHECK(verdict(record("\x01\x01\x01" + std::string(1, '\0'))) == Found::invalid);
    CHECK(verdict(record('\x01' + number(k_max_client_hello_bytes, 3))) == Found::more);
}

TEST_CASE("a server name with a NUL, two of them, and none at all are refused, beside one that passes") {
    CHECK(with_name(names(server_name("a.example"))) == Found::name);
    using namespace std::string_literals;
    std::string real = hello("a.example.b.example");
    real[real.find("a.example.b") + 9] = '\0';
    CHECK(verdict(real) == Found::invalid);
    for (const std::string& name : {""s, "."s, "a.example\0"s, "\0"s, "a example"s, "a.example:443"s,
                                    "[::1]"s, "fe80::1%eth0"s, "a\xc3\xa9"s, std::string(254, 'a')})
        CHECK(with_name(names(server_name(name))) == Found::invalid);
    CHECK(with_name(names(server_name(std::string(253, 'a')))) == Found::name);
    CHECK(with_name(names(server_name("a.example") + server_name("b.example"))) == Found::invalid);
    CHECK(with_name(names(server_name("a.example", 1))) == Found::invalid);
    CHECK(with_name("") == Found::invalid);
    CHECK(with_name(names("")) == Found::invalid);
    CHECK(with_name(names(server_name("a.example")) + "x") == Found::invalid);
    ClientHelloReader twice;
    CHECK(twice.read(record(message_with({{0, names(server_name("a.example"))},
                                          {0, names(server_name("b.example"))}}))) == Found::invalid);
    CHECK(twice.reason() == std::string("the ClientHello has two server names"));
}

TEST_CASE("GREASE changes nothing, and with ECH the outer name counts") {
    const std::vector<Extension> grease{{0x0a0a, ""}, {0xfe0d, std::string(200, '\x1f')}, {0xfafa, "x"}};
    ClientHelloReader reader;
    CHECK(reader.read(hello("outer.example", 0, grease)) == Found::name);
    CHECK(reader.server_name() == "outer.example");
}

TEST_CASE("a ClientHello without extensions has no name, and one that is cut or does not add up is refused") {
    const std::string old = "\x03\x03" + std::string(32, 'r') + vector_of("", 1) + vector_of("\xc0\x2b", 2) +
                            vector_of(std::string(1, '\0'), 1);
    CHECK(verdict(record('\x01' + vector_of(old, 3))) == Found::no_name);
    for (std::size_t size = 0; size < old.size(); ++size)
        CHECK(verdict(record('\x01' + vector_of(old.substr(0, size), 3))) == Found::invalid);
    const std::string good = message_with({{0, names(server_name("a.example"))}});
    REQUIRE(verdict(record(good)) == Found::name);
    for (std::size_t size = old.size() + 1; size < good.size() - 4; ++size)
        CHECK(verdict(record('\x01' + vector_of(good.substr(4, size), 3))) == Found::invalid);
    CHECK(verdict(record('\x01' + vector_of(good.substr(4) + "x", 3))) == Found::invalid);
    CHECK(verdict(record("\x02" + good.substr(1))) == Found::invalid);
}

TEST_CASE("records of another kind within a ClientHello are refused") {
    const std::string whole = hello("a.example");
    const std::string half = record(whole.substr(5, 100));
    REQUIRE(verdict(half) == Found::more);
    CHECK(verdict(half + record(whole.substr(105))) == Found::name);
    using namespace std::string_literals;
    for (const std::string& next : {"\x17\x03\x03\x00\x05"s, "\x16\x02"s, "\x16\x03\x03\x00\x00"s,
                                    "\x16\x03\x03\x40\x01"s, "\x15\x03\x03\x00\x02"s})
        CHECK(verdict(half + next) == Found::invalid);
}

TEST_CASE("plain HTTP is told from other protocols by its first bytes") {
    for (const char* text : {"GET / HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "M-SEARCH /x"}) {
        const std::string_view input(text);
        ClientHelloReader reader;
        for (std::size_t size = 0; size <= input.find(' ') + 1; ++size)
            REQUIRE(reader.read(input.substr(0, size)) == Found::more);
        CHECK(reader.read(input) == Found::request);
    }
    using namespace std::string_literals;
    for (const std::string& text :
         {"GET http://b.example/ HTTP/1.1\r\n"s, "get / HTTP/1.1"s, "SSH-2.0-OpenSSH_9.2\r\n"s, "EHLO a\r\n"s,
          "GET\t/"s, " /"s, "\0"s, "\x80\x2e\x01\x03"s, "\x16\x02"s, "\x15\x03\x01"s, "PRI\0 /"s,
          std::string(33, 'A') + " /", std::string(100'000, 'A')})
        CHECK(verdict(text) == Found::other);
    CHECK(verdict(std::string(31, 'A')) == Found::more);
    CHECK(verdict(std::string(31, 'A') + " /") == Found::request);
}

}  // namespace client_hello_test
