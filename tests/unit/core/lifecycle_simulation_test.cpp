// Scripted histories of the whole core over fake ports: requests, completions in any order, deaths, failures,
// killed servers. Invariants hold at each step. ATOLL_SIM_HISTORIES sets how many; ATOLL_SIM_SEED runs one.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/core/followers.hpp"
#include "tests/unit/core/log_check.hpp"

namespace atl::test::lifecycle_simulation_test {
namespace {
using conversation::EventType;

/// A freeze that does not succeed, and each step of the death after it.
constexpr base::Millis k_longest_pause =
    base::k_freeze_deadline + base::k_shutdown_grace + base::k_terminate_grace + base::k_kill_deadline;

/// A client's knowledge of a conversation that it made.
struct Known {
    std::string id;
    std::string sandbox_id;
};

/// A held lease, as its holder knows it.
struct Held {
    conversation::LeaseUse use;
    std::unique_ptr<conversation::Lease> lease;
    std::shared_ptr<bool> ended = std::make_shared<bool>(false);  // told by on_end()
};

class History {
  public:
    explicit History(std::uint64_t seed) : world_(seed) {
        world_.failure_per_mille = world_.chance(500) ? 60 : 0;
        world_.has_freezer = !world_.chance(100);
        flaky_store_ = world_.chance(200);
        flaky_node_ = world_.chance(200);
        far_store_ = world_.chance(300);
        if (world_.chance(400))
            agent_kind_ = sandbox::AgentSpec::Kind::command;
        pooled_ = world_.chance(300) ? 1 + world_.pick(3) : 0;
        // While its store refuses, a server removes workspaces before it can commit that.
        world_.workspaces_may_be_missing = flaky_store_;
        world_.store.fails = [this] { return flaky_store_ && world_.chance(100); };
        world_.store.reads_first = [this] { return world_.chance(500); };
        world_.node.fails = [this] { return flaky_node_ && world_.chance(100); };
        start_server();
    }

    void run(std::size_t steps) {
        for (std::size_t at = 0; at < steps; ++at) {
            step();
            check();
        }
        world_.failure_per_mille = 0;
        flaky_store_ = false;
        followers_.stay();
        flaky_node_ = false;
        settle();
        for (std::size_t round = 0; round < 1000; ++round) {
            follow();
            world_.run_pending();
        }
        check_rest();
        check_unloaded();
        delete_everything();
    }

    std::size_t leases_granted() const noexcept { return leases_granted_; }
    std::size_t turns_told() const noexcept { return told_.turns(); }
    std::size_t unloaded() const noexcept { return unloaded_; }
    std::size_t late_reads() const noexcept { return followers_.late_reads(); }

  private:
    void start_server() {
        sandboxes_.emplace(sandbox::ManagerPorts{world_.clock, world_.timers, world_, world_, world_, world_,
                                                 world_, world_.node},
                           sandbox::ManagerSettings{3, {}});
        journal_.emplace(world_.store, world_.timers);
        conversation::ManagerSettings settings;
        settings.agents = {sandbox::AgentSpec{"shell", agent_kind_, {}, {}, {}}};
        settings.turn_limit = base::Millis{60'000};
        settings.evict_idle = base::Millis{world_.chance(500) ? 0 : 30'000};
        settings.log_bounds = {2000, 6000};
        settings.pool = {{"shell", pooled_}};
        const bool store_was_flaky = std::exchange(flaky_store_, false);
        world_.store.hear_of_new_server();
        manager_.emplace(world_.clock, world_.timers, *sandboxes_, *journal_, world_.store, budgets_.log,
                         settings);
        const bool node_was_flaky = std::exchange(flaky_node_, false);
        const conversation::StartState state = load_start(world_.store).value();
        require(sandboxes_->take_over(known_sandboxes(world_.store, state)).has_value(), "takeover");
        require(manager_->restore(state).has_value(), "restore failed");
        flaky_store_ = store_was_flaky;
        flaky_node_ = node_was_flaky;
        if (far_store_)
            world_.store.later = [this](std::function<void()> answer) { world_.later(std::move(answer)); };
        manager_->open_pool();
    }

    void kill_server() {
        followers_.leave();
        world_.server_killed();
        world_.measured.clear();
        manager_.reset();
        journal_.reset();
        sandboxes_.reset();
        held_.clear();
        world_.server_killed();  // completions that the destructors queued never run
        left_over_ = world_.processes.size();
        world_.change_facts();
        start_server();
        ++kills_;
        open_answers_.clear();  // those it had not given will not come
        for (const auto& all = world_.store.conversations; const auto& [key, turn] : world_.store.turns)
            require(turn.last_seq != 0 || !all.contains(key.first), "a turn stayed open over a restart");
        for (const auto& [key, record] : world_.store.conversations)
            require(record.status != conversation::Status::active, "a conversation came back active");
    }

    void step() {
        const std::size_t kind = world_.pick(100);
        if (kind < 30) {
            if (!world_.timers.run_deferred())
                world_.run_pending();
        } else if (kind < 55) {
            world_.run_pending();
        } else if (kind < 58) {
            world_.timers.fire_next();
        } else if (kind < 76) {
            agent_acts();
        } else if (kind < 77) {
            kill_server();
        } else if (kind < 79) {
            measure();
        } else if (kind < 85) {
            lease();
        } else {
            client_acts();
        }
        follow();
    }

    /// A measurement begins to hold a sandbox still, or ends.
    void measure() {
        if (!world_.measured.empty()) {
            sandboxes_->end_hold(std::exchange(world_.measured, ""));
        } else if (!world_.processes.empty()) {
            world_.measured = std::next(world_.processes.begin(),
                                        static_cast<std::ptrdiff_t>(world_.pick(world_.processes.size())))
                                  ->second->sandbox_id;
            sandboxes_->hold_still(world_.measured, [](const base::Result<void>&) {});
        }
    }

    /// A client takes a lease on a sandbox, or releases it.
    void lease() {
        if (!held_.empty() && world_.chance(500)) {
            const std::size_t which = world_.pick(held_.size());
            std::swap(held_[which], held_.back());
            held_.pop_back();
            return;
        }
        const std::vector<std::string> targets = lease_targets();
        if (targets.empty())
            return;
        const auto use = static_cast<conversation::LeaseUse>(world_.pick(3));
        auto answered = count("lease");
        manager_->lease(targets[world_.pick(targets.size())], use,
                        [this, answered, use](base::Result<std::unique_ptr<conversation::Lease>> lease) {
                            answered();
                            if (lease)
                                take_lease(use, std::move(*lease));
                        });
    }

    std::vector<std::string> lease_targets() {
        std::vector<std::string> ids;
        for (const Known& known : known_)
            ids.push_back(known.sandbox_id);
        for (const auto& view : listed_sandboxes().items)
            ids.push_back(view.record.id);
        return ids;
    }

    /// The lists, by a store that answers at once: they change nothing.
    conversation::Page<conversation::View> listed(const conversation::ListQuery& query = {}) {
        const auto later = std::exchange(world_.store.later, nullptr);
        auto page = list(*manager_, query);
        world_.store.later = later;
        return std::move(*page);
    }
    conversation::Page<conversation::SandboxView> listed_sandboxes() {
        const auto later = std::exchange(world_.store.later, nullptr);
        auto page = list_sandboxes(*manager_, 1000);
        world_.store.later = later;
        return std::move(*page);
    }

    void take_lease(conversation::LeaseUse use, std::unique_ptr<conversation::Lease> lease) {
        require(lease->is_held(), "a lease was granted that is over");
        ++leases_granted_;
        if (world_.chance(100))
            return;  // its caller is gone
        Held& held = held_.emplace_back(Held{use, std::move(lease)});
        held.lease->on_end([ended = held.ended](const base::Error&) {
            require(!std::exchange(*ended, true), "the end of a lease was told twice");
        });
    }

    /// A leased generation lives; a pause never delays a request.
    void check_leases() {
        for (const Held& held : held_) {
            if (!held.lease->is_held())
                continue;
            require(!*held.ended, "a lease was told to be over and is held");
            const auto status = sandboxes_->status(held.lease->sandbox_id());
            // Its end is reported once all its processes are gone.
            const bool is_there = status == sandbox::Status::ready || status == sandbox::Status::terminated;
            const bool may_be_frozen = held.use == conversation::LeaseUse::process;
            require(is_there || (may_be_frozen && status == sandbox::Status::frozen),
                    "a leased sandbox is not there: " + std::string(to_string(status)));
        }
    }

    void client_acts() {
        const std::size_t kind = world_.pick(20);
        if (known_.empty() || kind < 2)
            return create();
        const Known& target = known_[world_.pick(known_.size())];
        if (kind < 10)
            return message(target.id);
        if (kind < 13)
            return manager_->interrupt(target.id, counted<conversation::View>("interrupt"));
        if (kind < 15)
            return pause(target.id);
        if (kind < 17)
            return manager_->resume(target.id, counted<conversation::View>("resume"));
        if (kind < 18)
            return manager_->remove(target.id, counted<void>("remove"));
        conversation::PatchRequest patch;
        patch.idle_seconds = static_cast<std::uint32_t>(world_.pick(3) * 30);
        if (world_.chance(100))
            patch.ttl_seconds = 600;
        manager_->patch(target.id, patch, counted<conversation::View>("patch"));
    }

    void pause(const std::string& id) {
        using conversation::PauseMode;
        manager_->pause(id, world_.chance(600) ? PauseMode::warm : PauseMode::cold,
                        counted<conversation::View>("pause"));
    }

    void create() {
        if (known_.size() >= 4)
            return;
        if (world_.chance(200))
            return manager_->create_sandbox({},
                                            counted<conversation::Manager::SandboxView>("create_sandbox"));
        auto answered = count("create");
        conversation::CreateRequest request;
        if (world_.chance(300))
            request.limits.disk_mb += 1;  // differs from a warm sandbox
        manager_->create(request, [this, answered, request](base::Result<conversation::View> made) {
            answered();
            if (!made)
                return;
            require(made->limits == request.limits, "a conversation has other limits than it asked for");
            require(sandboxes_given_.insert(made->record.sandbox_id).second, "a sandbox was given out twice");
            known_.push_back({made->record.id, made->record.sandbox_id});
            followers_.add(made->record);
            // Its first two events: the session, and that the sandbox is ready.
            require(world_.store.events.contains({made->record.key, 2}),
                    "a conversation was answered before it was ready");
        });
    }

    void message(const std::string& id) {
        auto answered = count("message");
        const std::string key = world_.chance(300) ? "key" + std::to_string(world_.pick(3)) : "";
        using When = conversation::Manager::MessageReply;
        const When when = world_.chance(500) ? When::at_once : When::committed;
        manager_->message(id, {"hello", key, "someone"}, when,
                          [this, answered](base::Result<conversation::TurnTicket> ticket) {
                              answered();
                              if (ticket && !ticket->replayed)
                                  ++turns_;
                          });
    }

    /// Some agent says something, or something of it dies.
    void agent_acts() {
        if (world_.queries.empty() || world_.chance(100))
            return process_acts();
        const auto query = world_.queries[world_.pick(world_.queries.size())];
        if (query->observer == nullptr || query->ended)
            return;
        // The sandbox is being measured, or it could not be thawed and does not die.
        if (query->process->frozen &&
            (query->process->sandbox_id == world_.measured || query->process->asked_to_die))
            return;
        // The query of a turn that the server ended is dropped by a handler of its own.
        while (query->process->frozen && world_.timers.run_deferred()) {
        }
        if (query->observer == nullptr || query->ended)
            return;
        require(!query->process->frozen, "a turn is open in a frozen sandbox");
        const std::size_t kind = world_.pick(10);
        const std::string text(world_.pick(400), 'x');
        if (kind < 5)
            query->observer->on_event({"text_delta", "{\"delta\":\"" + text + "\"}"});
        else if (kind < 6)
            query->observer->on_bad_line("garbage");
        else if (kind < 7)
            world_.end_query(*query, sandbox::QueryEnd::closed);
        else if (kind < 8)
            query->observer->on_event({"error", "{\"code\":\"x\",\"message\":\"y\"}"});
        else
            agent_ends_turn(*query);
    }

    void agent_ends_turn(FakeQueryState& query) {
        query.observer->on_event({"done", "{}"});
        if (query.observer != nullptr)
            world_.end_query(query, sandbox::QueryEnd::done);
    }

    void process_acts() {
        if (world_.processes.empty())
            return;
        const auto process = std::next(world_.processes.begin(),
                                       static_cast<std::ptrdiff_t>(world_.pick(world_.processes.size())))
                                 ->second;
        if (world_.chance(100) && !process->is_stuck)
            return world_.gets_stuck(process, base::Millis{world_.pick(60'000)});
        if (process->is_stuck)
            return;
        if (!process->on_ready && process->on_lost && world_.chance(300))
            std::exchange(process->on_lost, nullptr)("lost its control stream");
        if (process->alive && world_.chance(500)) {
            const auto exit_class =
                world_.chance(300) ? sandbox::ExitClass::oom : sandbox::ExitClass::signalled;
            world_.process_dies(process, {exit_class, 9, "died"});
        } else if (process->on_agent_exit) {
            // The process may be frozen by now: the agent ended earlier, and its report is read only now.
            std::exchange(process->on_agent_exit, nullptr)("exited 1");
        }
    }

    void follow() { followers_.read(*manager_); }

    void check() {
        // Leftovers of an earlier server count, too, and that server had as many sandboxes.
        require(sandboxes_->living() <= 3 + left_over_, "more sandboxes live than allowed");
        require(world_.processes.size() <= sandboxes_->living(), "a living process has no place");
        require(sandboxes_->undying_count() <= sandboxes_->living(), "the undying have no place");
        check_frozen();
        check_leases();
        told_.check(world_);
        world_.check_facts([this](const std::string& id) { return sandboxes_->find(id) != nullptr; });
        check_stats();
        check_log(world_.store);
    }

    /// A sandbox has the status `frozen` only while it is frozen, and its conversation is then paused.
    void check_frozen() {
        for (const auto& view : listed().items) {
            const auto* process =
                world_.find_process(view.record.sandbox_id + "-" + std::to_string(view.generation));
            if (view.sandbox_status == sandbox::Status::frozen) {
                require(process == nullptr || process->frozen, "a frozen sandbox goes on");
                require(view.record.status == conversation::Status::paused ||
                            view.record.status == conversation::Status::ended,
                        "a frozen sandbox is not paused");
            }
        }
    }

    /// The running counters match the present state.
    void check_stats() {
        const auto& stats = manager_->stats();
        conversation::ListQuery query;
        for (const auto status : conversation::k_all_statuses) {
            query.filter.status = status;
            // Conversations that are being deleted are no longer listed.
            require(stats.by_status[status] >= listed(query).items.size(),
                    "fewer conversations of a status are counted than there are");
        }
        require(stats.turns_started >= stats.turn_duration.count(), "more turns ended than were started");
        require(sandboxes_counted() + left_over_ >= sandboxes_->living(), "living sandboxes are not counted");
        require(sandboxes_counted() < 1000, "sandboxes are counted that are not there");
    }

    std::uint64_t sandboxes_counted() const {
        std::uint64_t counted = 0;
        for (const auto status : sandbox::k_all_statuses)
            counted += sandboxes_->stats().by_status[status];
        return counted;
    }

    /// The same with nothing under way.
    void check_stats_at_rest() {
        const auto& stats = manager_->stats();
        conversation::ListQuery query;
        for (const auto status : conversation::k_all_statuses) {
            query.filter.status = status;
            require(stats.by_status[status] == listed(query).items.size(),
                    "conversations are counted under a wrong status");
        }
        require(stats.turns_started == stats.turn_duration.count(), "a turn's end was not counted");
        require(sandboxes_counted() == listed_sandboxes().items.size() + manager_->pool().at(0).ready,
                "the count of sandboxes is wrong");
    }

    /// Runs until no work is left; agents end their turns.
    void settle() {
        if (!world_.measured.empty())
            measure();
        held_.clear();
        const auto began = world_.clock.steady_now();
        for (std::size_t rounds = 0;; ++rounds) {
            require(rounds < 5000, "it does not come to rest");
            follow();
            held_.clear();
            if (world_.timers.run_deferred() || world_.run_pending())
                continue;
            if (!world_.queries.empty()) {
                const auto query = world_.queries.front();
                if (query->observer != nullptr && !query->ended)
                    agent_ends_turn(*query);
                else
                    std::erase(world_.queries, query);
                continue;
            }
            if (open_answers_.empty() && journal_->idle() && world_.timers.armed() == 0)
                return;
            // Nothing is under way but deadlines.
            require(!open_answers_.contains("pause") || world_.clock.steady_now() - began <= k_longest_pause,
                    "a pause takes longer than a freeze and the death of a sandbox may");
            if (!world_.timers.fire_next())
                break;
        }
        require(open_answers_.empty(),
                "never answered: " + (open_answers_.empty() ? "" : *open_answers_.begin()));
    }

    void check_rest() {
        check();
        for (const auto& [pid, process] : world_.processes)
            require(!process->frozen, "a process was left frozen beyond the warm limit");
        check_stats_at_rest();
        for (const auto& view : listed().items)
            require(view.record.status == conversation::Status::active ||
                        view.sandbox_status != sandbox::Status::ready,
                    "a sandbox was left running that no lease holds");
        std::set<std::pair<std::int64_t, std::string>> used_keys;
        for (const auto& [key, turn] : world_.store.turns) {
            require(turn.last_seq != 0, "a turn was never closed");
            require(turn.idempotency_key.empty() || used_keys.emplace(key.first, turn.idempotency_key).second,
                    "an Idempotency-Key has started two turns");
        }
        for (const auto& [id, event] : world_.store.events) {
            if (event->type == EventType::done)
                ++dones_;
        }
        followers_.check_all_was_told();
    }

    /// Checks that a conversation is not in memory if nobody follows it and its sandbox does not live.
    void check_unloaded() {
        followers_.go_away();
        settle();
        std::size_t living = 0;
        for (const auto& view : listed().items)
            living += sandboxes_->channel(view.record.sandbox_id) != nullptr ? 1 : 0;
        require(manager_->loaded() == living, "a conversation that rests is in memory");
        unloaded_ += world_.store.conversations.size() - living;
    }

    void delete_everything() {
        for (const auto& view : listed().items)
            manager_->remove(view.record.id, counted<void>("remove"));
        settle();
        for (const auto& view : listed_sandboxes().items)
            manager_->remove_sandbox(view.record.id, counted<void>("remove_sandbox"));
        settle();
        if (pooled_ > 0)
            check_pool();
        require(world_.processes.empty(), "a process is left");
        require(world_.groups.empty(), "a group is left");
        for (const std::uint32_t uid : world_.uids)
            require(world_.node.names(uid), "a uid is left");
        require(world_.store.conversations.empty() && world_.store.sandboxes.empty(), "rows are left");
        require(world_.store.turns.empty() && world_.store.events.empty(), "a log is left");
        require(sandboxes_->living() == 0, "the count of the living is wrong");
        require(sandboxes_->undying_count() == 0, "the undying are never forgotten");
        check_stats_at_rest();
        // The next start removes the rest: workspaces that only processes of an earlier server held, and
        // facts that could not be erased.
        pooled_ = 0;
        kill_server();
        settle();
        require(world_.workspaces.empty() && world_.trash.empty(), "a workspace is left");
        require(world_.node.facts.empty(), "facts of the host are left");
        require(world_.uids.empty() && world_.quarantined.empty(), "a uid is left");
    }

    /// If there is room, the pool is full; its sandboxes end with the server.
    void check_pool() {
        const auto pool = manager_->pool();
        require(pool.size() == 1 && pool[0].ready == pooled_, "the pool is not full");
        require(sandboxes_->living() == pooled_, "more live than the pool's");
        manager_->shut_down(count("shut_down"));
        settle();
    }

    std::function<void()> count(const std::string& what) {
        open_answers_.insert(what);
        auto once = std::make_shared<bool>(false);
        return [this, what, once, generation = kills_] {
            require(!std::exchange(*once, true), "answered twice: " + what);
            require(generation == kills_, "a dead server answered");
            open_answers_.erase(open_answers_.find(what));
        };
    }

    template <class T>
    std::function<void(base::Result<T>)> counted(const std::string& what) {
        auto answered = count(what);
        return [answered](const base::Result<T>&) { answered(); };
    }

    base::Budgets budgets_;
    FakeWorld world_;
    std::optional<sandbox::Manager> sandboxes_;
    std::optional<conversation::Journal> journal_;
    std::optional<conversation::Manager> manager_;
    std::vector<Known> known_;
    Followers followers_{world_};
    std::vector<Held> held_;
    std::set<std::string> sandboxes_given_;
    std::size_t pooled_ = 0;
    std::size_t left_over_ = 0;  // processes of earlier servers
    bool flaky_store_ = false;
    bool flaky_node_ = false;
    sandbox::AgentSpec::Kind agent_kind_ = sandbox::AgentSpec::Kind::shell;
    bool far_store_ = false;                   // it answers later
    std::multiset<std::string> open_answers_;  // requests, by what they ask for
    int kills_ = 0;
    std::size_t turns_ = 0;
    std::size_t dones_ = 0;
    std::size_t leases_granted_ = 0;
    Told told_;
    std::size_t unloaded_ = 0;
};

std::size_t number_from(const char* name, std::size_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("Whatever happens in whatever order, the lifecycle keeps its invariants", "[simulation]") {
    spdlog::set_level(spdlog::level::off);
    const std::size_t histories = number_from("ATOLL_SIM_HISTORIES", 100'000);
    const std::size_t only = number_from("ATOLL_SIM_SEED", 0);
    std::size_t leases = 0;
    std::size_t unloaded = 0;
    std::size_t late_reads = 0;
    std::size_t turns_told = 0;
    for (std::size_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : histories); ++seed) {
        INFO("ATOLL_SIM_SEED=" << seed);
        try {
            History history(seed);
            history.run(20 + seed % 60);
            leases += history.leases_granted();
            unloaded += history.unloaded();
            late_reads += history.late_reads();
            turns_told += history.turns_told();
        } catch (const std::exception& violation) {
            FAIL(violation.what());
        }
    }
    // In the middle of a history there is something to lease, to unload, to read back and to tell.
    CHECK((only != 0 || (leases >= histories / 2 && unloaded >= histories / 10)));
    CHECK((only != 0 || (late_reads >= histories / 20 && turns_told >= histories / 50)));
    spdlog::set_level(spdlog::level::info);
}

}  // namespace atl::test::lifecycle_simulation_test
