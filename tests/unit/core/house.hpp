// A server's core over fakes of every port, asked one thing at a time.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/base/shares.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test {

inline sandbox::Limits memory(std::uint32_t mb) {
    sandbox::Limits limits;
    limits.memory_mb = mb;
    return limits;
}

class House {
  public:
    explicit House(sandbox::ManagerSettings with, conversation::ManagerSettings settings = {},
                   std::uint64_t log_bytes = base::k_default_log_budget_bytes)
        : budgets(base::k_default_user_share_percent, {.logs = log_bytes}),
          sandbox_settings_(std::move(with)),
          settings_(std::move(settings)) {
        if (settings_.agents.empty())
            settings_.agents = {sandbox::AgentSpec{"shell", sandbox::AgentSpec::Kind::shell, {}, {}}};
        open();
    }

    /// Another server on the same store, after the death of the one before.
    void restart() {
        world.server_killed();
        conversations.reset();
        journal_.reset();
        sandboxes.reset();
        open();
        settle();
    }

    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    base::Result<conversation::View> create(std::uint32_t memory_mb = 100) {
        conversation::CreateRequest request;
        request.limits = memory(memory_mb);
        return create(std::move(request));
    }
    base::Result<conversation::View> create(conversation::CreateRequest request) {
        return answer([&](auto reply) { conversations->create(std::move(request), std::move(reply)); });
    }
    base::Result<conversation::View> pause(const std::string& id) {
        return answer(
            [&](auto reply) { conversations->pause(id, conversation::PauseMode::cold, std::move(reply)); });
    }
    base::Result<conversation::View> resume(const std::string& id) {
        return answer([&](auto reply) { conversations->resume(id, std::move(reply)); });
    }
    base::Result<conversation::View> freeze(const std::string& id) {
        return answer(
            [&](auto reply) { conversations->pause(id, conversation::PauseMode::warm, std::move(reply)); });
    }
    base::Result<conversation::View> raise(const std::string& id, std::uint32_t memory_mb) {
        conversation::PatchRequest patch;
        patch.limits.emplace().memory_mb = memory_mb;
        return answer([&](auto reply) { conversations->patch(id, patch, std::move(reply)); });
    }
    template <class T = conversation::View, class Ask>
    base::Result<T> answer(Ask ask) {
        std::optional<base::Result<T>> answered;
        ask([&answered](base::Result<T> view) { answered = std::move(view); });
        settle();
        // Asked politely, a sandbox may take its time to end.
        while (!answered && world.timers.fire_next())
            settle();
        REQUIRE(answered.has_value());
        return *answered;
    }

    base::Budgets budgets;
    FakeWorld world{7};
    std::optional<sandbox::HostMemory> host;
    std::optional<sandbox::Manager> sandboxes;
    std::optional<conversation::Manager> conversations;

  private:
    void open() {
        sandboxes.emplace(sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world,
                                                world.node, [this] { return host; }},
                          sandbox_settings_);
        journal_.emplace(world.store, world.timers);
        conversations.emplace(world.clock, world.timers, *sandboxes, *journal_, world.store, budgets.log,
                              settings_);
        const conversation::StartState state = load_start(world.store).value();
        sandboxes->take_over(known_sandboxes(world.store, state)).value();
        conversations->restore(state).value();
    }

    sandbox::ManagerSettings sandbox_settings_;
    conversation::ManagerSettings settings_;
    std::optional<conversation::Journal> journal_;
};

}  // namespace atl::test
