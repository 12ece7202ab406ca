// A workspace that cannot be removed, as on a file system that became read-only: nothing forgets the sandbox.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <string>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace failed_removal_test {

using namespace atl;
using namespace std::chrono_literals;
using base::Errc;
using conversation::SandboxRequest;
using conversation::SandboxView;
using conversation::Status;
using test::House;

namespace {

base::Result<void> remove(House& house, const std::string& id) {
    return house.answer<void>([&](auto reply) { house.conversations->remove(id, std::move(reply)); });
}

base::Result<void> remove_sandbox(House& house, const std::string& id) {
    return house.answer<void>([&](auto reply) { house.conversations->remove_sandbox(id, std::move(reply)); });
}

std::string create_sandbox(House& house, std::uint32_t ttl_seconds = 0) {
    SandboxRequest request;
    request.ttl_seconds = ttl_seconds;
    const auto made = house.answer<SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(request, std::move(reply)); });
    REQUIRE(made);
    return made->record.id;
}

/// The store, the node's store, the disk and the uid still name the sandbox, and no client sees it.
void check_kept(House& house, const std::string& sandbox_id) {
    REQUIRE(house.world.store.sandboxes.contains(sandbox_id));
    CHECK_FALSE(house.world.store.sandboxes.at(sandbox_id).gone);
    CHECK(house.world.workspaces.contains(sandbox_id));
    REQUIRE(house.world.node.facts.contains(sandbox_id));
    CHECK(house.world.uids.contains(house.world.node.facts.at(sandbox_id)));
    CHECK(test::get_sandbox(*house.conversations, sandbox_id).error().code() == Errc::not_found);
    CHECK(test::list_sandboxes(*house.conversations, 10)->items.empty());
}

void check_nothing_left(House& house) {
    CHECK(house.world.workspaces.empty());
    CHECK(house.world.trash.empty());
    CHECK(house.world.node.facts.empty());
    CHECK(house.world.uids.empty());
}

/// The disk is in order again.
void repair_and_restart(House& house) {
    house.world.removals_fail = false;
    house.restart();
}

}  // namespace

TEST_CASE("failed removal: a deleted conversation is gone, and the next start removes its workspace") {
    House house({});
    const auto view = house.create().value();
    house.world.removals_fail = true;
    CHECK(remove(house, view.record.id));
    CHECK(test::get(*house.conversations, view.record.id).error().code() == Errc::not_found);
    CHECK(house.world.store.conversations.empty());
    check_kept(house, view.record.sandbox_id);
    // Another start that finds the disk as it was.
    house.restart();
    check_kept(house, view.record.sandbox_id);
    repair_and_restart(house);
    CHECK(house.world.store.sandboxes.empty());
    check_nothing_left(house);
}

TEST_CASE("failed removal: a conversation whose time is over keeps its sandbox's record until it is gone") {
    House house({});
    conversation::CreateRequest request;
    request.ttl_seconds = 60;
    const auto view = house.create(request).value();
    house.world.removals_fail = true;
    house.world.timers.advance(90s, [&] { house.settle(); });
    house.settle();
    CHECK(test::get(*house.conversations, view.record.id)->record.status == Status::ended);
    REQUIRE(house.world.store.sandboxes.contains(view.record.sandbox_id));
    CHECK_FALSE(house.world.store.sandboxes.at(view.record.sandbox_id).gone);
    CHECK(house.world.workspaces.contains(view.record.sandbox_id));
    SECTION("by the next start") {
        repair_and_restart(house);
        CHECK(test::get(*house.conversations, view.record.id)->record.status == Status::ended);
        CHECK(house.world.store.sandboxes.at(view.record.sandbox_id).gone);
    }
    SECTION("by the next start, after a delete") {
        CHECK(remove(house, view.record.id));
        CHECK(house.world.store.conversations.empty());
        check_kept(house, view.record.sandbox_id);
        repair_and_restart(house);
        CHECK(house.world.store.sandboxes.empty());
    }
    check_nothing_left(house);
}

TEST_CASE("failed removal: a sandbox without a conversation is gone, and the next start removes its files") {
    House house({});
    house.world.removals_fail = true;
    std::string id;
    SECTION("one that was deleted") {
        id = create_sandbox(house);
        CHECK(remove_sandbox(house, id));
    }
    SECTION("one whose time is over") {
        id = create_sandbox(house, 60);
        house.world.timers.advance(90s, [&] { house.settle(); });
        house.settle();
    }
    check_kept(house, id);
    CHECK(remove_sandbox(house, id).error().code() == Errc::not_found);
    repair_and_restart(house);
    CHECK(house.world.store.sandboxes.empty());
    check_nothing_left(house);
}

// A chain of a million folders: the delete does not wait for it, nor does it come back.
TEST_CASE("a removal is answered when the files are out of reach, and a crash then leaves nothing behind") {
    House house({});
    const bool has_conversation = GENERATE(true, false);
    house.world.removals_last = true;
    std::string sandbox_id;
    if (has_conversation) {
        const auto view = house.create().value();
        sandbox_id = view.record.sandbox_id;
        CHECK(remove(house, view.record.id));
        CHECK(house.world.store.conversations.empty());
    } else {
        sandbox_id = create_sandbox(house);
        CHECK(remove_sandbox(house, sandbox_id));
        CHECK(remove_sandbox(house, sandbox_id).error().code() == Errc::not_found);
    }
    CHECK_FALSE(house.world.workspaces.contains(sandbox_id));
    CHECK(house.world.trash.contains(sandbox_id));
    // The uid of files that are still there is nobody else's.
    REQUIRE(house.world.node.facts.contains(sandbox_id));
    CHECK(house.world.uids.contains(house.world.node.facts.at(sandbox_id)));
    CHECK(house.world.store.sandboxes.contains(sandbox_id));
    house.world.removals_last = false;
    house.restart();
    CHECK(house.world.store.sandboxes.empty());
    check_nothing_left(house);
}

}  // namespace failed_removal_test
