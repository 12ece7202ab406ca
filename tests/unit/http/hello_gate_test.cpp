// The bytes that pass between the first ClientHello of a tunnel and the answer to it.
#include "http/egress/hello_gate.hpp"

#include <openssl/evp.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "http/egress/egress_adapters.hpp"
#include "tests/unit/http/client_hello_bytes.hpp"

namespace hello_gate_test {

using namespace atl;
using namespace atl::test::tls_bytes;
using namespace std::string_literals;

namespace {

const std::string k_change_cipher_spec = "\x14\x03\x03\x00\x01\x01"s;
const std::string k_alert = "\x15\x03\x03\x00\x02\x01\x70"s;  // a warning: the name is not known
const std::string k_early_data = "\x17\x03\x03\x00\x05"s + "early";

/// RFC 8446 section 4.1.3: the hash of this text.
std::string retry_random() {
    std::array<unsigned char, 32> hash{};
    constexpr std::string_view k_text = "HelloRetryRequest";
    REQUIRE(EVP_Digest(k_text.data(), k_text.size(), hash.data(), nullptr, EVP_sha256(), nullptr) == 1);
    return {hash.begin(), hash.end()};
}

std::string answer_with(const std::string& random) {
    return record('\x02' + vector_of("\x03\x03" + random + vector_of("", 1) + "\x13\x01" + '\0', 3));
}

const std::string& retry() {
    static const std::string text = answer_with(retry_random());
    return text;
}

bool is_for_a_example(http::EgressOpening opening, const http::EgressOpeningReader& reader) {
    return opening == http::EgressOpening::name && reader.server_name() == "a.example";
}

/// A client that has sent its first ClientHello, which has passed. Each call gives the bytes that pass.
class Talk {
  public:
    Talk() { CHECK(send(first_) == first_); }
    std::string send(const std::string& bytes) {
        waiting_ += bytes;
        return pass(false);
    }
    std::string end() { return pass(true); }
    std::string answer(const std::string& bytes) {
        gate_.saw(bytes);
        return pass(false);
    }
    std::string end_answer() {
        gate_.saw_end();
        return pass(false);
    }
    bool is_shut() const { return gate_.is_shut(); }

  private:
    std::string pass(bool is_all) {
        const std::size_t open = gate_.open_for(waiting_, is_all);
        std::string passed = waiting_.substr(0, open);
        waiting_.erase(0, open);
        gate_.passed(open);
        return passed;
    }
    const std::string first_ = hello("a.example");
    http::HelloGate gate_{first_.size(), http::make_hello_reader(), is_for_a_example};
    std::string waiting_;
};

}  // namespace

TEST_CASE("After a HelloRetryRequest a ClientHello for the same host passes, and all behind it") {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{20'000}}) {
        Talk talk;
        CHECK(talk.answer(retry()).empty());
        // Nothing of it passes before the whole is there.
        const std::string same = in_records(hello("A.Example."), size);
        for (const char byte : same.substr(0, same.size() - 1))
            REQUIRE(talk.send({byte}).empty());
        CHECK(talk.send({same.back()}) == same);
        const std::string other = hello("b.example");
        CHECK(talk.send(other) == other);
        CHECK_FALSE(talk.is_shut());
    }
}

TEST_CASE("After a HelloRetryRequest no byte of anything else passes") {
    for (const std::string& other :
         {hello("b.example"), in_records(hello("b.example"), 1), hello(nullptr), "GET / HTTP/1.1\r\n"s,
          record("\x0b\x00\x00\x00"s), "\x16\x03\x03\x00\x00"s, "\x18\x03\x03\x00\x01\x01"s,
          "\x17\x03\x03\xff\xff"s, hello("a.example", 0, {{0x4242, std::string(17'000, 'k')}})}) {
        INFO(other.substr(0, 20));
        Talk talk;
        CHECK(talk.answer(retry()).empty());
        CHECK(talk.send(other).empty());
        CHECK(talk.is_shut());
        CHECK(talk.send("more").empty());
    }
    // It ends before it is whole.
    for (const std::string& part : {hello("a.example").substr(0, 100), "\x14"s}) {
        Talk talk;
        CHECK(talk.answer(retry()).empty());
        CHECK(talk.send(part).empty());
        CHECK_FALSE(talk.is_shut());
        CHECK(talk.end().empty());
        CHECK(talk.is_shut());
    }
}

TEST_CASE("A HelloRetryRequest is known in pieces, in records of a byte, and behind an alert") {
    for (const std::string& bytes :
         {retry(), in_records(retry(), 1), k_alert + retry(), k_change_cipher_spec + retry()}) {
        Talk talk;
        for (const char byte : bytes)
            CHECK(talk.answer({byte}).empty());
        CHECK(talk.send(hello("b.example")).empty());
        CHECK(talk.is_shut());
    }
}

TEST_CASE("A second ClientHello that comes before the answer waits for it") {
    for (const std::string& other : {hello("b.example"), "more"s}) {
        Talk retried;
        CHECK(retried.send(other).empty());
        CHECK_FALSE(retried.is_shut());
        CHECK(retried.answer(retry()).empty());
        CHECK(retried.is_shut());
        // Each other answer says that the server takes no further name.
        for (const std::string& answer :
             {answer_with(std::string(32, 'r')), k_alert + answer_with(std::string(32, 'r')),
              record("\x0b\x00\x00\x00"s), "SSH-2.0-x\r\n"s, "\x16\x02"s, "\x17"s}) {
            INFO(answer.substr(0, 20));
            Talk open;
            CHECK(open.send(other).empty());
            CHECK(open.answer(answer) == other);
            CHECK(open.send("more") == "more");
        }
        Talk ended;
        CHECK(ended.send(other).empty());
        CHECK(ended.answer(k_alert).empty());
        CHECK(ended.end_answer() == other);
    }
}

TEST_CASE("Early data and what else carries no ClientHello passes at once, before the answer and after it") {
    const std::string harmless = k_change_cipher_spec + k_early_data + k_alert + k_early_data;
    Talk early;
    for (const char byte : harmless.substr(0, 4))
        CHECK(early.send({byte}).empty());
    CHECK(early.send(harmless.substr(4)) == harmless);
    CHECK(early.answer(retry()).empty());
    CHECK(early.send(harmless) == harmless);
    // The record is let through in pieces as it comes.
    CHECK(early.send(k_early_data.substr(0, 7)) == k_early_data.substr(0, 7));
    const std::string other = hello("b.example");
    CHECK(early.send(k_early_data.substr(7)) == k_early_data.substr(7));
    CHECK(early.send(other).empty());
    CHECK(early.is_shut());
}

}  // namespace hello_gate_test
