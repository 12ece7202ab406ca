// A sandbox with a way out: when its proxy is opened, what it is told, and when it is closed.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/sandbox/manager.hpp"
#include "tests/support/fake_world.hpp"

namespace egress_start_test {

using namespace atl;
using namespace atl::test;

namespace {

struct FakeEgress final : sandbox::Egress {
    base::Result<void> check(const sandbox::EgressSettings& settings) const override {
        if (settings.allow.empty())
            return base::Error(base::Errc::network_not_allowed, "not this");
        return {};
    }
    base::Result<void> check_start(const sandbox::EgressSettings& settings) const override {
        if (!may_list && !settings.allow.empty())
            return base::Error(base::Errc::network_not_allowed, "no longer");
        return {};
    }
    base::Result<std::string> make_issuer(const std::string& id) override {
        told.push_back("issuer " + id);
        return "PEM of " + id;
    }
    void open(const std::string& id, const sandbox::EgressSettings& settings,
              sandbox::InnerListener) override {
        told.push_back("open " + id + ' ' + (settings.allow.empty() ? "" : settings.allow[0]));
    }
    void open_routes(const std::string& id, const sandbox::EgressSettings& settings,
                     const std::vector<sandbox::EgressRoute>& defaults, sandbox::InnerListener) override {
        told.push_back("routes " + id + ' ' + std::to_string(settings.routes.size() + defaults.size()));
    }
    void change(const std::string& id, const sandbox::NetworkSettings& network) override {
        told.push_back("change " + id + ' ' + std::string(to_string(network.mode)) + ' ' +
                       std::to_string(network.egress.allow.size()));
    }
    void close(const std::string& id) override { told.push_back("close " + id); }
    std::vector<std::string> told;
    bool may_list = true;
};

struct House {
    House() { sandboxes.set_egress(&egress); }
    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    std::string make(sandbox::NetworkMode mode) {
        sandbox::Record wanted;
        wanted.network = mode;
        wanted.egress.allow = {"a.example"};
        return sandboxes.create(std::move(wanted))->id;
    }
    /// Nothing: it is not answered.
    std::optional<base::Result<void>> start(const std::string& id) {
        std::optional<base::Result<void>> started;
        sandboxes.start(id, {}, [&](const base::Result<void>& result) { started = result; });
        settle();
        for (int timer = 0; timer < 100 && !started; ++timer) {
            (void)world.timers.fire_next();
            settle();
        }
        return started;
    }
    void stop(const std::string& id) {
        sandboxes.stop(id, sandbox::ExitClass::exited, "", [] {});
        while (sandboxes.status(id) != sandbox::Status::terminated) {
            settle();
            (void)world.timers.fire_next();
        }
    }
    FakeWorld world{11};
    sandbox::Manager sandboxes{
        sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world, world.node}, {}};
    FakeEgress egress;
};

}  // namespace

TEST_CASE("The proxy of a sandbox is there before its guest, and ends with the generation") {
    House house;
    const std::string id = house.make(sandbox::NetworkMode::egress);
    house.sandboxes.start(id, {}, [](const auto&) {});
    // Nobody talks to the guest before the listener is there.
    for (const auto& [pid, process] : house.world.processes)
        CHECK_FALSE(process->on_ready);
    // The sandbox starts with the issuer that its programs are to trust.
    CHECK(house.egress.told == std::vector<std::string>{"issuer " + id});
    house.settle();
    CHECK(house.sandboxes.status(id) == sandbox::Status::ready);
    CHECK(house.egress.told ==
          std::vector<std::string>{"issuer " + id, "open " + id + " a.example", "routes " + id + " 0"});
    house.sandboxes.set_network(id, {sandbox::NetworkMode::egress, {{"b.example", "c.example"}, ""}});
    CHECK(house.egress.told.back() == "change " + id + " egress 2");
    house.stop(id);
    CHECK(house.egress.told.back() == "close " + id);
}

TEST_CASE("A mode that changes while the sandbox starts ends the operator's routes, too") {
    House house;
    const std::string id = house.make(sandbox::NetworkMode::egress);
    house.sandboxes.start(id, {}, [](const auto&) {});
    house.sandboxes.set_network(id, {sandbox::NetworkMode::none, {}});
    house.settle();
    CHECK(house.egress.told.back() == "change " + id + " none 0");
}

TEST_CASE("A mode counts from the next start on, a list at once") {
    House house;
    const std::string id = house.make(sandbox::NetworkMode::egress);
    REQUIRE(house.start(id).value().has_value());
    house.sandboxes.set_network(id, {sandbox::NetworkMode::none, {}});
    CHECK(house.egress.told.back() == "change " + id + " none 0");
    CHECK(house.sandboxes.network(*house.sandboxes.find(id)) == sandbox::NetworkMode::egress);
    house.stop(id);
    CHECK(house.sandboxes.network(*house.sandboxes.find(id)) == sandbox::NetworkMode::none);
    const std::size_t told = house.egress.told.size();
    REQUIRE(house.start(id).value().has_value());
    house.stop(id);
    CHECK(house.egress.told.size() == told);
}

TEST_CASE("A sandbox whose proxy cannot listen does not start, and others do") {
    House house;
    const std::string id = house.make(sandbox::NetworkMode::egress);
    const std::string other = house.make(sandbox::NetworkMode::none);
    house.world.can_listen = false;
    const auto refused = house.start(id);
    REQUIRE(refused.has_value());
    REQUIRE(refused->has_error());
    CHECK(refused->error().code() == base::Errc::host_unsupported);
    CHECK(house.start(other).value().has_value());
    house.stop(other);
    CHECK(house.sandboxes.check_network(sandbox::NetworkMode::egress, {{"a.example"}, ""}).error().code() ==
          base::Errc::host_unsupported);
}

TEST_CASE("A list that an earlier run of the server allowed starts nothing where requests may list none") {
    House house;
    const std::string id = house.make(sandbox::NetworkMode::egress);
    house.egress.may_list = false;
    const auto refused = house.start(id);
    REQUIRE(refused.has_value());
    REQUIRE(refused->has_error());
    CHECK(refused->error().code() == base::Errc::network_not_allowed);
    house.egress.may_list = true;
    CHECK(house.start(id).value().has_value());
}

TEST_CASE("Without a flag of the operator's there is no way out, and the refusal names one") {
    House house;
    using enum sandbox::NetworkMode;
    CHECK(house.sandboxes.check_network(egress, {{"a.example"}, ""}).has_value());
    CHECK(house.sandboxes.check_network(egress, {}).has_error());
    CHECK(house.sandboxes.check_network(none, {}).has_value());
    house.sandboxes.set_egress(nullptr);
    const auto refused = house.sandboxes.check_network(egress, {{"a.example"}, ""});
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::network_not_allowed);
    CHECK(refused.error().detail().find("--egress-allow") != std::string::npos);
    const auto started = house.start(house.make(egress));
    REQUIRE(started.has_value());
    CHECK(started->has_error());
}

}  // namespace egress_start_test
