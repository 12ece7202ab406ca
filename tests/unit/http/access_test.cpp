#include "http/access/access.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "core/base/base64.hpp"
#include "core/base/ids.hpp"
#include "core/base/limits.hpp"
#include "http/access/stream_tokens.hpp"
#include "tests/support/fake_world.hpp"

namespace access_test {

using namespace atl;
using namespace atl::http;
using atl::base::Errc;

namespace {

Request with(std::vector<HeaderField> fields) {
    Request request;
    request.fields = std::move(fields);
    request.authority = request.header("Host");
    return request;
}

}  // namespace

TEST_CASE("the key is taken from either header and nothing else passes") {
    const KeyAuthenticator keys("s3cret");
    CHECK(keys.authenticate(with({{"Authorization", "Bearer s3cret"}})).has_value());
    CHECK(keys.authenticate(with({{"authorization", "bearer   s3cret"}})).has_value());
    CHECK(keys.authenticate(with({{"X-API-Key", "s3cret"}})).has_value());
    CHECK(keys.authenticate(with({{"X-API-Key", ""}})).error().code() == Errc::unauthorized);
    for (const char* wrong : {"s3cre", "s3cret ", "s3crets", "S3CRET", "x3cret"})
        CHECK(keys.authenticate(with({{"X-API-Key", wrong}})).error().code() == Errc::invalid_key);
    CHECK_FALSE(keys.authenticate(with({})).has_value());
    CHECK_FALSE(keys.authenticate(with({{"Authorization", "Basic s3cret"}})).has_value());
    CHECK_FALSE(
        keys.authenticate(with({{"Authorization", "Bearer wrong"}, {"X-API-Key", "s3cret"}})).has_value());
    CHECK_THROWS(KeyAuthenticator(""));
}

TEST_CASE("a key is seen in a longer text, wherever it stands") {
    const KeyAuthenticator keys("s3cret-k3y");
    for (const char* text : {"s3cret-k3y", "a=b; k=s3cret-k3y; c=d", "ss3cret-k3yy", "s3crets3cret-k3y"})
        CHECK(keys.holds_secret(text));
    for (const char* text :
         {"", "s", "s3cret-k3", "3cret-k3y", "S3CRET-K3Y", "s3cret-k3s3cret-k3", "k3y-s3cret"})
        CHECK_FALSE(keys.holds_secret(text));
    const KeyAuthenticator one("x");
    CHECK(one.holds_secret("abx"));
    CHECK_FALSE(one.holds_secret("abc"));
}

TEST_CASE("a key is seen in percent-encoded text, wherever that is broken") {
    const KeyAuthenticator keys("a+b/c=%41");
    for (const char* text : {"a+b/c=%41", "a%2Bb%2fc%3d%2541", "%61%2b%62%2F%63%3D%25%34%31",
                             "/?x=%&k=a+b%2Fc=%2541&y=%4", "%%61+b/c=%2541%zz", "a%252Bb%252Fc%253D%252541"})
        CHECK(keys.holds_secret(text));
    for (const char* text : {"a%2Bb%2Fc%3DA", "a%2", "%", "a%25252Bb%25252Fc%25253D%25252541", "a+b/c=%4"})
        CHECK_FALSE(keys.holds_secret(text));
}

TEST_CASE("a key and a token are seen in base64, wherever it begins and with either alphabet") {
    test::FakeClock clock;
    const StreamTokens tokens(std::string(40, 'k'), clock);
    const StreamTokens others(std::string(40, 'o'), clock);
    const KeyAuthenticator keys("s3cret>>>k3y???", nullptr, &tokens);
    const std::string id(base::k_id_length, 'a');
    const std::string token = tokens.issue(id, Scope::preview, std::chrono::seconds(60)).token;
    const std::string foreign = others.issue(id, Scope::preview, std::chrono::seconds(60)).token;
    CHECK(keys.holds_secret("?token=" + token + "&x"));
    CHECK(keys.holds_secret("v1.v1." + token));
    CHECK_FALSE(keys.holds_secret("?token=" + foreign));
    CHECK_FALSE(keys.holds_secret("?token=" + token.substr(0, token.size() - 1)));
    CHECK_FALSE(keys.holds_secret("?token=v1.a.preview.1." + std::string(64, '0')));
    for (const std::string& secret : {std::string("s3cret>>>k3y???"), token}) {
        for (const char* before : {"", "a", "ab", "abc"}) {
            std::string text("x/");
            base::append_base64(text, before + secret + "!");
            CHECK(keys.holds_secret(text));
            std::string url = text;
            std::ranges::replace(url, '+', '-');
            CHECK(keys.holds_secret(url));
            std::ranges::replace(url, '/', '_');
            CHECK(keys.holds_secret(url));
        }
        std::string all;
        base::append_base64(all, secret.substr(0, secret.size() - 1));
        CHECK_FALSE(keys.holds_secret(all));
    }
}

TEST_CASE("a text with more pieces that could be tokens than are tried counts as one with a token") {
    test::FakeClock clock;
    const StreamTokens tokens(std::string(40, 'k'), clock);
    const StreamTokens others(std::string(40, 'o'), clock);
    const KeyAuthenticator keys("s3cret", nullptr, &tokens);
    const std::string id(base::k_id_length, 'a');
    const std::string own = tokens.issue(id, Scope::read, std::chrono::seconds(60)).token + '&';
    const std::string foreign = others.issue(id, Scope::read, std::chrono::seconds(60)).token + '&';
    std::string text;
    for (std::size_t i = 0; i < base::k_max_token_tries; ++i)
        text += foreign;
    CHECK_FALSE(keys.holds_secret(text));
    CHECK(keys.holds_secret(text + own));
    CHECK(keys.holds_secret(text + foreign));
    // Each text that it is decoded to is another one.
    CHECK(keys.holds_secret(text + "%2525"));
    const std::string few = foreign + foreign + foreign + "%2525";
    CHECK_FALSE(keys.holds_secret(few));
    CHECK(keys.holds_secret(few + "v1%252E" + own.substr(3)));
    // A text without the form of a token takes no try: these would overlap, too.
    std::size_t tries = base::k_max_token_tries;
    std::string formless;
    while (formless.size() < base::k_max_header_bytes)
        formless += "v1..read.1.v1.a.chat.1.";
    CHECK_FALSE(tokens.is_in(formless + std::string(64, '0'), tries));
    CHECK_FALSE(tokens.is_in("v1." + id + ".read.1." + std::string(64, 'g'), tries));
    CHECK_FALSE(tokens.is_in("v1." + std::string(20, '-') + ".read.1." + std::string(64, '0'), tries));
    CHECK(tries == base::k_max_token_tries);
    CHECK_FALSE(tokens.is_in("v1." + id + ".read.1." + std::string(64, '0'), tries));
    CHECK(tries == base::k_max_token_tries - 1);
    CHECK(tokens.is_in(own, tries));
}

TEST_CASE("a wrong key is told apart from none, without a word about the key") {
    const KeyAuthenticator keys("s3cret");
    const auto code = [&](std::vector<HeaderField> fields) {
        const auto error = keys.authenticate(with(std::move(fields))).error();
        CHECK(error.detail().empty());
        return error.code();
    };
    CHECK(code({}) == Errc::unauthorized);
    CHECK(code({{"Authorization", "Basic s3cret"}}) == Errc::invalid_authorization);
    CHECK(code({{"Authorization", "s3cret"}}) == Errc::invalid_authorization);
    CHECK(code({{"X-API-Key", "wrong"}}) == Errc::invalid_key);
    CHECK(code({{"Authorization", "Bearer s3cres"}}) == Errc::invalid_key);
    CHECK(keys.authenticate_token("t", "c").error().code() == Errc::invalid_token);
}

TEST_CASE("a refused site learns the flag with which the operator can allow it") {
    const auto host = check_host("evil.example:80", ListenerScope::loopback, {}).error().detail();
    CHECK(host.find("--allowed-host evil.example`") != std::string::npos);
    CHECK(host.find("ATOLL_ALLOWED_HOSTS") != std::string::npos);
    const auto origin = [](const char* text) {
        const Request request = with({{"Host", "localhost"}, {"Origin", text}});
        return check_origin(request, site_of(request, Client{}), {}).error().detail();
    };
    CHECK(origin("https://app.example").find("--allowed-origin https://app.example`") != std::string::npos);
    CHECK(origin("null").find("only, not this one") != std::string::npos);
}

TEST_CASE("a loopback listener answers to its own names only") {
    const std::vector<std::string> none;
    for (const char* host : {"localhost", "localhost:4100", "LOCALHOST", "app.localhost:80", "127.0.0.1",
                             "127.9.9.9:1", "[::1]:4100", "[::1]", ""})
        CHECK(check_host(host, ListenerScope::loopback, none).has_value());
    for (const char* host :
         {"evil.example", "evil.example:4100", "localhost.evil.example", "xlocalhost", ".localhost",
          "192.168.1.1", "[::2]", "127.0.0.1.evil.example", "localhost:x", "a@localhost:1:2"})
        CHECK(check_host(host, ListenerScope::loopback, none).error().code() == Errc::host_not_allowed);
    CHECK(check_host("Atoll.example:443", ListenerScope::loopback, {"atoll.example"}).has_value());
    // An address is the same one however it is written.
    for (const char* host : {"[2001:db8::5]:4100", "[2001:db8::5]", "[2001:DB8:0:0::5]:80"})
        CHECK(check_host(host, ListenerScope::loopback, {"[2001:db8::5]"}).has_value());
    for (const char* host : {"[2001:db8::6]:4100", "2001:db8::5", "[2001:db8::5", "[]", "["})
        CHECK_FALSE(check_host(host, ListenerScope::loopback, {"[2001:db8::5]"}).has_value());
}

TEST_CASE("a network listener with configured names answers to those and to addresses") {
    CHECK(check_host("anything", ListenerScope::network, {}).has_value());
    CHECK(check_host("atoll.example", ListenerScope::network, {"atoll.example"}).has_value());
    CHECK(check_host("10.0.0.1:4100", ListenerScope::network, {"atoll.example"}).has_value());
    CHECK_FALSE(check_host("evil.example", ListenerScope::network, {"atoll.example"}).has_value());
    CHECK(check_host("evil.example", ListenerScope::unix_socket, {}).has_value());
}

TEST_CASE("pages of other sites are refused") {
    const auto check = [](std::vector<HeaderField> fields, const std::vector<std::string>& allowed = {}) {
        const Request request = with(std::move(fields));
        return check_origin(request, site_of(request, Client{}), allowed);
    };
    CHECK(check({{"Host", "localhost:4100"}}).has_value());
    CHECK(check({{"Host", "localhost:4100"}, {"Origin", "http://localhost:4100"}}).has_value());
    CHECK(check({{"Host", "a.example"}, {"Origin", "https://A.example"}}).has_value());
    // Where TLS ends here, a page without it is of anyone on the way.
    const Request request = with({{"Host", "a.example:4100"}, {"Origin", "http://a.example:4100"}});
    CHECK(check_origin(request, {"", "a.example:4100"}, {}).has_value());
    CHECK(check_origin(request, {"https", "a.example:4100"}, {}).error().code() == Errc::origin_not_allowed);
    CHECK(check_origin(request, {"https", "a.example:4100"}, {"http://a.example:4100"}).has_value());
    const Request secure = with({{"Host", "a.example"}, {"Origin", "HTTPS://a.example"}});
    CHECK(check_origin(secure, {"https", "a.example"}, {}).has_value());
    CHECK(check({{"Host", "a.example"}, {"Origin", "https://app.example"}}, {"https://app.example"})
              .has_value());
    for (const char* origin :
         {"http://evil.example", "http://localhost", "http://localhost:5173", "null", ""})
        CHECK(check({{"Host", "localhost:4100"}, {"Origin", origin}}).error().code() ==
              Errc::origin_not_allowed);
    // Not an origin of the web, even if the operator allows it.
    for (const char* origin :
         {"ftp://localhost:4100", "chrome-extension://localhost:4100", "file://localhost:4100",
          "http://x@localhost:4100", "http://localhost:4100/", "null"}) {
        INFO(origin);
        CHECK(check({{"Host", "localhost:4100"}, {"Origin", origin}}).error().code() ==
              Errc::origin_not_allowed);
        CHECK(check({{"Host", "localhost:4100"}, {"Origin", origin}}, {origin}).error().code() ==
              Errc::origin_not_allowed);
    }
}

TEST_CASE("behind a proxy that says so, a page's site is what its client asked for") {
    Client client;
    client.host = "atoll.example";
    client.scheme = "https";
    const auto check = [&](std::string_view origin) {
        const Request request = with({{"Host", "127.0.0.1:4100"}, {"Origin", origin}});
        return check_origin(request, site_of(request, client), {}).has_value();
    };
    CHECK(check("https://atoll.example"));
    for (const char* other :
         {"http://atoll.example", "https://atoll.example:444", "http://127.0.0.1:4100", "null"})
        CHECK_FALSE(check(other));
}

}  // namespace access_test
