// Random histories of processes that are started again: starts, ends for good, pauses, deaths, failing
// guests, killed servers, with what is under way completing in any order. ATOLL_SIM_SEED runs one.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <set>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/plain/operation_limits.hpp"
#include "tests/unit/core/house.hpp"

namespace atl::test::kept_processes_simulation_test {
namespace {

using conversation::LeaseUse;
using conversation::PauseMode;
using sandbox::ProcessSpec;

class KeptHistory {
  public:
    explicit KeptHistory(std::uint64_t seed) : world_(house_.world) {
        world_.random.seed(seed);
        world_.start_process = [this](const ProcessSpec& spec) { return begin(spec); };
        const auto made = house_.create();
        id_ = made->record.id;
        sandbox_id_ = made->record.sandbox_id;
    }

    void run(std::size_t steps) {
        for (std::size_t at = 0; at < steps; ++at)
            step();
        guest_fails_ = 0;
        rest();
        check_next_generation();
        (void)house_.answer<void>([&](auto reply) { house_.conversations->remove(id_, std::move(reply)); });
        require(world_.store.processes.empty(), "rows are left of a deleted conversation");
    }
    std::size_t restarts() const noexcept { return restarts_; }

  private:
    /// The answer of the guest when it is asked to start a process.
    base::Result<pid_t> begin(const ProcessSpec& spec) {
        require(ids_.insert(spec.id).second, "an id was used twice");
        require(spec.program.env == sandbox::Environment{{"OF", spec.tag}},
                "it is started as something else");
        const auto generation = house_.sandboxes->find(sandbox_id_)->generation;
        require(started_.emplace(std::pair(life_, generation), spec.tag).second,
                "it was started twice in a generation");
        require(!gone_.contains(spec.tag), "one that was ended for good was started again");
        restarts_ += known_.contains(spec.tag) ? 1 : 0;
        if (world_.chance(guest_fails_))
            return base::Error(base::Errc::sandbox_failed, "injected");
        return pid_t{7};
    }

    void step() {
        const std::size_t kind = world_.pick(100);
        if (kind < 40) {
            if (!world_.timers.run_deferred())
                world_.run_pending();
        } else if (kind < 50) {
            world_.run_pending();
        } else if (kind < 53) {
            world_.timers.fire_next();
        } else if (kind < 70) {
            use(world_.chance(600) ? LeaseUse::process : LeaseUse::request);
        } else if (kind < 76) {
            forget();
        } else if (kind < 84) {
            house_.conversations->pause(id_, world_.chance(300) ? PauseMode::warm : PauseMode::cold,
                                        [](const auto&) {});
        } else if (kind < 94) {
            house_.conversations->resume(id_, [](const auto&) {});
        } else if (kind < 97) {
            if (!world_.processes.empty())
                world_.process_dies(world_.processes.begin()->second,
                                    {sandbox::ExitClass::signalled, 9, "died"});
        } else if (kind < 98) {
            crash();
        } else {
            guest_fails_ = world_.chance(500) ? 300 : 0;
        }
        require(world_.store.processes.size() <= base::k_max_kept_processes, "more are kept than may be");
    }

    /// Takes a lease, and starts a process under one that allows it.
    void use(LeaseUse use) {
        using Leased = base::Result<std::unique_ptr<conversation::Lease>>;
        house_.conversations->lease(sandbox_id_, use, [this, use, life = life_](const Leased& leased) {
            if (leased && use == LeaseUse::process && life == life_)
                start(**leased);
        });
    }

    void start(const conversation::Lease& lease) {
        ProcessSpec spec;
        spec.id = base::new_id();
        spec.tag = "process " + std::to_string(++last_tag_);
        spec.program.argv = {"serve"};
        spec.program.env = {{"OF", spec.tag}};
        under_way_.insert(spec.tag);
        house_.conversations->start_kept_process(
            lease, spec, [this, tag = spec.tag, life = life_](const base::Result<pid_t>& started) {
                require(life == life_, "a dead server answered");
                require(under_way_.erase(tag) == 1, "a start was answered twice");
                if (started)
                    known_.insert(tag);
                else
                    gone_.insert(tag);
            });
    }

    void forget() {
        const auto& rows = world_.store.processes;
        if (rows.empty())
            return;
        const ProcessSpec target =
            std::next(rows.begin(), static_cast<std::ptrdiff_t>(world_.pick(rows.size())))->second;
        // Until it is answered it may come back, after a crash.
        if (known_.erase(target.tag) == 1)
            unsure_.insert(target.tag);
        house_.conversations->forget_process(sandbox_id_, target.id,
                                             [this, tag = target.tag](const base::Result<bool>& was_kept) {
                                                 if (was_kept && *was_kept)
                                                     gone_.insert(tag);
                                             });
    }

    void crash() {
        ++life_;
        // Nobody learns if the processes whose starts were under way are kept.
        unsure_.merge(under_way_);
        under_way_.clear();
        house_.restart();
    }

    void rest() {
        house_.settle();
        while (!under_way_.empty() && world_.timers.fire_next())
            house_.settle();
        require(under_way_.empty(), "a start was never answered");
    }

    std::vector<ProcessSpec> kept() {
        return *house_.answer<std::vector<ProcessSpec>>(
            [&](auto reply) { house_.conversations->kept_processes(sandbox_id_, std::move(reply)); });
    }

    /// All that are known are started in it, and nothing that nobody knows of.
    void check_next_generation() {
        (void)house_.answer(
            [&](auto reply) { house_.conversations->pause(id_, PauseMode::cold, std::move(reply)); });
        const auto before = kept();
        started_.clear();
        // Processes of the last generation may still be dying.
        const auto resumed = [this] {
            return house_.answer([&](auto reply) { house_.conversations->resume(id_, std::move(reply)); })
                .has_value();
        };
        while (!resumed()) {
            require(world_.timers.fire_next(), "it cannot be resumed");
            house_.settle();
        }
        std::set<std::string> again;
        for (const auto& [generation, tag] : started_)
            again.insert(tag);
        require(again.size() == before.size(), "not all that are kept were started");
        for (const std::string& tag : known_)
            require(again.contains(tag), "one that is kept was not started again");
        for (const std::string& tag : again)
            require(known_.contains(tag) || unsure_.contains(tag), "one was started that nobody asked for");
        for (const ProcessSpec& spec : kept())
            require(ids_.contains(spec.id), "one is shown under an id that it never had");
    }

    House house_{{10, 0}};
    FakeWorld& world_;
    std::string id_;
    std::string sandbox_id_;
    std::set<std::string> ids_;  // of all starts
    /// By server, since a killed one may not have stored its last generation, by generation, and by tag.
    std::set<std::pair<std::pair<int, std::uint32_t>, std::string>> started_;
    std::set<std::string> under_way_;  // tags of first starts without an answer
    std::set<std::string> known_;      // answered, and not ended for good
    std::set<std::string> unsure_;     // their answer was lost
    std::set<std::string> gone_;       // refused, or ended for good
    std::size_t last_tag_ = 0;
    std::size_t restarts_ = 0;
    unsigned guest_fails_ = 0;
    int life_ = 0;  // of the server
};

}  // namespace

TEST_CASE("Whatever happens, a process that is kept is started once in each generation", "[simulation]") {
    spdlog::set_level(spdlog::level::off);
    const char* const only = std::getenv("ATOLL_SIM_SEED");
    const std::size_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
    const std::size_t last = only != nullptr ? first : 3000;
    std::size_t restarts = 0;
    for (std::size_t seed = first; seed <= last; ++seed) {
        INFO("ATOLL_SIM_SEED=" << seed);
        try {
            KeptHistory history(seed);
            history.run(60 + seed % 200);
            restarts += history.restarts();
        } catch (const std::exception& violation) {
            FAIL(violation.what());
        }
    }
    CHECK((only != nullptr || restarts > last));
    spdlog::set_level(spdlog::level::info);
}

}  // namespace atl::test::kept_processes_simulation_test
