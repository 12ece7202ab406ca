// The accounting of capacity, over fakes of every port.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/core/house.hpp"

namespace capacity_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr std::uint64_t k_gb = 1024UL * 1024 * 1024;

base::Result<conversation::View> create_for(House& house, const std::string& user,
                                            std::uint32_t memory_mb = 100) {
    conversation::CreateRequest request;
    request.user_id = user;
    request.limits = memory(memory_mb);
    return house.create(std::move(request));
}

base::Error::Members of_budget(const std::string& name) {
    return {{"budget", "\"" + name + "\""}};
}

}  // namespace

TEST_CASE("capacity: memory limits are counted while a sandbox lives, frozen or not, and as they change") {
    House house({10, 250});
    const std::string first = house.create(100)->record.id;
    CHECK(house.sandboxes->committed_memory_mb() == 100);
    CHECK(house.sandboxes->room_for({memory(150)}).has_value());
    CHECK(house.sandboxes->room_for({memory(151)}).error().code() == base::Errc::capacity);
    conversation::PatchRequest more;
    more.limits.emplace().memory_mb = 200;
    (void)house.answer([&](auto reply) { house.conversations->patch(first, more, std::move(reply)); });
    CHECK(house.sandboxes->committed_memory_mb() == 200);
    REQUIRE(house.freeze(first)->sandbox_status == sandbox::Status::frozen);
    CHECK(house.sandboxes->committed_memory_mb() == 200);
    // It makes room for the next one.
    CHECK(house.create(100).has_value());
    CHECK(house.sandboxes->committed_memory_mb() == 100);
    CHECK(test::get(*house.conversations, first)->record.reason == conversation::PauseReason::evicted);
}

TEST_CASE(
    "capacity: below half the reserve of the host's memory nothing starts, and a host that tells nothing has "
    "none") {
    sandbox::ManagerSettings settings;
    settings.memory_reserve = 0.05;
    House house(settings);
    CHECK(house.create().has_value());
    house.host = {20 * k_gb, 2 * k_gb};
    CHECK(house.create().has_value());
    house.host->available_bytes = k_gb / 2;
    CHECK(house.create().has_value());
    // A start that is nobody's yet is refused.
    CHECK(house.sandboxes->room_for({}).error().members() == of_budget("host_memory"));
    house.host->available_bytes = k_gb / 2 - 1;
    const auto refused = house.create();
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::capacity);
    CHECK(refused.error().members() == of_budget("host_memory"));
    // All were active a moment ago.
    CHECK(refused.error().retry_after() == base::k_default_evict_idle);
    house.world.clock.advance(base::Millis{29'000});
    CHECK(house.create().error().retry_after() == std::chrono::seconds{1});
}

TEST_CASE("capacity: a host that others made short gets one sandbox ended for a start, not all") {
    sandbox::ManagerSettings settings;
    settings.memory_reserve = 0.05;
    House house(settings);
    std::vector<std::string> frozen;
    for (std::size_t i = 0; i < base::k_max_evictions_per_start + 2; ++i) {
        frozen.push_back(house.create()->record.id);
        REQUIRE(house.freeze(frozen.back()).has_value());
    }
    house.host = {20 * k_gb, k_gb / 4};
    CHECK(house.create().error().code() == base::Errc::capacity);
    CHECK(house.sandboxes->living() == base::k_max_evictions_per_start + 1);
    house.host->available_bytes = 2 * k_gb;
    CHECK(house.create().has_value());
}

TEST_CASE("capacity: what can never fit ends nobody, and no limit grows beyond the bound of all") {
    sandbox::ManagerSettings settings;
    settings.max_memory_mb = 8192;
    settings.user_share_percent = 100;
    House house(settings);
    const std::string id = house.create(2048)->record.id;
    REQUIRE(house.freeze(house.create(2048)->record.id).has_value());
    CHECK(house.create(8193).error().code() == base::Errc::capacity);
    CHECK(house.sandboxes->living() == 2);
    CHECK(house.create(8193).error().members() == of_budget("memory"));
    CHECK(house.raise(id, 8192).error().code() == base::Errc::capacity);
    CHECK(house.raise(id, 8192).error().members() == of_budget("memory"));
    CHECK(house.sandboxes->committed_memory_mb() == 4096);
    CHECK(house.raise(id, 6144).has_value());
    CHECK(house.sandboxes->committed_memory_mb() == 8192);
}

TEST_CASE("capacity: a user's sandboxes leave others places, and its own idle ones make room for its next") {
    House house({20});
    const auto create = [&](const std::string& user) {
        conversation::CreateRequest request;
        request.user_id = user;
        return house.create(std::move(request));
    };
    const auto sleeping = create("bob")->record.id;
    REQUIRE(house.pause(sleeping).has_value());
    const auto first = create("ann")->record.id;
    for (int i = 1; i < 10; ++i)
        REQUIRE(create("ann").has_value());
    const auto refused = create("ann");
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::user_share);
    CHECK(refused.error().retry_after() == base::k_default_evict_idle);
    CHECK(house.sandboxes->reserve({{}, base::ShareHolder::user("ann")}) == nullptr);
    REQUIRE(house.freeze(first).has_value());
    CHECK(create("ann").has_value());
    CHECK(test::get(*house.conversations, first)->record.reason == conversation::PauseReason::evicted);
    CHECK(house.sandboxes->places().held_by(base::ShareHolder::user("ann")) == 10);
    CHECK(house.resume(sleeping).has_value());
    CHECK(test::get(*house.conversations, sleeping)->record.status == conversation::Status::active);
}

TEST_CASE("capacity: idle sandboxes of a user whose share has become less end only if that is enough") {
    House house({20});
    const auto create = [&](const std::string& user) {
        conversation::CreateRequest request;
        request.user_id = user;
        return house.create(std::move(request));
    };
    const auto held = [&](const char* user) {
        return house.sandboxes->places().held_by(base::ShareHolder::user(user));
    };
    std::vector<std::string> made;
    for (int i = 0; i < 10; ++i)
        made.push_back(create("ann")->record.id);
    for (int i = 0; i < 5; ++i)
        REQUIRE(create("bob").has_value());
    for (int i = 0; i < 2; ++i)
        REQUIRE(house.freeze(made[static_cast<std::size_t>(i)]).has_value());
    // Up to the floor of 8 she may start: three have to end for that.
    CHECK(create("ann").error().code() == base::Errc::user_share);
    CHECK(held("ann") == 10);
    REQUIRE(house.freeze(made[2]).has_value());
    CHECK(create("ann").has_value());
    CHECK(held("ann") == 8);
    CHECK(held("bob") == 5);
}

TEST_CASE(
    "capacity: a user's memory limits leave others memory, in starts and changes, and its idle ones give "
    "way") {
    sandbox::ManagerSettings settings;
    settings.max_memory_mb = 16'384;
    House house(settings);
    const auto sleeping = create_for(house, "bob", 1000)->record.id;
    REQUIRE(house.pause(sleeping).has_value());
    const auto first = create_for(house, "ann", 4096)->record.id;
    const auto second = create_for(house, "ann", 4096)->record.id;
    const auto refused = create_for(house, "ann");
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::user_share);
    CHECK(refused.error().members() == of_budget("memory"));
    CHECK(refused.error().retry_after() == base::k_default_evict_idle);
    CHECK(house.raise(second, 4097).error().code() == base::Errc::user_share);
    CHECK(house.sandboxes->reserve({memory(100), base::ShareHolder::user("ann")}) == nullptr);
    REQUIRE(create_for(house, "bob", 4096).has_value());
    // Her share is less now. The idle one is enough for a small one, not for a large one.
    REQUIRE(house.freeze(first).has_value());
    CHECK(create_for(house, "ann", 2049).error().code() == base::Errc::user_share);
    CHECK(test::get(*house.conversations, first)->sandbox_status == sandbox::Status::frozen);
    CHECK(create_for(house, "ann", 2048).has_value());
    CHECK(test::get(*house.conversations, first)->record.reason == conversation::PauseReason::evicted);
    CHECK(house.sandboxes->memory().held_by(base::ShareHolder::user("ann")) == 4096 + 2048);
    CHECK(house.resume(sleeping).has_value());
    CHECK(house.sandboxes->memory().used() == house.sandboxes->committed_memory_mb());
    CHECK(house.raise(sleeping, 1020).has_value());
    CHECK(house.sandboxes->memory().held_by(base::ShareHolder::user("bob")) == 4096 + 1020);
}

TEST_CASE("capacity: the first sandbox of a user may have any memory limit that there is room for") {
    sandbox::ManagerSettings settings;
    settings.max_memory_mb = 8192;
    House house(settings);
    CHECK(create_for(house, "ann", 6144).has_value());
    CHECK(create_for(house, "ann", 64).error().code() == base::Errc::user_share);
    CHECK(create_for(house, "bob", 2048).has_value());
}

TEST_CASE("capacity: a start that finds no place ends an idle sandbox of the user who holds most places") {
    House house({12});
    const auto oldest = create_for(house, "bob")->record.id;
    REQUIRE(house.freeze(oldest).has_value());
    house.world.clock.advance(base::Millis{1000});
    const auto idle = create_for(house, "ann")->record.id;
    for (int i = 1; i < 8; ++i)
        REQUIRE(create_for(house, "ann").has_value());
    for (int i = 0; i < 3; ++i)
        REQUIRE(create_for(house, "carl").has_value());
    REQUIRE(house.freeze(idle).has_value());
    REQUIRE(house.sandboxes->living() == 12);
    CHECK(create_for(house, "dan").has_value());
    CHECK(test::get(*house.conversations, idle)->record.reason == conversation::PauseReason::evicted);
    CHECK(test::get(*house.conversations, oldest)->sandbox_status == sandbox::Status::frozen);
    // No other user has an idle one.
    CHECK(create_for(house, "dan").has_value());
    CHECK(test::get(*house.conversations, oldest)->record.reason == conversation::PauseReason::evicted);
}

TEST_CASE("capacity: a place without an owner is that of the key that made the conversation, also later") {
    House house(sandbox::ManagerSettings{});
    conversation::CreateRequest request;
    request.made_by = "key1";
    const auto id = house.create(std::move(request))->record.id;
    const auto held = [&] { return house.sandboxes->places().held_by(base::ShareHolder::key("key1")); };
    CHECK(held() == 1);
    house.restart();
    CHECK(held() == 0);
    REQUIRE(house.resume(id).has_value());
    CHECK(held() == 1);
    {
        const auto next = house.sandboxes->reserve({{}, base::ShareHolder::key("key1")});
        CHECK(held() == 2);
    }
    CHECK(held() == 1);
    CHECK(house.sandboxes->places().used() == 1);
}

}  // namespace capacity_test
