// Which sandbox's preview has which port of this machine.
#include "core/conversation/preview_numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "core/plain/preview_limits.hpp"

namespace preview_numbers_test {

using atl::base::k_first_preview_number;
using atl::base::k_preview_number_tries;
using atl::base::k_preview_numbers;
using atl::conversation::PreviewNumber;
using atl::conversation::PreviewNumbers;

namespace {

constexpr std::uint16_t k_last = k_first_preview_number + k_preview_numbers - 1;

bool any(std::uint16_t /*number*/) {
    return true;
}

std::uint16_t give(PreviewNumbers& numbers, const std::string& id) {
    const PreviewNumber* const given = numbers.give(id, any);
    return given == nullptr ? std::uint16_t{0} : given->number;
}

/// An id whose first choice is the last number.
std::string last_choice() {
    std::string id;
    for (int sum = k_preview_numbers - 1; sum > 0; sum -= 100)
        id += static_cast<char>(sum > 100 ? 100 : sum);
    return id;
}

/// Every number is given, each to the sandbox of its name.
void fill(PreviewNumbers& numbers) {
    for (int i = 0; i < k_preview_numbers; ++i)
        REQUIRE(give(numbers, "s" + std::to_string(i)) != 0);
}

}  // namespace

TEST_CASE(
    "A preview's number is 30000 and the sum of the id's character codes, or the next one that is free") {
    PreviewNumbers numbers;
    CHECK(give(numbers, "ab") == 30'000 + 97 + 98);
    CHECK(give(numbers, "ba") == 30'000 + 97 + 98 + 1);
    CHECK(give(numbers, "c`") == 30'000 + 97 + 98 + 2);
    CHECK(numbers.find("ba")->number == 30'196);
    CHECK(numbers.at(30'196)->sandbox_id == "ba");
    CHECK_FALSE(numbers.find("ba")->is_stale);
    CHECK(numbers.find("x") == nullptr);
    CHECK(numbers.at(30'000) == nullptr);
    CHECK(PreviewNumbers::first_choice(std::string(103, 'a')) == 39'991);
    CHECK(PreviewNumbers::first_choice(std::string(104, 'a')) == 30'088);
}

TEST_CASE("Behind the last number of previews comes the first") {
    PreviewNumbers numbers;
    const std::string id = last_choice();
    CHECK(give(numbers, id) == k_last);
    CHECK(give(numbers, std::string(id.rbegin(), id.rend())) == k_first_preview_number);
}

TEST_CASE("A number that a sandbox had is given again only when no other is left, first-ended first") {
    PreviewNumbers numbers;
    const std::uint16_t one = give(numbers, "ab");
    const std::uint16_t two = give(numbers, "ba");
    REQUIRE(numbers.take_back("ba")->number == two);
    REQUIRE(numbers.take_back("ab")->number == one);
    CHECK_FALSE(numbers.take_back("ab"));
    CHECK(numbers.at(one) == nullptr);
    CHECK(give(numbers, "ab") == two + 1);
    std::set<std::uint16_t> given;
    for (int i = 0; i < k_preview_numbers - 3; ++i)
        given.insert(give(numbers, "s" + std::to_string(i)));
    CHECK(given.size() == k_preview_numbers - 3);
    CHECK_FALSE(given.contains(one));
    CHECK_FALSE(given.contains(two));
    CHECK(give(numbers, "x") == two);
    CHECK(give(numbers, "y") == one);
    CHECK(numbers.in_use() == k_preview_numbers);
    CHECK(numbers.give("z", any) == nullptr);
}

TEST_CASE("Only a number that another sandbox had is stale, until the browser was told so") {
    PreviewNumbers numbers;
    fill(numbers);
    const std::uint16_t number = numbers.find("s7")->number;
    CHECK_FALSE(numbers.freshen(number));
    numbers.take_back("s7");
    REQUIRE(give(numbers, "next") == number);
    CHECK(numbers.find("next")->is_stale);
    CHECK(numbers.freshen(number));
    CHECK_FALSE(numbers.freshen(number));
}

TEST_CASE("A number that another program has is passed by, and so is tried again last") {
    PreviewNumbers numbers;
    const std::uint16_t first = PreviewNumbers::first_choice("ab");
    const auto is_free = [first](std::uint16_t number) { return number > first + 2; };
    CHECK(numbers.give("ab", is_free)->number == first + 3);
    CHECK(give(numbers, "ba") == first + 4);
    std::size_t asked = 0;
    const auto none = [&asked](std::uint16_t) { return ++asked > 1'000'000; };
    CHECK(numbers.give("x", none) == nullptr);
    CHECK(asked == k_preview_number_tries);
    CHECK(numbers.find("x") == nullptr);
}

TEST_CASE("Numbers come back from the store with their order, and rows that cannot be are left out") {
    PreviewNumbers numbers;
    numbers.restore({30'195, "ab", 0, true});
    numbers.restore({30'195, "other", 0, false});
    numbers.restore({30'500, "ab", 0, false});
    numbers.restore({29'999, "low", 0, false});
    numbers.restore({40'000, "high", 0, false});
    numbers.restore({30'197, "", 5, false});
    numbers.restore({30'196, "", 5, false});
    CHECK(numbers.in_use() == 1);
    CHECK(numbers.find("ab")->number == 30'195);
    CHECK(numbers.find("ab")->is_stale);
    CHECK(give(numbers, "ba") == 30'198);
    for (int i = 0; i < k_preview_numbers - 4; ++i)
        REQUIRE(give(numbers, "s" + std::to_string(i)) != 0);
    CHECK(give(numbers, "x") == 30'197);
    CHECK(give(numbers, "y") == 30'196);
    CHECK(give(numbers, "z") == 0);
}

}  // namespace preview_numbers_test
