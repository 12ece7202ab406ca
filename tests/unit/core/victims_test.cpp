#include "core/base/victims.hpp"

#include <catch2/catch_test_macros.hpp>

namespace victims_test {

using namespace atl::base;
using Ids = std::vector<std::string>;

namespace {

ShareHolder user(const char* name) {
    return ShareHolder::user(name);
}

}  // namespace

TEST_CASE("victims: many small things of one user give way before another's large one") {
    std::vector<Taking> all{{"large", user("one"), 100}};
    for (int i = 0; i < 20; ++i)
        all.push_back({"s" + std::to_string(i), user("many"), i == 7 ? 11U : 10U});
    const Victims victims = choose_victims(all, 30);
    CHECK(victims.total == 201);
    CHECK(victims.ids == Ids{"s7", "s0", "s1"});
    all[0].amount = 202;
    CHECK(choose_victims(all, 30).ids == Ids{"large"});
}

TEST_CASE("victims: where no user takes enough there is none, nor among what cannot be ended") {
    CHECK(choose_victims({}, 0).ids.empty());
    CHECK(choose_victims({{"a", user("one"), 9}, {"b", user("two"), 9}}, 10).ids.empty());
    CHECK(choose_victims({{"", user("one"), 50}, {"a", user("one"), 0}, {"b", user("two"), 20}}, 10)
              .ids.empty());
    CHECK(choose_victims({{"", user("one"), 50}, {"a", user("one"), 3}, {"b", user("two"), 20}}, 10).ids ==
          Ids{"a"});
}

TEST_CASE("victims: a thing without an owner is a user of its own") {
    const Victims victims = choose_victims({{"a", ShareHolder::thing("a"), 10},
                                            {"b", ShareHolder::thing("b"), 10},
                                            {"c", ShareHolder::user("a"), 15}},
                                           1);
    CHECK(victims.ids == Ids{"c"});
}

}  // namespace victims_test
