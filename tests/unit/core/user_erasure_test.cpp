// Removing all that is kept of a user.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace user_erasure_test {

using namespace atl;
using namespace std::chrono_literals;
using conversation::ErasedUser;
using test::House;

namespace {

sandbox::ManagerSettings roomy() {
    sandbox::ManagerSettings settings;
    settings.max_sandboxes = 500;
    return settings;
}

std::string create(House& house, const std::string& user_id) {
    conversation::CreateRequest request;
    request.user_id = user_id;
    const auto made = house.create(request);
    REQUIRE(made);
    return made->record.id;
}

std::string create_sandbox(House& house, const std::string& user_id) {
    conversation::SandboxRequest request;
    request.user_id = user_id;
    const auto made = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(request, std::move(reply)); });
    REQUIRE(made);
    return made->record.id;
}

base::Result<ErasedUser> erase(House& house, const std::string& user_id) {
    return house.answer<ErasedUser>(
        [&](auto reply) { house.conversations->erase_user(user_id, std::move(reply)); });
}

}  // namespace

TEST_CASE("A user is erased with all conversations and sandboxes, and nobody else") {
    House house(roomy());
    constexpr std::size_t k_count = 70;
    for (std::size_t at = 0; at < k_count; ++at)
        create(house, "eve");
    const std::string kept = create(house, "adam");
    const std::string loose = create_sandbox(house, "eve");
    const std::string other = create_sandbox(house, "adam");
    const std::string paused = create(house, "eve");
    REQUIRE(house.answer([&](auto reply) {
        house.conversations->pause(paused, conversation::PauseMode::cold, std::move(reply));
    }));

    const auto erased = erase(house, "eve");
    REQUIRE(erased);
    CHECK(erased->conversations == k_count + 1);
    CHECK(erased->sandboxes == 1);
    CHECK(house.world.store.conversations.size() == 1);
    CHECK(house.world.store.sandboxes.size() == 2);
    CHECK(test::get(*house.conversations, kept).has_value());
    CHECK_FALSE(house.sandboxes->find(loose));
    CHECK(house.sandboxes->find(other));
    // Once more there is nothing; and the user may begin anew.
    CHECK(erase(house, "eve")->conversations == 0);
    create(house, "eve");
}

TEST_CASE("Ended conversations and those of an earlier server are erased, too") {
    House house(roomy());
    conversation::CreateRequest request;
    request.user_id = "eve";
    request.ttl_seconds = 5;
    REQUIRE(house.create(request));
    create(house, "eve");
    house.world.timers.advance(10s, [&] { house.settle(); });
    CHECK(house.conversations->stats().by_status[conversation::Status::ended] == 1);
    house.restart();
    const auto erased = erase(house, "eve");
    REQUIRE(erased);
    CHECK(erased->conversations == 2);
    CHECK(house.world.store.conversations.empty());
    CHECK(house.world.store.sandboxes.empty());
}

TEST_CASE("An erasure waits for a store that refuses for a while") {
    House house(roomy());
    for (int at = 0; at < 40; ++at)
        create(house, "eve");
    int refusals = 3;
    house.world.store.fails = [&] { return refusals-- > 0; };
    const auto erased = erase(house, "eve");
    REQUIRE(erased);
    CHECK(erased->conversations == 40);
    CHECK(refusals <= 0);
    house.settle();
    house.restart();
    CHECK(house.world.store.conversations.empty());
}

TEST_CASE("What starts, and what somebody else deletes, is gone as well when an erasure answers") {
    House house(roomy());
    const std::string deleted = create(house, "eve");
    bool is_deleted = false;
    house.conversations->remove(deleted,
                                [&](const base::Result<void>& gone) { is_deleted = gone.has_value(); });
    conversation::CreateRequest request;
    request.user_id = "eve";
    bool is_answered = false;
    house.conversations->create(request, [&](const auto&) { is_answered = true; });
    CHECK_FALSE(is_answered);
    REQUIRE(erase(house, "eve"));
    CHECK(is_deleted);
    CHECK(is_answered);
    CHECK(house.world.store.conversations.empty());
    CHECK(house.conversations->loaded() == 0);
}

}  // namespace user_erasure_test
