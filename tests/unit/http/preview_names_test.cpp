#include "http/proxy/preview_names.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "http/proxy/loopback_doors.hpp"

namespace preview_names_test {

using namespace atl;
using http::PreviewNames;

namespace {

constexpr const char* k_both = "preview-{id},preview-{id}-{port}";

std::string read(const PreviewNames& names, std::string_view authority) {
    const auto name = names.read(authority);
    if (name.has_error())
        return std::string(base::code_name(name.error().code()));
    return name->sandbox_id + (name->port ? ':' + std::to_string(*name->port) : "");
}

}  // namespace

TEST_CASE("a preview's name has the id, and perhaps a port, in either order and any case") {
    const auto names = PreviewNames::make("Preview.Example", k_both).value();
    CHECK(read(names, "preview-abc.preview.example") == "abc");
    CHECK(read(names, "PREVIEW-ABC.preview.example.:8443") == "abc");
    CHECK(read(names, "preview-abc-3000.preview.example") == "abc:3000");
    CHECK(read(names, "preview-a-b-3000.preview.example") == "a-b:3000");
    CHECK(names.host("abc", 5173) == "preview-abc.preview.example");
    const auto ports = PreviewNames::make("localhost", "{port}-{id}").value();
    CHECK(read(ports, "3000-abc.localhost") == "abc:3000");
    CHECK(ports.host("abc", 5173) == "5173-abc.localhost");
}

TEST_CASE("a name that is no preview's is refused") {
    const auto names = PreviewNames::make("localhost", k_both).value();
    CHECK(read(names, "preview-abc.example") == "host_not_allowed");
    CHECK(read(names, "localhost") == "host_not_allowed");
    CHECK(read(names, "preview-abc.b.localhost") == "host_not_allowed");
    CHECK(read(names, "") == "host_not_allowed");
    CHECK(read(names, "preview-.localhost") == "invalid_request");
    CHECK(read(names, "other-abc.localhost") == "invalid_request");
    CHECK(read(names, "preview-a_b.localhost") == "invalid_request");
    CHECK(read(names, "preview-" + std::string(80, 'a') + ".localhost") == "invalid_request");
    // No port: the id ends in digits.
    CHECK(read(names, "preview-abc-0.localhost") == "abc-0");
    CHECK(read(names, "preview-abc-70000.localhost") == "abc-70000");
}

TEST_CASE("a pattern without an id, or with parts that cannot be told apart, is refused") {
    const std::string pattern =
        GENERATE("", "preview", "{id}{id}", "{id}{port}", "a_{id}", "{id}.{port}", "{ID}");
    CAPTURE(pattern);
    CHECK(PreviewNames::make("localhost", pattern).has_error());
}

TEST_CASE("a domain has labels of letters, digits and inner hyphens, and room for one more") {
    for (const std::string& good : {std::string("localhost"), std::string("a-b.Preview.example"),
                                    std::string("1.example"), std::string(63, 'a') + ".example"})
        CHECK(PreviewNames::make(good, k_both).has_value());
    std::string longest(63, 'a');
    for (int i = 0; i < 2; ++i)
        longest += '.' + std::string(i == 0 ? 63 : 61, 'a');
    CHECK(PreviewNames::is_domain(longest));
    const std::string bad = GENERATE_COPY(
        as<std::string>{}, "", "a b", " a", "a .b", ".", ".example", "example.", "a..b", "-a.example",
        "a-.example", "a_b", "*.example", "example:80", "http://example", "example/", "1.2.3.4", "example.1",
        "\xC3\xA4.example", "a\n", std::string(64, 'a') + ".example", longest + "a");
    CAPTURE(bad);
    CHECK_FALSE(PreviewNames::is_domain(bad));
    CHECK(PreviewNames::make(bad, k_both).has_error());
}

TEST_CASE("a port of this machine is asked for by the names that lead here for everyone, and by no other") {
    using atl::http::loopback_port;
    CHECK(loopback_port("localhost:30001") == 30'001);
    CHECK(loopback_port("LocalHost:1") == 1);
    CHECK(loopback_port("127.0.0.1:39999") == 39'999);
    CHECK(loopback_port("[::1]:30001") == 30'001);
    const std::string other =
        GENERATE("", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:-1",
                 "localhost:000030001", "localhost.:30001", "a.localhost:30001", "127.0.0.2:30001",
                 "127.1:30001", "::1:30001", "[::1]", "[::2]:30001", "attacker.example:30001", ":30001");
    CAPTURE(other);
    CHECK_FALSE(loopback_port(other));
}

}  // namespace preview_names_test
