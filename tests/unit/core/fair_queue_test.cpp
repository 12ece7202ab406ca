#include "core/base/fair_queue.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace fair_queue_test {

using atl::base::FairQueue;
using atl::base::ShareHolder;

TEST_CASE("Runs of users are served in turn, within the places of each") {
    FairQueue queue({.running = 3, .running_per_user = 2, .waiting_per_user = 32, .retry_after = {}});
    for (FairQueue::Run run = 1; run <= 4; ++run)
        REQUIRE(queue.enter(ShareHolder::user("a"), run).has_value());
    REQUIRE(queue.enter(ShareHolder::user("b"), 11).has_value());
    CHECK(queue.next() == 1U);
    CHECK(queue.next() == 11U);
    CHECK(queue.next() == 2U);
    CHECK(queue.next() == std::nullopt);
    CHECK(queue.leave(11));
    CHECK(queue.next() == std::nullopt);  // a has its two
    CHECK(queue.leave(3));                // it was waiting
    CHECK(queue.leave(1));
    CHECK(queue.next() == 4U);
    CHECK_FALSE(queue.leave(1));
    CHECK(queue.running() == 2);
    CHECK(queue.waiting() == 0);
}

TEST_CASE("A user whose line is full is refused with a time, and no other") {
    FairQueue queue(
        {.running = 1, .running_per_user = 1, .waiting_per_user = 2, .retry_after = std::chrono::seconds(7)});
    REQUIRE(queue.enter(ShareHolder::user("a"), 1).has_value());
    REQUIRE(queue.next() == 1U);
    REQUIRE(queue.enter(ShareHolder::user("a"), 2).has_value());
    REQUIRE(queue.enter(ShareHolder::user("a"), 3).has_value());
    const auto refused = queue.enter(ShareHolder::user("a"), 4);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == atl::base::Errc::too_many_executions);
    CHECK(refused.error().retry_after() == std::chrono::seconds(7));
    CHECK(queue.enter(ShareHolder::user("b"), 5).has_value());
}

TEST_CASE("Where nobody may wait, a run without a free place is refused, the first of a user too") {
    FairQueue queue({.running = 1, .running_per_user = 1, .waiting_per_user = 0, .retry_after = {}});
    REQUIRE(queue.enter(ShareHolder::user("a"), 1).has_value());
    REQUIRE(queue.next() == 1U);
    CHECK_FALSE(queue.enter(ShareHolder::user("b"), 2).has_value());
    REQUIRE(queue.leave(1));
    CHECK(queue.enter(ShareHolder::user("b"), 2).has_value());
}

TEST_CASE("A run that is here does not enter again, and its place is given back once") {
    FairQueue queue({.running = 1, .running_per_user = 1, .waiting_per_user = 2, .retry_after = {}});
    REQUIRE(queue.enter(ShareHolder::user("a"), 1).has_value());
    CHECK_FALSE(queue.enter(ShareHolder::user("a"), 1).has_value());
    CHECK_FALSE(queue.enter(ShareHolder::user("b"), 1).has_value());
    REQUIRE(queue.next() == 1U);
    CHECK(queue.leave(1));
    CHECK(queue.running() == 0);
    CHECK(queue.waiting() == 0);
    REQUIRE(queue.enter(ShareHolder::user("b"), 2).has_value());
    CHECK(queue.next() == 2U);
}

TEST_CASE("fair queue: a line without a bound takes all") {
    FairQueue queue({.running = 1, .running_per_user = 1, .waiting_per_user = SIZE_MAX});
    for (FairQueue::Run run = 1; run <= 100; ++run)
        CHECK(queue.enter(ShareHolder::user("a"), run).has_value());
    CHECK(queue.waiting() == 100);
}

TEST_CASE("fair queue: spinning runs of four users leave a fifth one a place, unless one may have all") {
    const unsigned percent = GENERATE(50U, 100U);
    atl::base::Budget places({"programs", "programs", "End one.", 16, 1, {}}, percent);
    FairQueue queue({.running = 16, .running_per_user = 4, .waiting_per_user = 32, .retry_after = {}},
                    &places);
    FairQueue::Run run = 0;
    for (const char* const user : {"a", "b", "c", "d"}) {
        for (int i = 0; i < 8; ++i)
            REQUIRE(queue.enter(ShareHolder::user(user), ++run).has_value());
    }
    while (queue.next()) {
    }
    REQUIRE(queue.enter(ShareHolder::user("e"), 100).has_value());
    if (percent == 100) {
        CHECK(queue.running() == 16);
        CHECK(queue.next() == std::nullopt);
        return;
    }
    CHECK(places.used() == 12);
    CHECK(places.held_by(ShareHolder::user("d")) == 3);
    CHECK(queue.next() == 100U);
    // The place of one that ended goes on.
    CHECK(queue.leave(100));
    CHECK(places.used() == queue.running());
}

}  // namespace fair_queue_test
