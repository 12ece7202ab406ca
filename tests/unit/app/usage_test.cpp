#include "app/usage.hpp"

#include <catch2/catch_test_macros.hpp>

namespace usage_test {

using namespace atl::app;

namespace {

std::string text(std::vector<std::string> addresses, Scheme scheme, const std::string& generated_key = "") {
    return usage_text({std::move(addresses), "/data", "/data/api-key", generated_key, scheme});
}

bool has(const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("The addresses that are printed have the scheme that is spoken") {
    const auto plain = text({"127.0.0.1:4100"}, Scheme::http);
    CHECK(has(plain, "serves on http://127.0.0.1:4100\n"));
    CHECK(has(plain, "http://127.0.0.1:4100/v1/conversations"));
    const auto secure = text({"127.0.0.1:4100"}, Scheme::https);
    CHECK(has(secure, "serves on https://127.0.0.1:4100\n"));
    CHECK_FALSE(has(secure, "http://"));
    const auto local = text({"unix:/run/atoll.sock"}, Scheme::https);
    CHECK(has(local, "--unix-socket /run/atoll.sock"));
    CHECK(has(local, "url=http://localhost/v1/conversations\n"));
}

TEST_CASE("All addresses are printed") {
    const auto two = text({"127.0.0.1:4100", "[::1]:4100", "unix:/a"}, Scheme::http);
    CHECK(has(
        two,
        "serves on http://127.0.0.1:4100\n\n  also on         http://[::1]:4100, unix:/a\n  data directory"));
    CHECK_FALSE(has(text({"127.0.0.1:4100"}, Scheme::http), "also on"));
}

TEST_CASE("Keys that would cross a network in the open are warned of, and nothing else is") {
    for (const char* address : {"0.0.0.0:4100", "192.0.2.1:4100", "[::]:4100", "[2001:db8::1]:80"}) {
        INFO(address);
        const auto open = text({"127.0.0.1:4100", address}, Scheme::http);
        CHECK(has(open, "WARNING: " + std::string(address) + " is not encrypted"));
        CHECK(has(open, "--tls-cert"));
        CHECK_FALSE(has(text({"127.0.0.1:4100", address}, Scheme::https), "WARNING"));
    }
    CHECK_FALSE(has(text({"127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "unix:/a"}, Scheme::http), "WARNING"));
}

TEST_CASE(
    "A key that was made is printed in the console's fragment to a terminal alone, one that was chosen "
    "nowhere") {
    UsageFacts facts{{"[::1]:1"}, "/data", "/data/api-key", "x y", Scheme::https};
    // A journal keeps what it is told.
    CHECK(has(usage_text(facts), "https://[::1]:1/\n"));
    CHECK_FALSE(has(usage_text(facts), "x y"));
    CHECK_FALSE(has(usage_text(facts), "x%20y"));
    facts.reader = Reader::terminal;
    CHECK(has(usage_text(facts), "https://[::1]:1/#key=x%20y\n"));
    CHECK(has(usage_text(facts), "  key=$(tr -d '\\r\\n' < /data/api-key)\n"));
    facts.generated_key.clear();
    CHECK_FALSE(has(usage_text(facts), "#key"));
}

TEST_CASE("The languages of code mode are printed, and how to get JavaScript where it is missing") {
    using atl::execution::Language;
    UsageFacts facts{{"127.0.0.1:1"}, "/data", "/data/api-key", "k", Scheme::http};
    facts.languages = {Language::python};
    CHECK(has(usage_text(facts), "  code mode       python (JavaScript: scripts/setup --executors)\n"));
    CHECK(code_mode_fix(facts.languages) == "\nFIX: scripts/setup --executors");
    facts.languages = {Language::javascript, Language::typescript, Language::python};
    CHECK(has(usage_text(facts), "  code mode       javascript, typescript, python\n"));
    CHECK(code_mode_fix(facts.languages).empty());
    facts.languages.clear();
    CHECK(code_mode_fix(facts.languages).empty());
    CHECK(has(usage_text(facts), "  code mode       none (GET /v1/executors says why)\n"));
}

TEST_CASE("A path that a shell would split or change is quoted in the commands, and no other") {
    UsageFacts facts{
        {"unix:/srv/my data/http.sock"}, "/srv/my data", "/srv/my data/api-key", "k", Scheme::http};
    const auto printed = usage_text(facts);
    CHECK(has(printed, "  key=$(tr -d '\\r\\n' < '/srv/my data/api-key')\n"));
    CHECK(has(printed, "curl -sN --unix-socket '/srv/my data/http.sock' -H"));
    CHECK(has(printed, "  data directory  /srv/my data\n"));
    facts.api_key_file = "/a'b$c/api-key";
    facts.addresses = {"unix:/run/atoll-1/a_b.sock"};
    CHECK(has(usage_text(facts), "< '/a'\\''b$c/api-key')\n"));
    CHECK(has(usage_text(facts), "--unix-socket /run/atoll-1/a_b.sock -H"));
}

}  // namespace usage_test
