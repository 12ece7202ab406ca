// The reactions to too many sockets and to a host that is short of memory, over fakes of every port.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>

#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"

namespace core_host_memory_test {

using namespace atl;
using namespace atl::test;
using conversation::PauseReason;

namespace {

constexpr std::uint64_t k_mb = 1024UL * 1024;
constexpr std::uint64_t k_gb = 1024 * k_mb;

/// The memory and sockets of each sandbox, by its id.
struct Held {
    std::map<std::string, std::uint32_t> sockets;
    std::map<std::string, std::uint64_t> bytes;
};

/// Wraps another process and adds a count of sockets.
class CountedProcess final : public sandbox::Process {
  public:
    CountedProcess(std::unique_ptr<sandbox::Process> inner, std::string id, const Held& held)
        : inner_(std::move(inner)), id_(std::move(id)), held_(held) {}
    const std::string& bridge_path() const override { return inner_->bridge_path(); }
    pid_t pid() const override { return inner_->pid(); }
    void terminate() override { inner_->terminate(); }
    void kill() override { inner_->kill(); }
    std::string log_tail() const override { return inner_->log_tail(); }
    void on_log(std::function<void(std::string_view)> on_text) override {
        inner_->on_log(std::move(on_text));
    }
    std::optional<std::uint32_t> sockets() const override {
        const auto found = held_.sockets.find(id_);
        return found == held_.sockets.end() ? 0 : found->second;
    }
    const sandbox::Process& inner() const { return *inner_; }

  private:
    std::unique_ptr<sandbox::Process> inner_;
    std::string id_;
    const Held& held_;
};

/// Wraps another group and adds its memory.
class SizedGroup final : public sandbox::ResourceGroup {
  public:
    SizedGroup(std::unique_ptr<sandbox::ResourceGroup> inner, std::string id, const Held& held)
        : inner_(std::move(inner)), id_(std::move(id)), held_(held) {}
    void kill() override { inner_->kill(); }
    void freeze(std::function<void(base::Result<void>)> done) override { inner_->freeze(std::move(done)); }
    base::Result<void> thaw() override { return inner_->thaw(); }
    void remove(std::function<void(base::Result<void>)> done) override { inner_->remove(std::move(done)); }
    base::Result<void> set_limits(const sandbox::Limits& limits) override {
        return inner_->set_limits(limits);
    }
    void watch_oom(std::function<void()> on_oom) override { inner_->watch_oom(std::move(on_oom)); }
    void watch_memory(sandbox::MemoryWarning) override {}
    std::uint64_t oom_kills() const override { return inner_->oom_kills(); }
    sandbox::Usage usage() const override { return inner_->usage(); }
    std::optional<std::uint64_t> held_bytes() const override {
        const auto found = held_.bytes.find(id_);
        return found == held_.bytes.end() ? std::nullopt : std::optional(found->second);
    }

  private:
    std::unique_ptr<sandbox::ResourceGroup> inner_;
    std::string id_;
    const Held& held_;
};

struct CountingWorld final : FakeWorld {
    using FakeWorld::describe;
    using FakeWorld::FakeWorld;
    void describe(sandbox::Enforcement& enforcement, sandbox::NetworkMode network) const override {
        if (network == sandbox::NetworkMode::none)
            enforcement.sockets = "count";
    }
    std::optional<std::uint64_t> cpu_usec() const override { return used_usec; }
    base::Result<std::unique_ptr<sandbox::Process>> launch(
        const sandbox::LaunchSpec& spec, sandbox::ResourceGroup* group,
        std::function<void(sandbox::Exit)> on_exit) override {
        auto made = FakeWorld::launch(spec, group, std::move(on_exit));
        if (!made)
            return made;
        return std::unique_ptr<sandbox::Process>(
            std::make_unique<CountedProcess>(std::move(*made), spec.sandbox_id, held));
    }
    base::Result<std::unique_ptr<sandbox::ResourceGroup>> create(const std::string& name,
                                                                 const sandbox::Limits& limits) override {
        auto made = FakeWorld::create(name, limits);
        if (!made)
            return made;
        return std::unique_ptr<sandbox::ResourceGroup>(
            std::make_unique<SizedGroup>(std::move(*made), name.substr(0, name.find('-')), held));
    }
    std::unique_ptr<sandbox::Channel> open(const std::string& id, const sandbox::Process& process) override {
        return FakeWorld::open(id, dynamic_cast<const CountedProcess&>(process).inner());
    }

    Held held;
    std::uint64_t used_usec = 0;
};

class House {
  public:
    explicit House(double memory_reserve = 0.05,
                   unsigned user_share_percent = base::k_default_user_share_percent) {
        sandbox::ManagerSettings with;
        with.memory_reserve = memory_reserve;
        with.user_share_percent = user_share_percent;
        sandboxes.emplace(sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world,
                                                world.node, [this] { return host; }},
                          with);
        journal_.emplace(world.store, world.timers);
        conversation::ManagerSettings settings;
        settings.agents = {sandbox::AgentSpec{"shell", sandbox::AgentSpec::Kind::shell, {}, {}}};
        conversations.emplace(world.clock, world.timers, *sandboxes, *journal_, world.store, budgets.log,
                              settings);
        conversations->restore(test::load_start(world.store).value()).value();
        sandboxes->watch_host_memory();
    }

    void settle() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
    }
    void pass(base::Millis time) {
        bool over = false;
        world.timers.arm(time, [&over] { over = true; });
        settle();
        while (!over && world.timers.fire_next())
            settle();
    }
    /// The ids of a new conversation and of its sandbox.
    std::pair<std::string, std::string> create(conversation::CreateRequest request = {}) {
        std::optional<base::Result<conversation::View>> made;
        conversations->create(std::move(request), [&](auto view) { made = std::move(view); });
        settle();
        REQUIRE(made);
        REQUIRE(made->has_value());
        return {(*made)->record.id, (*made)->record.sandbox_id};
    }
    conversation::View get(const std::string& id) { return test::get(*conversations, id).value(); }

    base::Budgets budgets;
    CountingWorld world{7};
    std::optional<sandbox::HostMemory> host = sandbox::HostMemory{20 * k_gb, 10 * k_gb};
    std::optional<sandbox::Manager> sandboxes;
    std::optional<conversation::Manager> conversations;

  private:
    std::optional<conversation::Journal> journal_;
};

}  // namespace

TEST_CASE("host memory: a sandbox above its limit of sockets is ended as out of memory, and another is not") {
    House house;
    conversation::CreateRequest asks;
    asks.limits.max_sockets = 50;
    const auto [id, box] = house.create(asks);
    const auto [other, other_box] = house.create();
    house.world.held.sockets = {{box, 51}, {other_box, 51}};
    house.pass(base::Millis{1000});
    CHECK(house.get(id).record.status == conversation::Status::active);  // no sandbox used the processor
    house.world.used_usec = 1'000'000;
    house.pass(base::Millis{1000});
    CHECK(house.get(id).record.status == conversation::Status::paused);
    CHECK(house.get(id).record.reason == PauseReason::oom);
    CHECK(house.get(other).record.status == conversation::Status::active);
    CHECK(house.sandboxes->stats().socket_kills == 1);
    CHECK(house.sandboxes->stats().exits[sandbox::ExitClass::oom] == 1);
    const auto log = test::sandbox_log(*house.conversations, box);
    REQUIRE(log.has_value());
    CHECK(log->entries.back().text.find("51 sockets open, more than the limit of 50") != std::string::npos);
    const auto usage = test::sandbox_usage(*house.conversations, other_box);
    REQUIRE(usage.has_value());
    CHECK(usage->usage.sockets == 51U);
}

TEST_CASE("host memory: a raised limit of sockets holds at once, and the host's network is not counted") {
    House house;
    conversation::CreateRequest asks;
    asks.limits.max_sockets = 50;
    const auto [id, box] = house.create(asks);
    house.world.held.sockets[box] = 51;
    conversation::PatchRequest more;
    more.limits.emplace().max_sockets = 60;
    house.conversations->patch(id, more, [](const auto& view) { CHECK(view.has_value()); });
    house.world.used_usec = 1'000'000;
    house.pass(base::Millis{1000});
    CHECK(house.get(id).record.status == conversation::Status::active);
    CHECK(house.sandboxes->enforcement(sandbox::NetworkMode::none).sockets == "count");
    CHECK(house.sandboxes->enforcement(sandbox::NetworkMode::host).sockets == "none");
}

TEST_CASE(
    "host memory: below the reserve an idle sandbox is ended though nothing starts, one after another") {
    House house;
    const auto [first, first_box] = house.create();
    house.world.clock.advance(base::Millis{1000});
    const auto [second, second_box] = house.create();
    house.pass(base::k_default_evict_idle + base::Millis{2000});
    CHECK(house.sandboxes->living() == 2);
    // The end of a single sandbox is enough.
    house.host->available_bytes = 900 * k_mb;
    while (house.sandboxes->living() == 2) {
        REQUIRE(house.world.timers.fire_next());
        house.settle();
    }
    CHECK(house.get(first).record.reason == PauseReason::evicted);
    house.host->available_bytes = 10 * k_gb;
    house.pass(base::Millis{5000});
    CHECK(house.get(second).record.status == conversation::Status::active);
    CHECK(house.sandboxes->living() == 1);
    house.host->available_bytes = 900 * k_mb;
    house.pass(base::Millis{5000});
    CHECK(house.get(second).record.reason == PauseReason::evicted);
    CHECK(house.sandboxes->stats().host_kills == 0);
}

TEST_CASE("host memory: below the reserve the user who holds most pays, and others stay and start") {
    const unsigned percent = GENERATE(50U, 100U);
    House house(0.05, percent);
    conversation::CreateRequest quiet;
    quiet.user_id = "quiet";
    conversation::CreateRequest greedy;
    greedy.user_id = "greedy";
    const auto [bystander, bystander_box] = house.create(quiet);
    house.world.held.bytes[bystander_box] = 100 * k_mb;
    house.world.clock.advance(base::Millis{1000});
    const auto [idle, idle_box] = house.create(greedy);
    house.world.held.bytes[idle_box] = 500 * k_mb;
    conversation::SandboxRequest never_idle;
    never_idle.user_id = "greedy";
    std::string busy;
    house.conversations->create_sandbox(never_idle, [&](const auto& view) { busy = view.value().record.id; });
    house.settle();
    house.world.held.bytes[busy] = 2 * k_gb;
    house.pass(base::k_default_evict_idle + base::Millis{2000});
    house.host->available_bytes = 700 * k_mb;
    house.pass(base::Millis{10'000});
    CHECK(house.get(idle).record.reason == PauseReason::evicted);
    CHECK(house.sandboxes->status(busy) == sandbox::Status::ready);
    CHECK(house.sandboxes->stats().host_kills == 0);
    if (percent == 100) {  // the control: nobody has a share
        CHECK(house.get(bystander).record.reason == PauseReason::evicted);
        (void)house.create(greedy);
        return;
    }
    CHECK(house.get(bystander).record.status == conversation::Status::active);
    base::Error refused;
    house.conversations->create(greedy, [&](const auto& view) { refused = view.error(); });
    house.settle();
    CHECK(refused.code() == base::Errc::user_share);
    CHECK(refused.members() == base::Error::Members{{"budget", "\"host_memory\""}});
    (void)house.create(quiet);
    // Nor does it help to give some back for a moment.
    house.host->available_bytes = 2 * k_gb;
    house.pass(base::Millis{300});
    house.host->available_bytes = 700 * k_mb;
    house.pass(base::Millis{5000});
    CHECK(house.get(bystander).record.status == conversation::Status::active);
    house.host->available_bytes = 100 * k_mb;
    house.pass(base::Millis{300});
    CHECK(house.sandboxes->stats().host_kills == 1);
    CHECK(house.sandboxes->status(busy) != sandbox::Status::ready);
    CHECK(house.get(bystander).record.status == conversation::Status::active);
    house.host->available_bytes = 10 * k_gb;
    house.pass(base::Millis{2000});
    (void)house.create(greedy);
}

TEST_CASE("host memory: at a hard shortage the sandbox that holds most is ended, then the next if need be") {
    House house;
    std::vector<std::pair<std::string, std::string>> made;
    for (std::uint64_t i = 0; i < 3 * base::k_sizes_per_handler; ++i) {
        made.push_back(house.create());
        house.world.held.bytes[made.back().second] = 65 * k_mb;
    }
    house.world.held.bytes[made[40].second] = 500 * k_mb;
    house.world.held.sockets[made[70].second] = 2048;  // 512 MB that are charged to no group
    house.pass(base::Millis{1000});
    CHECK(house.sandboxes->stats().host_kills == 0);
    house.host->available_bytes = 100 * k_mb;
    house.pass(base::Millis{300});
    CHECK(house.sandboxes->stats().host_kills == 1);
    CHECK(house.get(made[70].first).record.reason == PauseReason::oom);
    CHECK(house.get(made[40].first).record.status == conversation::Status::active);
    // Its memory has the time to come back.
    house.pass(base::Millis{600});
    CHECK(house.sandboxes->stats().host_kills == 1);
    house.pass(base::Millis{600});
    CHECK(house.sandboxes->stats().host_kills == 2);
    CHECK(house.get(made[40].first).record.reason == PauseReason::oom);
    const auto log = test::sandbox_log(*house.conversations, made[40].second);
    CHECK(log->entries.back().text.find("the host ran short of memory (100 MB of 20480 MB available)") !=
          std::string::npos);
    house.host->available_bytes = 10 * k_gb;
    house.pass(base::Millis{5000});
    CHECK(house.sandboxes->stats().host_kills == 2);
}

TEST_CASE("host memory: many small sandboxes of one user are ended before another's large one") {
    House house;
    const auto large = house.create();
    house.world.held.bytes[large.second] = 1000 * k_mb;
    conversation::CreateRequest asks;
    asks.user_id = "many";
    const std::size_t many = 40;
    for (std::size_t i = 0; i < many; ++i)
        house.world.held.bytes[house.create(asks).second] = 30 * k_mb;
    house.host->available_bytes = 100 * k_mb;
    house.pass(base::Millis{300});
    CHECK(house.sandboxes->stats().host_kills == 3);  // as many as free 64 MB
    CHECK(house.sandboxes->living() == many + 1 - 3);
    CHECK(house.get(large.first).record.status == conversation::Status::active);
    // The control: the user holds less than the other now.
    for (auto& [id, bytes] : house.world.held.bytes)
        bytes = id == large.second ? bytes : k_mb;
    house.pass(base::Millis{1200});
    CHECK(house.get(large.first).record.reason == PauseReason::oom);
}

TEST_CASE("host memory: a host that others made short ends no small sandbox, and no reserve ends none") {
    House house;
    const auto [id, box] = house.create();
    house.world.held.bytes[box] = base::k_least_worth_ending_bytes - 1;
    house.host->available_bytes = 1;
    house.pass(base::Millis{5000});
    CHECK(house.get(id).record.status == conversation::Status::active);
    House without(0);
    const auto [other, other_box] = without.create();
    without.world.held.bytes[other_box] = 10 * k_gb;
    without.host->available_bytes = 1;
    without.pass(base::Millis{60'000});
    CHECK(without.get(other).record.status == conversation::Status::active);
}

}  // namespace core_host_memory_test
