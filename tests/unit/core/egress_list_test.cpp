#include "core/egress/allow_list.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/egress/limits.hpp"
#include "tests/support/result_printer.hpp"

namespace egress_list_test {

using namespace atl::egress;
using Texts = std::vector<std::string>;

namespace {

Pattern pattern(std::string_view text) {
    return Pattern::parse(text).value();
}

bool matches(std::string_view text, std::string_view endpoint) {
    return pattern(text).matches(parse_endpoint(endpoint).value());
}

bool covers(std::string_view wider, std::string_view narrower) {
    return pattern(wider).covers_hosts(pattern(narrower));
}

/// The sentence of a refusal; empty if it is a list.
std::string complaint(const nlohmann::json& value) {
    const auto list = AllowList::from_json(value, SetBy::operator_key);
    return list.has_error() ? list.error().detail() : "";
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A list is shown in its normal form, and read back from it") {
    const auto list = AllowList::parse(
        Texts{"API.example.com.", "*.Example.org:443", "host:22/tcp", "@group", "127.0.0.1:8080", "[::1]:80",
              "api.example.com", "*", "a.example/tcp", "[2001:DB8::0001]"},
        SetBy::user_key);
    REQUIRE(list);
    const Texts normal{"api.example.com", "*.example.org:443", "host:22/tcp", "@group",
                       "127.0.0.1:8080",  "[::1]:80",          "*",           "a.example/tcp",
                       "[2001:db8::1]"};
    CHECK(list->texts() == normal);
    CHECK(list->set_by() == SetBy::user_key);
    CHECK(AllowList::parse(normal, SetBy::user_key).value() == *list);
    CHECK(AllowList::from_json(normal, SetBy::operator_key).value() != *list);
    CHECK(AllowList::from_json(nlohmann::json::array(), SetBy::user_key).value().texts().empty());
}

TEST_CASE("What is no rule is refused with a sentence and a pointer") {
    for (const char* text : {"",
                             "*.",
                             "*.com",
                             "*.*.example.com",
                             "a.*.example",
                             "*example.com",
                             "https://a.example",
                             "a.example/",
                             "a.example/path",
                             "a.example:443/udp",
                             "a.example:0",
                             "a.example:99999",
                             "a.example:*",
                             "a.example:",
                             "127.1",
                             "0x7f.1",
                             "::1",
                             "[::ffff:127.0.0.1]",
                             "*.127.0.0.1",
                             "*.0.1",
                             "a.example:443/tcp/tcp",
                             "@",
                             "@a b",
                             "@a:443",
                             "a.example,b.example",
                             "b\xc3\xbc.example",
                             "a.example\n",
                             " a.example"}) {
        INFO(text);
        const auto list = AllowList::parse(Texts{"good.example", text}, SetBy::operator_key);
        REQUIRE(list.has_error());
        CHECK(list.error().code() == atl::base::Errc::invalid_field);
        CHECK(list.error().pointer() == "/network/allow/1");
        CHECK(list.error().detail().starts_with("`network.allow[1]` must "));
    }
    const std::string nul = complaint(nlohmann::json::array({std::string("a.example\0.b", 12)}));
    CHECK(has(nul, "\"a.example?.b\""));
    CHECK(complaint(nlohmann::json::array({"a.example"})).empty());
}

TEST_CASE("A list that is no array of texts is refused") {
    CHECK(has(complaint("api.example.com"), "array"));
    CHECK(has(complaint(nlohmann::json::object()), "array"));
    CHECK(has(complaint(nlohmann::json::array({1})), "must be a text"));
    CHECK(has(complaint(nlohmann::json::array({nullptr})), "must be a text"));
    CHECK(has(complaint(nlohmann::json::array({{{"host", "a.example"}}})), "must be a text"));
}

TEST_CASE("A list has bounds on its rules, on each and on all of their bytes") {
    Texts texts;
    while (texts.size() < k_max_rules)
        texts.push_back("h" + std::to_string(texts.size()) + ".example");
    CHECK(AllowList::parse(texts, SetBy::user_key));
    texts.push_back("h0.example");
    CHECK(AllowList::parse(texts, SetBy::user_key).has_error());

    const std::string label(k_max_label_bytes, 'a');
    const std::string name = label + '.' + label + '.' + label + '.' + std::string(61, 'b');
    const std::string longest = "*." + std::string(name).substr(0, k_max_name_bytes) + ":65535/tcp";
    CHECK(longest.size() == k_max_rule_bytes);
    CHECK(AllowList::parse(Texts{longest}, SetBy::user_key));
    CHECK(AllowList::parse(Texts{longest + "p"}, SetBy::user_key).has_error());
    CHECK(AllowList::parse(Texts{std::string(1'000'000, 'a')}, SetBy::user_key).error().detail().size() <
          400);
    // The same rule again takes no room.
    CHECK(AllowList::parse(Texts(k_max_rules, longest), SetBy::user_key).value().texts() == Texts{longest});
    Texts large;
    while (large.size() * name.size() <= k_max_list_bytes)
        large.push_back(std::string(name).replace(0, 3, std::to_string(100 + large.size())));
    CHECK(AllowList::parse(large, SetBy::user_key).has_error());
    large.pop_back();
    CHECK(AllowList::parse(large, SetBy::user_key));
}

TEST_CASE("A pattern matches its host, at its port, or at 80 and 443") {
    CHECK(matches("a.example", "a.example:80"));
    CHECK(matches("a.example", "A.Example.:443"));
    CHECK_FALSE(matches("a.example", "a.example:8080"));
    CHECK(matches("a.example:8080", "a.example:8080"));
    CHECK_FALSE(matches("a.example:8080", "a.example:443"));
    CHECK_FALSE(matches("a.example", "b.a.example:443"));
    CHECK_FALSE(matches("a.example", "xa.example:443"));
    CHECK_FALSE(matches("a.example", "a.example.evil.example:443"));
    CHECK(matches("127.0.0.1:80", "127.0.0.1.:80"));
    CHECK(matches("[::1]:80", "[0:0::1]:80"));
    CHECK_FALSE(matches("[::1]:80", "[::2]:80"));
}

TEST_CASE("A wildcard matches every depth below its name, and not the name") {
    CHECK(matches("*.x.example", "a.x.example:443"));
    CHECK(matches("*.x.example", "b.a.x.example:443"));
    CHECK_FALSE(matches("*.x.example", "x.example:443"));
    CHECK_FALSE(matches("*.x.example", "ax.example:443"));
    CHECK_FALSE(matches("*.x.example", "a.x.example.evil.example:443"));
    CHECK_FALSE(matches("*.x.example", "a.x.example:22"));
    CHECK(matches("*", "a.example:443"));
    CHECK_FALSE(matches("*", "a.example:22"));
    CHECK(matches("*:22", "a.example:22"));
    // An address is no name.
    CHECK_FALSE(matches("*", "192.0.2.1:443"));
    CHECK_FALSE(matches("*", "[2001:db8::1]:443"));
}

TEST_CASE("A pattern covers the hosts of a narrower one") {
    CHECK(covers("a.example", "a.example"));
    CHECK_FALSE(covers("a.example", "b.example"));
    CHECK_FALSE(covers("a.x.example", "*.x.example"));
    CHECK(covers("*.x.example", "a.x.example"));
    CHECK(covers("*.x.example", "*.x.example"));
    CHECK(covers("*.x.example", "*.a.x.example"));
    CHECK_FALSE(covers("*.x.example", "x.example"));
    CHECK_FALSE(covers("*.a.x.example", "*.x.example"));
    CHECK_FALSE(covers("*.x.example", "*.ax.example"));
    CHECK_FALSE(covers("*.x.example", "*"));
    CHECK(covers("*", "*"));
    CHECK(covers("*", "*.x.example"));
    CHECK(covers("*", "a.example"));
    CHECK_FALSE(covers("*", "192.0.2.1"));
    CHECK(covers("192.0.2.1", "192.0.2.1"));
}

}  // namespace egress_list_test
