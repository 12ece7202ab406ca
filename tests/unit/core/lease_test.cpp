// Leases on generations as their holders see them, over fakes of every port.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/core/house.hpp"

namespace lease_test {

using namespace atl;
using namespace atl::test;
using conversation::Lease;
using conversation::LeaseUse;
using conversation::Status;

namespace {

using Granted = base::Result<std::unique_ptr<Lease>>;

/// Asks for a lease and runs the world until it is settled.
Granted lease(House& house, const std::string& sandbox_id, LeaseUse use = LeaseUse::request) {
    std::optional<Granted> answered;
    house.conversations->lease(sandbox_id, use,
                               [&answered](Granted granted) { answered.emplace(std::move(granted)); });
    CHECK_FALSE(answered.has_value());
    house.settle();
    while (!answered && house.world.timers.fire_next())
        house.settle();
    REQUIRE(answered.has_value());
    return std::move(*answered);
}

conversation::View pause(House& house, const std::string& id) {
    return *house.answer(
        [&](auto reply) { house.conversations->pause(id, conversation::PauseMode::cold, std::move(reply)); });
}

std::size_t events(const House& house) {
    return house.world.store.events.size();
}

}  // namespace

TEST_CASE("leases: a request on a paused conversation has a generation until a moment after its end") {
    House house({10, 0});
    const auto made = house.create();
    const std::string id = made->record.id;
    pause(house, id);
    const std::size_t told = events(house);
    auto granted = lease(house, made->record.sandbox_id);
    REQUIRE(granted.has_value());
    auto seen = *test::get(*house.conversations, id);
    CHECK(seen.record.status == Status::paused);
    CHECK(seen.sandbox_status == sandbox::Status::ready);
    CHECK(seen.generation == 2);
    CHECK(house.sandboxes->living() == 1);
    // It lives as long as the lease, however long that is.
    house.world.clock.advance(base::Millis{3'600'000});
    house.settle();
    CHECK((*granted)->is_held());
    granted->reset();
    house.settle();
    CHECK(house.sandboxes->living() == 1);
    while (house.sandboxes->living() > 0 && house.world.timers.fire_next())
        house.settle();
    CHECK(house.sandboxes->living() == 0);
    seen = *test::get(*house.conversations, id);
    CHECK(seen.record.status == Status::paused);
    CHECK(seen.record.reason == conversation::PauseReason::user);
    CHECK(events(house) == told);
}

TEST_CASE("leases: a pause tells the holder why its lease is over") {
    House house({10, 0});
    const auto made = house.create();
    auto granted = lease(house, made->record.sandbox_id);
    std::optional<base::Error> told;
    (*granted)->on_end([&told](const base::Error& why) { told = why; });
    pause(house, made->record.id);
    REQUIRE(told.has_value());
    CHECK(told->code() == base::Errc::sandbox_gone);
    CHECK(told->detail() == "the conversation was paused");
    CHECK_FALSE((*granted)->is_held());
}

TEST_CASE("leases: an idle pause waits for a request and not for a process") {
    House house({10, 0});
    conversation::CreateRequest request;
    request.idle_seconds = 60;
    const auto made = house.create(request);
    auto process = lease(house, made->record.sandbox_id, LeaseUse::process);
    auto running = lease(house, made->record.sandbox_id);
    house.world.clock.advance(base::Millis{120'000});
    while (house.world.timers.armed() > 0 && house.world.timers.fire_next())
        house.settle();
    CHECK(test::get(*house.conversations, made->record.id)->record.status == Status::active);
    running->reset();
    house.settle();
    CHECK(house.world.timers.fire_next());
    house.settle();
    CHECK(test::get(*house.conversations, made->record.id)->record.status == Status::paused);
    CHECK((*process)->is_held());
}

TEST_CASE("leases: one that only waits out its grace makes room first") {
    House house({2, 0});
    const auto paused = house.create();
    pause(house, paused->record.id);
    const auto busy = house.create();
    REQUIRE(lease(house, paused->record.sandbox_id).has_value());  // and given back at once
    CHECK(house.sandboxes->living() == 2);
    REQUIRE(house.create().has_value());
    CHECK(test::get(*house.conversations, busy->record.id)->record.status == Status::active);
    CHECK(test::get(*house.conversations, paused->record.id)->record.reason ==
          conversation::PauseReason::user);
}

TEST_CASE("leases: a sandbox under a request is no victim") {
    conversation::ManagerSettings settings;
    settings.evict_idle = base::Millis{0};
    House house({1, 0}, settings);
    const auto made = house.create();
    const auto granted = lease(house, made->record.sandbox_id);
    CHECK(house.create().error().code() == base::Errc::capacity);
    CHECK((*granted)->is_held());
}

TEST_CASE("leases: a sandbox without a conversation is leased until it ends") {
    House house({10, 0});
    const auto made = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    const std::string id = made->record.id;
    auto granted = lease(house, id);
    REQUIRE(granted.has_value());
    std::optional<base::Error> told;
    (*granted)->on_end([&told](const base::Error& why) { told = why; });
    (void)house.answer<void>([&](auto reply) { house.conversations->remove_sandbox(id, std::move(reply)); });
    REQUIRE(told.has_value());
    CHECK(told->code() == base::Errc::sandbox_gone);
    CHECK(lease(house, id).error().code() == base::Errc::not_found);
}

TEST_CASE("leases: a resume takes the generation over, and the conversation can be idle again") {
    House house({10, 0});
    conversation::CreateRequest request;
    request.idle_seconds = 60;
    const auto made = house.create(request);
    pause(house, made->record.id);
    REQUIRE(lease(house, made->record.sandbox_id).has_value());  // and given back at once
    REQUIRE(house.answer([&](auto reply) { house.conversations->resume(made->record.id, std::move(reply)); })
                ->record.status == Status::active);
    house.world.clock.advance(base::Millis{60'000});
    while (test::get(*house.conversations, made->record.id)->record.status == Status::active &&
           house.world.timers.fire_next())
        house.settle();
    CHECK(test::get(*house.conversations, made->record.id)->record.reason == conversation::PauseReason::idle);
}

TEST_CASE("leases: what is unknown or deleted is refused") {
    House house({10, 0});
    CHECK(lease(house, "nothing").error().code() == base::Errc::not_found);
    const auto made = house.create();
    pause(house, made->record.id);
    (void)house.answer<void>(
        [&](auto reply) { house.conversations->remove(made->record.id, std::move(reply)); });
    CHECK(lease(house, made->record.sandbox_id).error().code() == base::Errc::not_found);
}

TEST_CASE("leases: a server that stops ends them and grants no more") {
    House house({10, 0});
    const auto made = house.create();
    auto granted = lease(house, made->record.sandbox_id);
    std::optional<base::Error> told;
    (*granted)->on_end([&told](const base::Error& why) { told = why; });
    bool done = false;
    house.conversations->shut_down([&done] { done = true; });
    while (!done && (house.world.timers.run_deferred() || house.world.run_pending() ||
                     house.world.timers.fire_next())) {
    }
    REQUIRE(told.has_value());
    CHECK(told->code() == base::Errc::shutting_down);
    CHECK(told->members() == base::Error::Members{{"begun", "true"}});
    const auto late = lease(house, made->record.sandbox_id).error();
    CHECK(late.code() == base::Errc::shutting_down);
    CHECK(late.members().empty());
}

TEST_CASE(
    "leases: a user with too many files reads and deletes them in a paused conversation, and adds none") {
    House house({10, 0});
    const auto made = house.create();
    const std::string& id = made->record.id;
    const std::string& sandbox_id = made->record.sandbox_id;
    pause(house, id);
    const auto refused = [&](LeaseUse use) {
        std::optional<base::Errc> code;
        house.conversations->lease(sandbox_id, use, [&code](const Granted& granted) {
            code = granted.has_error() ? granted.error().code() : base::Errc::internal;
        });
        house.settle();
        return code == base::Errc::user_share;
    };
    const auto resume_is_refused = [&] {
        const auto resumed = house.resume(id);
        return resumed.has_error() && resumed.error().code() == base::Errc::user_share;
    };
    house.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    CHECK(refused(LeaseUse::request));
    CHECK(house.sandboxes->living() == 0);
    auto reading = lease(house, sandbox_id, LeaseUse::no_new_files);
    REQUIRE(reading.has_value());
    CHECK(house.sandboxes->living() == 1);
    // It was started for that alone.
    CHECK(refused(LeaseUse::request));
    CHECK(refused(LeaseUse::process));
    CHECK(resume_is_refused());
    CHECK(test::get(*house.conversations, id)->record.status == Status::paused);
    // The control: files were deleted.
    house.world.writing_allowed = {};
    auto writing = lease(house, sandbox_id);
    CHECK(writing.has_value());
    // A sandbox that runs by then goes on.
    house.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    CHECK(lease(house, sandbox_id).has_value());
    CHECK(house.resume(id).has_value());
}

TEST_CASE("leases: what is let in while a sandbox stops says nothing of the next one's right to write") {
    House house({10, 0});
    const auto made = house.create();
    const std::string& id = made->record.id;
    house.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    house.conversations->pause(id, conversation::PauseMode::cold, [](const auto&) {});
    const auto reading = lease(house, made->record.sandbox_id, LeaseUse::no_new_files);
    REQUIRE(reading.has_value());
    CHECK(test::get(*house.conversations, id)->generation == 2);
    const auto resumed = house.resume(id);
    REQUIRE(resumed.has_error());
    CHECK(resumed.error().code() == base::Errc::user_share);
    // The control.
    house.world.writing_allowed = {};
    CHECK(house.resume(id).has_value());
}

TEST_CASE("leases: a sandbox that was started to be read may write if there was room by then") {
    House house({10, 0});
    const auto made = house.create();
    pause(house, made->record.id);
    const auto reading = lease(house, made->record.sandbox_id, LeaseUse::no_new_files);
    REQUIRE(reading.has_value());
    house.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    CHECK(lease(house, made->record.sandbox_id).has_value());
}

}  // namespace lease_test
