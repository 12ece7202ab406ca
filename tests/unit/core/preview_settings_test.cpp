// The view of the preview of a sandbox, from its creation through changes, pauses and restarts, with fakes of
// every port.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace preview_settings_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using conversation::PreviewView;
using sandbox::PreviewAccess;
using sandbox::PreviewSettings;

namespace {

using Ports = std::vector<std::uint16_t>;

base::Result<PreviewView> look(House& house, const std::string& sandbox_id) {
    return house.answer<PreviewView>(
        [&](auto reply) { house.conversations->preview(sandbox_id, std::move(reply)); });
}

base::Result<conversation::View> patch(House& house, const std::string& id, sandbox::PreviewChanges preview) {
    conversation::PatchRequest change;
    change.preview = std::move(preview);
    return house.answer([&](auto reply) { house.conversations->patch(id, change, std::move(reply)); });
}

void pause(House& house, const std::string& id) {
    (void)house.answer(
        [&](auto reply) { house.conversations->pause(id, conversation::PauseMode::cold, std::move(reply)); });
}

conversation::CreateRequest request(PreviewSettings preview) {
    conversation::CreateRequest made;
    made.limits = memory(100);
    made.preview = std::move(preview);
    return made;
}

}  // namespace

TEST_CASE(
    "a change of a preview counts at once, also for who has something open, and over pauses and restarts") {
    House house({10, 0});
    const auto made = house.create(request({PreviewAccess::everyone, {}, {80, 8080}}));
    REQUIRE(made);
    const std::string id = made->record.id;
    const std::string sandbox_id = made->record.sandbox_id;
    CHECK(made->preview.ports == Ports{80, 8080});
    CHECK(look(house, sandbox_id)->settings == made->preview);
    CHECK(look(house, sandbox_id)->status == sandbox::Status::ready);

    std::vector<PreviewSettings> told;
    house.conversations->tell_preview_changes([&](const std::string& of, const PreviewSettings& now) {
        CHECK(of == sandbox_id);
        told.push_back(now);
    });
    const auto changed = patch(house, id, {PreviewAccess::token_bearers, {}, {}});
    REQUIRE(changed);
    CHECK(changed->preview == PreviewSettings{PreviewAccess::token_bearers, {}, {80, 8080}});
    CHECK(told == std::vector<PreviewSettings>{changed->preview});
    CHECK(patch(house, id, {}).value().preview == changed->preview);
    CHECK(told.size() == 1);
    CHECK(look(house, sandbox_id)->settings == changed->preview);

    pause(house, id);
    const PreviewSettings last{PreviewAccess::token_bearers, false, {3000}};
    CHECK(patch(house, id, {{}, false, Ports{3000}}).value().preview == last);
    CHECK(look(house, sandbox_id)->settings == last);
    CHECK(look(house, sandbox_id)->status == sandbox::Status::terminated);
    house.restart();
    CHECK(look(house, sandbox_id)->settings == last);
    CHECK(look(house, sandbox_id)->conversation_id == id);
    REQUIRE(house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); }));
    CHECK(look(house, sandbox_id)->settings == last);
    CHECK(look(house, sandbox_id)->generation == 2);
}

TEST_CASE("a sandbox that was started ahead takes the preview of who gets it") {
    conversation::ManagerSettings settings;
    settings.pool = {{"shell", 1}};
    House house({10, 0}, settings);
    house.conversations->open_pool();
    house.settle();
    while (house.conversations->pool().front().ready == 0 && house.world.timers.fire_next())
        house.settle();
    REQUIRE(house.conversations->pool().front().ready == 1);
    conversation::CreateRequest wanted = request({PreviewAccess::token_bearers, {}, {3000}});
    wanted.limits = house.conversations->default_limits();
    const auto made = house.create(std::move(wanted));
    REQUIRE(made);
    CHECK(house.conversations->pool().front().ready == 0);
    CHECK(made->preview.is_private());
    CHECK(look(house, made->record.sandbox_id)->settings == made->preview);
    pause(house, made->record.id);
    house.restart();
    CHECK(look(house, made->record.sandbox_id)->settings == made->preview);
}

TEST_CASE(
    "a sandbox that was started ahead has the network and the limits of its agent, and goes to who asks so") {
    struct AnyEgress final : sandbox::Egress {
        base::Result<void> check(const sandbox::EgressSettings&) const override { return {}; }
        base::Result<std::string> make_issuer(const std::string&) override { return std::string(); }
        void open(const std::string&, const sandbox::EgressSettings&, sandbox::InnerListener) override {}
        void open_routes(const std::string&, const sandbox::EgressSettings&,
                         const std::vector<sandbox::EgressRoute>&, sandbox::InnerListener) override {}
        void change(const std::string&, const sandbox::NetworkSettings&) override {}
        void close(const std::string&) override {}
    } egress;
    conversation::ManagerSettings settings;
    sandbox::AgentSpec agent{"shell", sandbox::AgentSpec::Kind::shell, {}, {}};
    agent.limits.memory_mb = 300;
    agent.needs_network = true;
    settings.agents = {agent};
    settings.pool = {{"shell", 1}};
    sandbox::ManagerSettings bounded{10, 0};
    bounded.max_memory_mb = GENERATE(600U, 299U);
    bounded.default_limits = memory(100);
    House house(bounded, settings);
    house.sandboxes->set_egress(&egress);
    house.conversations->open_pool();
    house.settle();
    for (int timer = 0; timer < 100 && house.conversations->pool().front().ready == 0; ++timer)
        if (house.world.timers.fire_next())
            house.settle();
    const std::size_t ready = house.conversations->pool().front().ready;
    // A start needs room for what it takes.
    REQUIRE(ready == (bounded.max_memory_mb == 600 ? 1U : 0U));
    if (ready == 0)
        return;
    conversation::CreateRequest wanted = request({});
    wanted.limits = memory(300);
    const auto none = house.create(wanted);
    REQUIRE(none);
    CHECK(house.conversations->pool().front().ready == 1);
    CHECK(house.sandboxes->find(none->record.sandbox_id)->network == sandbox::NetworkMode::none);
    wanted.network = {sandbox::NetworkMode::egress, {{}, "ann"}};
    const auto made = house.create(std::move(wanted));
    REQUIRE(made);
    CHECK(house.conversations->pool().front().ready == 0);
    const sandbox::Record& record = *house.sandboxes->find(made->record.sandbox_id);
    CHECK(record.network == sandbox::NetworkMode::egress);
    CHECK(record.egress.user_id == "ann");
    CHECK(record.limits.memory_mb == 300);
}

TEST_CASE("the preview of a sandbox that is gone is told as ended, that of one that never was is not found") {
    House house({10, 0});
    CHECK(look(house, std::string(20, 'a')).error().code() == Errc::not_found);
    conversation::SandboxRequest alone;
    alone.limits = memory(100);
    alone.preview = {PreviewAccess::token_bearers, {}, {1}};
    const auto made = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(alone, std::move(reply)); });
    REQUIRE(made);
    const std::string id = made->record.id;
    CHECK(made->record.preview == alone.preview);
    const auto view = look(house, id);
    CHECK(view->settings == alone.preview);
    CHECK(view->conversation_id.empty());
    CHECK_FALSE(view->has_ended);

    conversation::CreateRequest brief = request({});
    brief.ttl_seconds = 60;
    const auto short_lived = house.create(std::move(brief));
    REQUIRE(short_lived);
    while (
        house.answer([&](auto reply) { house.conversations->get(short_lived->record.id, std::move(reply)); })
            ->record.status != conversation::Status::ended)
        REQUIRE(house.world.timers.fire_next());
    house.settle();
    const auto ended = look(house, short_lived->record.sandbox_id);
    REQUIRE(ended.has_value());
    CHECK(ended->has_ended);
}

}  // namespace preview_settings_test
