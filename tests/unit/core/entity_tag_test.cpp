#include "core/plain/entity_tag.hpp"

#include <catch2/catch_test_macros.hpp>

namespace entity_tag_test {

using namespace atl::base;

TEST_CASE("a condition names tags, strong or weak, or anything that is there") {
    constexpr std::string_view k_tag = "\"a-1\"";
    const auto strong = [](std::string_view field, std::string_view tag) {
        return names_tag(field, tag, TagComparison::strong);
    };
    const auto weak = [](std::string_view field, std::string_view tag) {
        return names_tag(field, tag, TagComparison::weak);
    };
    for (const std::string_view field :
         {"\"a-1\"", "\"x\", \"a-1\"", "\"x\",W/\"y\",\"a-1\"", "*", " *", ",,\"a-1\""}) {
        CHECK(strong(field, k_tag));
        CHECK(weak(field, k_tag));
        CHECK_FALSE(strong(field, ""));
    }
    CHECK_FALSE(strong("W/\"a-1\"", k_tag));
    CHECK(weak("W/\"a-1\"", k_tag));
    for (const std::string_view field : {"", "\"a-2\"", "a-1", "\"a-1", "W/", "\"\"", ", ,", "\"A-1\""})
        CHECK_FALSE(weak(field, k_tag));
}

}  // namespace entity_tag_test
