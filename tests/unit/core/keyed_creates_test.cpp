// Create requests with an Idempotency-Key.
#include <catch2/catch_test_macros.hpp>
#include <deque>

#include "tests/unit/core/house.hpp"

namespace keyed_creates_test {

using namespace atl;
using namespace atl::test;
using conversation::CreateRequest;
using conversation::View;

namespace {

CreateRequest keyed(const std::string& key, const std::string& fingerprint = "{}") {
    CreateRequest request;
    request.limits = memory(100);
    request.idempotency_key = key;
    request.fingerprint = fingerprint;
    return request;
}

}  // namespace

TEST_CASE("keyed creates: a retry gets the first one's conversation, also from the next server") {
    House house({}, {});
    const auto first = house.create(keyed("a"));
    REQUIRE(first.has_value());
    CHECK(house.create(keyed("a"))->record.id == first->record.id);
    CHECK(house.create(keyed("b"))->record.id != first->record.id);
    CHECK(house.create(keyed("a", "other")).error().code() == base::Errc::idempotency_key_reused);
    house.restart();
    CHECK(house.create(keyed("a"))->record.id == first->record.id);
    CHECK(house.create(keyed("a", "other")).error().code() == base::Errc::idempotency_key_reused);
    CHECK(house.conversations->count() == 2);
}

TEST_CASE("keyed creates: requests that come while the first one is under way wait for its conversation") {
    House house({}, {});
    // The store answers each look-up only when it is told to.
    std::deque<std::function<void()>> asked;
    house.world.store.later = [&](std::function<void()> give) { asked.push_back(std::move(give)); };
    std::vector<base::Result<View>> answers;
    const auto reply = [&](base::Result<View> view) { answers.push_back(std::move(view)); };
    house.conversations->create(keyed("a"), reply);
    house.conversations->create(keyed("a"), reply);
    house.conversations->create(keyed("a", "other"), reply);
    house.settle();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].error().code() == base::Errc::idempotency_key_reused);
    while (answers.size() < 3) {
        REQUIRE(!asked.empty());
        const auto give = std::move(asked.front());
        asked.pop_front();
        give();
        house.settle();
    }
    REQUIRE(answers[1].has_value());
    REQUIRE(answers[2].has_value());
    CHECK(answers[1]->record.id == answers[2]->record.id);
    CHECK(house.conversations->count() == 1);
    house.world.store.hear_of_new_server();
}

TEST_CASE("keyed creates: a key is free again after a create that failed, and after a deletion") {
    House house({}, {});
    CreateRequest wrong = keyed("a");
    wrong.agent = "nobody";
    CHECK(house.create(wrong).error().code() == base::Errc::unknown_agent);
    const auto made = house.create(keyed("a"));
    REQUIRE(made.has_value());
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(made->record.id, reply); })
                .has_value());
    const auto again = house.create(keyed("a"));
    REQUIRE(again.has_value());
    CHECK(again->record.id != made->record.id);
}

}  // namespace keyed_creates_test
