// Conversations woken for those who look at a preview, over fakes of every port.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/core/house.hpp"

namespace waking_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using conversation::PauseMode;
using conversation::Status;

namespace {

const auto k_may = [](const base::ShareHolder&) { return base::Result<void>(); };

base::Result<void> wake(House& house, const std::string& sandbox_id) {
    return house.answer<void>(
        [&](auto reply) { house.conversations->wake(sandbox_id, k_may, std::move(reply)); });
}

void pause(House& house, const std::string& id, PauseMode mode) {
    (void)house.answer([&](auto reply) { house.conversations->pause(id, mode, std::move(reply)); });
}

}  // namespace

TEST_CASE("waking: a paused conversation is active again, its kept processes run, and many wakes are one") {
    House house({10, 0});
    std::size_t started = 0;
    house.world.start_process = [&started](const sandbox::ProcessSpec&) {
        ++started;
        return base::Result<pid_t>(7);
    };
    const auto made = house.create();
    const std::string sandbox_id = made->record.sandbox_id;
    {
        std::unique_ptr<conversation::Lease> held;
        house.conversations->lease(sandbox_id, conversation::LeaseUse::process,
                                   [&](auto granted) { held = std::move(*granted); });
        house.settle();
        sandbox::ProcessSpec dev;
        dev.id = "dev";
        dev.program.command = "npm run dev";
        REQUIRE(house
                    .answer<pid_t>([&](auto reply) {
                        house.conversations->start_kept_process(*held, dev, std::move(reply));
                    })
                    .has_value());
    }
    SECTION("cold") {
        pause(house, made->record.id, PauseMode::cold);
        int woken = 0;
        for (int i = 0; i < 3; ++i)
            house.conversations->wake(sandbox_id, k_may, [&woken](auto answer) { woken += answer ? 1 : 0; });
        house.settle();
        CHECK(woken == 3);
        CHECK(started == 2);
        CHECK(test::get(*house.conversations, made->record.id)->generation == 2);
    }
    SECTION("warm") {
        pause(house, made->record.id, PauseMode::warm);
        CHECK(wake(house, sandbox_id).has_value());
        CHECK(started == 1);
        CHECK(test::get(*house.conversations, made->record.id)->generation == 1);
    }
    const auto seen = test::get(*house.conversations, made->record.id);
    CHECK(seen->record.status == Status::active);
    CHECK(seen->sandbox_status == sandbox::Status::ready);
}

TEST_CASE("waking: nobody is ended for it, though a message would end somebody") {
    House house({10, 250});
    const auto sleeper = house.create(100);
    pause(house, sleeper->record.id, PauseMode::cold);
    const auto first = house.create(100);
    const auto second = house.create(100);
    REQUIRE(house.freeze(second->record.id).has_value());
    const auto refused = wake(house, sleeper->record.sandbox_id);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == Errc::capacity);
    CHECK(test::get(*house.conversations, first->record.id)->record.status == Status::active);
    CHECK(test::get(*house.conversations, second->record.id)->sandbox_status == sandbox::Status::frozen);
    CHECK(test::get(*house.conversations, sleeper->record.id)->record.status == Status::paused);
    // The frozen one needs no place that it does not have.
    CHECK(wake(house, second->record.sandbox_id).has_value());
    pause(house, first->record.id, PauseMode::warm);
    const auto resumed =
        house.answer([&](auto reply) { house.conversations->resume(sleeper->record.id, std::move(reply)); });
    CHECK(resumed.has_value());
    CHECK(test::get(*house.conversations, first->record.id)->sandbox_status != sandbox::Status::frozen);
}

TEST_CASE("waking: a sandbox that goes down, one without a conversation and an unknown one are not woken") {
    House house({10, 0});
    const auto made = house.create();
    house.conversations->pause(made->record.id, PauseMode::cold, [](auto) {});
    CHECK(wake(house, made->record.sandbox_id).error().code() == Errc::sandbox_gone);
    house.settle();
    while (house.sandboxes->living() > 0 && house.world.timers.fire_next())
        house.settle();
    CHECK(test::get(*house.conversations, made->record.id)->record.status == Status::paused);
    const auto alone = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    CHECK(wake(house, alone->record.id).error().code() == Errc::sandbox_gone);
    CHECK(wake(house, "nobody").error().code() == Errc::not_found);
}

TEST_CASE("waking: what may not be woken for its owner's share stays paused") {
    House house(sandbox::ManagerSettings{});
    conversation::CreateRequest request;
    request.user_id = "ann";
    const auto made = house.create(std::move(request))->record;
    REQUIRE(house.pause(made.id).has_value());
    std::string asked;
    const auto may = [&asked](const base::ShareHolder& owner) {
        asked = owner.name();
        return base::Result<void>(base::Error(base::Errc::user_share));
    };
    const auto woken = house.answer<void>(
        [&](auto reply) { house.conversations->wake(made.sandbox_id, may, std::move(reply)); });
    CHECK(woken.error().code() == base::Errc::user_share);
    CHECK(asked == base::ShareHolder::user("ann").name());
    CHECK(test::get(*house.conversations, made.id)->record.status == conversation::Status::paused);
}

}  // namespace waking_test
