// Budgets that users share: the rule of a share, refusals, and random histories of takes and returns.
#include "core/base/shares.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <random>
#include <vector>

namespace shares_test {

using namespace atl::base;

namespace {

constexpr BudgetSpec k_spec{"things", "things", "Give some back.", 1200, 10, std::chrono::seconds(3)};

ShareHolder user(std::size_t number) {
    return ShareHolder::user("user" + std::to_string(number));
}

const ShareHolder k_one = user(1);
const ShareHolder k_other = user(2);

/// Takes one at a time for each user in turn, until all are refused.
std::vector<std::uint64_t> fill(Budget& budget, std::size_t users) {
    std::vector<std::vector<Share>> shares(users);
    std::vector<std::uint64_t> held(users);
    for (bool is_full = false; !is_full;) {
        is_full = true;
        for (std::size_t i = 0; i < users; ++i) {
            auto share = budget.take(user(i), 1);
            if (!share)
                continue;
            is_full = false;
            ++held[i];
            shares[i].push_back(std::move(*share));
        }
    }
    return held;
}

}  // namespace

TEST_CASE("n users have 1/(n+1) of a budget each, and as much is left") {
    const auto users = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{11});
    Budget budget(k_spec);
    for (const std::uint64_t held : fill(budget, users))
        CHECK(held == 1200 / (users + 1));
    CHECK(budget.used() == 0);
}

TEST_CASE("with 100 percent one user may have all") {
    Budget budget(k_spec, 100);
    const auto all = budget.take(k_one, 1200);
    CHECK(all.has_value());
    CHECK(budget.take(k_other, 1).error().code() == Errc::capacity);
}

TEST_CASE("a greater percentage never leaves a user less") {
    std::uint64_t before = 0;
    for (unsigned percent = 1; percent <= 100; ++percent) {
        Budget budget(k_spec, percent);
        const auto others = *budget.take(ShareHolder::key("k"), 10);
        const std::uint64_t room = budget.room(k_one);
        CHECK(room >= before);
        CHECK(room == std::max<std::uint64_t>(10, 1190 * percent / 100));
        before = room;
    }
}

TEST_CASE("up to the floor only the total counts, and the total always does") {
    Budget budget({"things", "things", "", 100, 30});
    auto one = *budget.take(k_one, 50);
    auto two = *budget.take(k_other, 30);
    auto three = budget.take(user(3), 30);
    CHECK(three.error().code() == Errc::capacity);
    three = budget.take(user(3), 20);
    CHECK(three.has_value());
    CHECK(budget.take(user(4), 1).error().code() == Errc::capacity);
    one = {};
    CHECK(two.grow(11).error().code() == Errc::user_share);
    CHECK(three->grow(10).has_value());
}

TEST_CASE("a refusal names the budget, what frees room, and a time only where waiting helps") {
    BudgetSpec spec = k_spec;
    spec.retry_after = GENERATE(std::chrono::seconds(0), std::chrono::seconds(3));
    Budget budget(spec);
    const auto held = *budget.take(k_one, 600);
    for (const Error& error : {budget.take(k_one, 1).error(), budget.take(k_other, 601).error()}) {
        CHECK(error.members() == Error::Members{{"budget", "\"things\""}});
        CHECK(error.detail().ends_with("Give some back."));
        CHECK(error.detail().find("`things`") != std::string::npos);
        CHECK(error.retry_after() == spec.retry_after);
    }
    // It is no secret of one user how much another one holds.
    CHECK(budget.take(k_other, 601).error().detail().find("600") == std::string::npos);
    CHECK(budget.take(k_one, 1).error().code() == Errc::user_share);
    CHECK(budget.take(k_other, 301).error().code() == Errc::user_share);
    CHECK(budget.take(k_other, 601).error().code() == Errc::capacity);
}

TEST_CASE("a share gives back what it took, once, wherever it was moved") {
    Budget budget(k_spec);
    Share outer;
    {
        Share inner = *budget.take(k_one, 5);
        CHECK(inner.grow_up_to(10'000) == 595);
        Share moved = std::move(inner);
        outer = std::move(moved);
        Share& same = outer;
        outer = std::move(same);
    }
    CHECK(outer.amount() == 600);
    CHECK(budget.held_by(k_one) == 600);
    outer.shrink(100);
    CHECK(budget.used() == 500);
    outer = *budget.take(k_other, 7);
    CHECK(budget.held_by(k_one) == 0);
    CHECK(budget.used() == 7);
    outer = {};
    CHECK(budget.used() == 0);
    CHECK(outer.grow_up_to(1) == 0);
}

TEST_CASE("a user, a key and a thing of one name are three users") {
    Budget budget(k_spec);
    const auto one = *budget.take(ShareHolder::user("a"), 1);
    CHECK(budget.held_by(ShareHolder::key("a")) == 0);
    CHECK(budget.held_by(ShareHolder::thing("a")) == 0);
    CHECK(ShareHolder::owner("a", "b") == ShareHolder::user("a"));
    CHECK(ShareHolder::owner(std::nullopt, "b") == ShareHolder::thing("b"));
}

TEST_CASE("a charge may exceed the share and the total, and then nothing is taken until it is given back") {
    Budget budget({"things", "things", "", 100, 0});
    auto held = *budget.take(user(1), 0);
    auto other = *budget.take(user(2), 10);
    CHECK(held.has_room(45));
    CHECK_FALSE(held.has_room(46));
    held.charge(140);
    CHECK(budget.used() == 150);
    CHECK(budget.held_by(user(1)) == 140);
    CHECK(budget.most_held(user(2)) == 140);
    CHECK(budget.most_held(user(1)) == 10);
    CHECK(other.grow(1).error().code() == Errc::capacity);
    CHECK(budget.room(user(3)) == 0);
    held.shrink(100);
    CHECK(other.grow(10).has_value());
    Share none;
    none.charge(5);
    CHECK(none.amount() == 0);
    CHECK(none.has_room(5));
}

TEST_CASE("random takes and returns keep the total, the shares and the account of each user") {
    std::mt19937_64 random(Catch::getSeed());
    const auto below = [&random](std::size_t end) { return random() % end; };
    for (int round = 0; round < 50; ++round) {
        const BudgetSpec spec{"things", "things", "", 1 + below(1000), below(100)};
        const unsigned percent = 1 + static_cast<unsigned>(below(100));
        Budget budget(spec, percent);
        std::vector<std::pair<std::size_t, Share>> shares;
        for (int step = 0; step < 400; ++step) {
            const std::size_t who = below(5);
            const std::uint64_t amount = below(50);
            const std::uint64_t held = budget.held_by(user(who));
            const std::uint64_t left = spec.total - budget.used() + held;
            const bool fits = amount == 0 || (held + amount <= left &&
                                              held + amount <= std::max(spec.floor, left * percent / 100));
            CHECK((amount <= budget.room(user(who))) == fits);
            if (shares.empty() || below(3) == 0) {
                auto taken = budget.take(user(who), amount);
                CHECK(taken.has_value() == fits);
                if (taken)
                    shares.emplace_back(who, std::move(*taken));
            } else {
                auto& [owner, share] = shares[below(shares.size())];
                const std::uint64_t room = budget.room(user(owner));
                const std::uint64_t before = share.amount();
                if (below(2) == 0)
                    CHECK(share.grow_up_to(amount) == std::min(room, amount));
                else
                    CHECK(share.grow(amount).has_value() == (amount <= room));
                share.shrink(below(share.amount() + 1));
                CHECK(share.amount() <= before + amount);
            }
            if (!shares.empty() && below(4) == 0) {
                std::swap(shares[below(shares.size())], shares.back());
                shares.pop_back();
            }
            std::map<std::size_t, std::uint64_t> expected;
            std::uint64_t used = 0;
            for (const auto& [owner, share] : shares) {
                expected[owner] += share.amount();
                used += share.amount();
            }
            CHECK(used == budget.used());
            CHECK(used <= spec.total);
            for (const auto& [owner, sum] : expected)
                CHECK(budget.held_by(user(owner)) == sum);
        }
    }
}

}  // namespace shares_test
