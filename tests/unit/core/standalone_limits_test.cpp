// Changes of the limits of a sandbox without a conversation, over fakes of every port.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace standalone_limits_test {

using namespace atl;
using namespace atl::test;
using conversation::SandboxView;

namespace {

base::Result<SandboxView> change(House& house, const std::string& id, const sandbox::LimitChanges& limits) {
    conversation::SandboxPatch patch;
    patch.limits = limits;
    return house.answer<SandboxView>(
        [&](auto reply) { house.conversations->patch_sandbox(id, patch, std::move(reply)); });
}

}  // namespace

TEST_CASE(
    "What only a start sets of a sandbox that starts once is refused, and the rest of the change with it") {
    House house({});
    const auto made = house.answer<SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    REQUIRE(made);
    const std::string id = made->record.id;
    const sandbox::Limits before = made->record.limits;
    const auto refused = [&](std::optional<std::uint32_t> sandbox::LimitChanges::*limit,
                             std::uint32_t value) {
        sandbox::LimitChanges limits;
        limits.*limit = value;
        limits.max_processes = 10;
        const auto answer = change(house, id, limits);
        REQUIRE(answer.has_error());
        CHECK(answer.error().code() == base::Errc::invalid_field);
        return answer.error().pointer();
    };
    CHECK(refused(&sandbox::LimitChanges::tmp_mb, before.tmp_mb + 1) == "/limits/tmpMb");
    CHECK(refused(&sandbox::LimitChanges::max_open_files, before.max_open_files - 1) ==
          "/limits/maxOpenFiles");
    CHECK(house.world.store.sandboxes.at(id).limits == before);
    // A request may name such limits with the values that they have already.
    sandbox::LimitChanges same;
    same.tmp_mb = before.tmp_mb;
    same.max_open_files = before.max_open_files;
    same.max_processes = 10;
    const auto changed = change(house, id, same);
    REQUIRE(changed);
    CHECK(changed->record.limits.max_processes == 10);
}

TEST_CASE("A changed number of processes is refused where only a start sets it") {
    House house({});
    const auto made = house.answer<SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    REQUIRE(made);
    const std::string id = made->record.id;
    sandbox::LimitChanges limits;
    limits.max_processes = made->record.limits.max_processes + 1;
    house.world.process_limit = "rlimit";
    const auto refused = change(house, id, limits);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::invalid_field);
    CHECK(refused.error().pointer() == "/limits/maxProcesses");
    CHECK(house.world.store.sandboxes.at(id).limits == made->record.limits);
    limits.max_processes = made->record.limits.max_processes;
    CHECK(change(house, id, limits));
    house.world.process_limit = "cgroup2";
    limits.max_processes = made->record.limits.max_processes + 1;
    CHECK(change(house, id, limits));
}

TEST_CASE(
    "Limits that the kernel refuses are refused as a whole, and a conversation has them at its next start") {
    House house({});
    house.world.most_cpu_percent = 100;
    sandbox::LimitChanges limits;
    limits.memory_mb = 3000;
    limits.cpu_percent = 400;
    limits.max_sockets = 100;
    SECTION("of a sandbox without a conversation") {
        const auto made = house.answer<SandboxView>(
            [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
        REQUIRE(made);
        const std::string id = made->record.id;
        const auto committed_mb = house.sandboxes->committed_memory_mb();
        const auto refused = change(house, id, limits);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == base::Errc::host_unsupported);
        CHECK(refused.error().detail().find("Invalid argument") != std::string::npos);
        CHECK(house.world.store.sandboxes.at(id).limits == made->record.limits);
        CHECK(house.sandboxes->find(id)->limits == made->record.limits);
        CHECK(house.world.group_limits.at(id + "-1") == made->record.limits);
        CHECK(house.sandboxes->committed_memory_mb() == committed_mb);
        limits.cpu_percent = 50;
        const auto changed = change(house, id, limits);
        REQUIRE(changed);
        CHECK(changed->record.limits.memory_mb == 3000);
        CHECK(house.world.group_limits.at(id + "-1") == changed->record.limits);
        CHECK(house.sandboxes->committed_memory_mb() == 3000);
    }
    SECTION("of a conversation") {
        const auto made = house.create();
        REQUIRE(made);
        const std::string id = made->record.sandbox_id;
        conversation::PatchRequest patch;
        patch.limits = limits;
        const auto changed = house.answer(
            [&](auto reply) { house.conversations->patch(made->record.id, patch, std::move(reply)); });
        REQUIRE(changed);
        CHECK(house.world.store.sandboxes.at(id).limits.cpu_percent == 400);
        CHECK(house.world.group_limits.at(id + "-1").memory_mb == 100);
        CHECK(house.world.group_limits.at(id + "-1").cpu_percent == 100);
        CHECK(house.sandboxes->committed_memory_mb() == 100);
    }
}

}  // namespace standalone_limits_test
