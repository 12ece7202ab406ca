// Removing all that is kept of a user.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <vector>

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

/// Lets a process of the sandbox write a line, which the log of the sandbox gets.
void write(House& house, const std::string& sandbox_id, const std::string& text) {
    for (const auto& [pid, process] : house.world.processes) {
        if (process->sandbox_id == sandbox_id && process->on_log)
            return process->on_log(text + "\n");
    }
    FAIL("no process of this sandbox");
}

bool has_log(const House& house, const std::string& sandbox_id) {
    return house.sandboxes->logs().read(sandbox_id, 0).has_value();
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

TEST_CASE("An erasure waits while lists of that user leave it no room") {
    House house(roomy());
    create(house, "eve");
    house.world.store.lists_without_room = 3;
    const auto erased = erase(house, "eve");
    REQUIRE(erased);
    CHECK(erased->conversations == 1);
    CHECK(house.world.store.lists_without_room == 0);
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

TEST_CASE("An erasure drops the logs of what was deleted one by one before, and nobody else's") {
    House house(roomy());
    std::vector<std::string> sandboxes;
    for (const char* user : {"eve", "adam"}) {
        const std::string deleted = create(house, user);
        const std::string box = test::get(*house.conversations, deleted)->record.sandbox_id;
        const std::string loose = create_sandbox(house, user);
        for (const std::string& id : {box, loose}) {
            write(house, id, "a secret");
            sandboxes.push_back(id);
        }
        REQUIRE(
            house.answer<void>([&](auto reply) { house.conversations->remove(deleted, std::move(reply)); }));
        REQUIRE(house.answer<void>(
            [&](auto reply) { house.conversations->remove_sandbox(loose, std::move(reply)); }));
    }
    for (const std::string& id : sandboxes)
        REQUIRE(has_log(house, id));
    REQUIRE(erase(house, "eve"));
    CHECK_FALSE(has_log(house, sandboxes.at(0)));
    CHECK_FALSE(has_log(house, sandboxes.at(1)));
    CHECK(test::sandbox_log(*house.conversations, sandboxes.at(0)).error().code() == base::Errc::not_found);
    CHECK(has_log(house, sandboxes.at(2)));
    CHECK(has_log(house, sandboxes.at(3)));
}

TEST_CASE("An erasure drops the log of a conversation that was still starting") {
    House house(roomy());
    conversation::CreateRequest request;
    request.user_id = "eve";
    house.conversations->create(request, [](const auto&) {});
    while (house.world.processes.empty()) {
        const bool goes_on = house.world.timers.run_deferred() || house.world.run_pending();
        REQUIRE(goes_on);
    }
    const std::string id = house.world.processes.begin()->second->sandbox_id;
    write(house, id, "a secret");
    REQUIRE(has_log(house, id));
    REQUIRE(erase(house, "eve"));
    CHECK_FALSE(has_log(house, id));
    CHECK(house.conversations->loaded() == 0);
}

TEST_CASE("A sandbox that starts is gone when an erasure answers, and its create is told") {
    House house(roomy());
    conversation::SandboxRequest request;
    request.user_id = "eve";
    std::optional<base::Result<conversation::SandboxView>> made;
    std::optional<base::Result<conversation::SandboxView>> other;
    house.conversations->create_sandbox(request, [&](auto view) { made = std::move(view); });
    request.user_id = "adam";
    house.conversations->create_sandbox(request, [&](auto view) { other = std::move(view); });
    std::string id;
    SECTION("before it has a process") {}
    SECTION("while it has one that is not ready") {
        const auto is_there = [&] {
            for (const auto& [pid, process] : house.world.processes) {
                if (house.sandboxes->find(process->sandbox_id)->user_id == "eve")
                    id = process->sandbox_id;
            }
            return !id.empty();
        };
        while (!is_there()) {
            const bool goes_on = house.world.timers.run_deferred() || house.world.run_pending();
            REQUIRE(goes_on);
        }
        write(house, id, "a secret");
        REQUIRE(has_log(house, id));
    }
    REQUIRE_FALSE(made);
    REQUIRE(erase(house, "eve"));
    house.settle();
    REQUIRE(made);
    REQUIRE_FALSE(*made);
    CHECK(made->error().code() == base::Errc::sandbox_gone);
    REQUIRE(other);
    CHECK(*other);
    CHECK_FALSE(has_log(house, id));
    CHECK(house.conversations->count() == 1);
    CHECK(house.world.store.sandboxes.size() == 1);
    CHECK(house.world.workspaces.size() == 1);
    // The user may begin anew.
    create_sandbox(house, "eve");
}

TEST_CASE("A sandbox that is up and waits for its commit is erased, too") {
    House house(roomy());
    int refusals = 3;
    house.world.store.fails = [&] { return refusals-- > 0; };
    conversation::SandboxRequest request;
    request.user_id = "eve";
    std::optional<base::Result<conversation::SandboxView>> made;
    house.conversations->create_sandbox(request, [&](auto view) { made = std::move(view); });
    while (refusals == 3) {
        const bool goes_on = house.world.timers.run_deferred() || house.world.run_pending();
        REQUIRE(goes_on);
    }
    REQUIRE_FALSE(made);
    REQUIRE(house.world.store.sandboxes.empty());
    REQUIRE(erase(house, "eve"));
    house.settle();
    // Answered either way: it may be told before it is removed.
    REQUIRE(made);
    CHECK(house.conversations->count() == 0);
    house.restart();
    CHECK(house.world.store.sandboxes.empty());
    CHECK(house.world.workspaces.empty());
}

}  // namespace user_erasure_test
