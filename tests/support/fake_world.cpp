#include "tests/support/fake_world.hpp"

#include <algorithm>
#include <utility>

namespace atl::test {

using base::Errc;
using base::Error;
using base::Result;

namespace {

class FakeGroup final : public sandbox::ResourceGroup {
  public:
    FakeGroup(FakeWorld& world, std::string name) : world_(world), name_(std::move(name)) {}
    ~FakeGroup() override { *alive_ = false; }
    // The kernel does the same: a limit that it refuses stays as it was, all others are taken.
    Result<void> set_limits(const sandbox::Limits& limits) override {
        sandbox::Limits& own = world_.group_limits[name_];
        const bool takes_all = limits.cpu_percent <= world_.most_cpu_percent;
        const std::uint32_t cpu_percent = takes_all ? limits.cpu_percent : own.cpu_percent;
        own = limits;
        own.cpu_percent = cpu_percent;
        return takes_all ? Result<void>() : Error(Errc::sandbox_failed, "Invalid argument");
    }
    void watch_oom(std::function<void()> on_oom) override {
        if (!world_.chance(world_.failure_per_mille))
            return;
        world_.later([this, alive = alive_, on_oom = std::move(on_oom)] {
            if (!*alive)
                return;
            oom_kills_ = 1;
            on_oom();
        });
    }
    void watch_memory(sandbox::MemoryWarning on_warning) override {
        if (!world_.chance(world_.failure_per_mille))
            return;
        world_.later([alive = alive_, on_warning = std::move(on_warning)] {
            if (*alive)
                on_warning("memory", 8, 10);
        });
    }
    bool is_oom_suspected() const override { return oom_kills() > 0; }
    std::uint64_t oom_kills() const override { return oom_kills_ + world_.oom_kills; }
    sandbox::Usage usage() const override { return world_.used; }
    void kill() override {
        if (auto* process = world_.find_process(name_)) {
            process->frozen = false;
            process->asked_to_die = true;
        }
        ++freezes_;
    }
    void freeze(std::function<void(Result<void>)> done) override {
        auto* process = world_.find_process(name_);
        const bool fails = world_.chance(world_.failure_per_mille);
        if (process != nullptr)
            process->frozen = true;
        world_.later([this, alive = alive_, number = ++freezes_, fails, done = std::move(done)] {
            if (!*alive || number != freezes_)
                return;
            if (!fails)
                return done({});
            if (auto* at = world_.find_process(name_))
                at->frozen = false;
            done(Error(Errc::sandbox_failed, "injected"));
        });
    }
    Result<void> thaw() override {
        ++freezes_;
        if (world_.chance(world_.failure_per_mille))
            return Error(Errc::sandbox_failed, "injected");
        if (auto* process = world_.find_process(name_))
            process->frozen = false;
        return {};
    }
    void remove(std::function<void(Result<void>)> done) override {
        world_.later([this, alive = alive_, done = std::move(done)] {
            if (!*alive)
                return;
            if (world_.find_process(name_) == nullptr)
                return removed(done);
            world_.timers.arm(base::k_kill_deadline, [this, alive, done] {
                if (!*alive)
                    return;
                if (world_.find_process(name_) == nullptr)
                    return removed(done);
                done(Error(Errc::deadline_exceeded, "not empty"));
            });
        });
    }

  private:
    void removed(const std::function<void(Result<void>)>& done) {
        world_.groups.erase(name_);
        done({});
    }

    FakeWorld& world_;
    std::string name_;
    std::uint64_t oom_kills_ = 0;
    int freezes_ = 0;  // a thaw cancels earlier freezes
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class FakeProcess final : public sandbox::Process {
  public:
    FakeProcess(FakeWorld& world, pid_t pid, std::shared_ptr<FakeProcessState> state)
        : world_(world), pid_(pid), state_(std::move(state)) {}
    ~FakeProcess() override {
        state_->on_exit = nullptr;
        state_->on_log = nullptr;
        state_->on_listening = nullptr;
        if (state_->alive && !state_->is_stuck)
            world_.process_dies(state_, {});
    }
    const std::string& bridge_path() const override { return path_; }
    pid_t pid() const override { return pid_; }
    void terminate() override { request(15); }
    void kill() override { request(9); }
    std::string log_tail() const override { return "tail"; }
    void on_log(std::function<void(std::string_view)> on_text) override {
        state_->on_log = std::move(on_text);
    }
    void listen(std::uint16_t, std::function<void(Result<sandbox::InnerListener>)> done) override {
        state_->on_listening = std::move(done);
        world_.later([&world = world_, state = state_] { world.tell_of_listener(*state); });
    }
    const std::shared_ptr<FakeProcessState>& state() const { return state_; }

  private:
    void request(int signal_number) {
        require(signal_number == 9 || !state_->frozen, "a frozen process was asked to end");
        // Now and then something does not die of SIGTERM.
        if (signal_number == 15 && world_.chance(500))
            return;
        state_->asked_to_die = true;
        world_.later([&world = world_, state = state_, signal_number] {
            if (state->alive && !state->is_stuck)
                world.process_dies(state, {sandbox::ExitClass::signalled, signal_number, "killed"});
        });
    }

    FakeWorld& world_;
    pid_t pid_;
    std::shared_ptr<FakeProcessState> state_;
    std::string path_ = "/nowhere";
};

class FakeQuery final : public sandbox::Query {
  public:
    explicit FakeQuery(std::shared_ptr<FakeQueryState> state) : state_(std::move(state)) {}
    ~FakeQuery() override {
        state_->observer = nullptr;
        state_->ended = true;
    }

  private:
    std::shared_ptr<FakeQueryState> state_;
};

class FakeChannel final : public sandbox::Channel {
  public:
    FakeChannel(FakeWorld& world, std::shared_ptr<FakeProcessState> process)
        : world_(world), process_(std::move(process)) {}
    ~FakeChannel() override { process_->loses_channel(); }
    void watch_ports(sandbox::OnPorts on_ports) override { process_->on_ports = std::move(on_ports); }
    void on_lost(std::function<void(std::string)> lost) override { process_->on_lost = std::move(lost); }
    void start(const sandbox::AgentSpec& agent, std::function<void(Result<void>)> on_ready,
               std::function<void(std::string)> on_agent_exit) override {
        process_->is_told(agent);
        process_->on_ready = std::move(on_ready);
        on_agent_exit_ = std::move(on_agent_exit);
        if (agent.kind != sandbox::AgentSpec::Kind::none)
            process_->on_agent_exit = on_agent_exit_;
        const bool fails = world_.chance(world_.failure_per_mille);
        world_.later([process = process_, fails] {
            if (auto ready = std::exchange(process->on_ready, nullptr)) {
                if (fails || !process->alive)
                    ready(Error(Errc::bridge_failed, "injected"));
                else
                    ready({});
            }
        });
    }
    void start_agent(const sandbox::AgentSpec& agent, std::function<void(Result<void>)> done) override {
        require(agent.kind != sandbox::AgentSpec::Kind::none, "an agent of kind none was started");
        require(!process_->on_agent && !process_->on_agent_exit, "an agent was started where one runs");
        // A sandbox that is being measured gets it after its thaw.
        require(!process_->frozen || process_->sandbox_id == world_.measured,
                "an agent was started in a frozen process");
        process_->is_told(agent);
        process_->on_agent = std::move(done);
        const bool fails = world_.chance(world_.failure_per_mille);
        world_.later([process = process_, on_exit = on_agent_exit_, fails] {
            auto tell = std::exchange(process->on_agent, nullptr);
            if (!tell)
                return;
            if (!process->alive)
                return tell(Error(Errc::bridge_failed, "the guest is gone"));
            if (fails)
                return tell(Error(Errc::agent_failed, "injected"));
            process->on_agent_exit = on_exit;
            tell({});
        });
    }
    std::unique_ptr<sandbox::Query> query(std::string_view, std::string_view, std::string_view,
                                          sandbox::QueryObserver& observer) override {
        // A sandbox that is being measured gets it after its thaw.
        require(!process_->frozen || process_->sandbox_id == world_.measured,
                "a query was sent to a frozen process");
        auto state = std::make_shared<FakeQueryState>();
        state->observer = &observer;
        state->process = process_;
        process_->queries.insert(state.get());
        world_.queries.push_back(state);
        if (!process_->alive || world_.chance(world_.failure_per_mille))
            world_.later(
                [&world = world_, state] { world.end_query(*state, sandbox::QueryEnd::connect_failed); });
        return std::make_unique<FakeQuery>(state);
    }
    void interrupt(std::string_view, std::function<void(Result<void>)> done) override {
        for (const auto& query : world_.queries) {
            if (query->process == process_)
                query->interrupted = true;
        }
        world_.later([done = std::move(done)] { done({}); });
    }
    void permit(std::string_view, std::string_view id, std::string_view option,
                std::function<void(Result<void>)> done) override {
        if (world_.lost_permits > 0) {
            --world_.lost_permits;
            world_.later([done = std::move(done)] { done(Error(Errc::bridge_failed, "a fake loses it")); });
            return;
        }
        world_.permits.emplace_back(id, option);
    }
    void shutdown(std::function<void(Result<void>)> done) override {
        require(!process_->frozen, "a frozen process was asked to shut down");
        const bool obeys = !world_.chance(200);
        world_.later([&world = world_, process = process_, obeys, done = std::move(done)] {
            done({});
            if (obeys && process->alive && !process->frozen && !process->is_stuck)
                world.process_dies(process, {sandbox::ExitClass::exited, 0, ""});
        });
    }

  private:
    FakeWorld& world_;
    std::shared_ptr<FakeProcessState> process_;
    std::function<void(std::string)> on_agent_exit_;
};

/// An operation that fails later, unless it is cancelled.
template <class Operation>
struct FailingOperation : Operation {
    FailingOperation(FakeWorld& world, std::function<void(const Error&)> fail) {
        world.reply([alive = std::weak_ptr(alive), fail = std::move(fail)] {
            if (alive.lock())
                fail(Error(Errc::bridge_failed, "a fake runs nothing"));
        });
    }
    std::size_t write(std::string_view) override { return 0; }
    void resume() override {}

    std::shared_ptr<bool> alive = std::make_shared<bool>();
};

struct FakeRun final : FailingOperation<sandbox::Run> {
    using FailingOperation::FailingOperation;
    void close_input() override {}
    void signal(int) override {}
};

struct FakeDial final : FailingOperation<sandbox::Dial> {
    using FailingOperation::FailingOperation;
    void close_write() override {}
};

/// Answered later, unless it is cancelled; with a failure where no other answer is given.
struct FakeQuestion final : sandbox::Question {
    template <class Answer>
    FakeQuestion(FakeWorld& world, Answer answer)
        : FakeQuestion(world, answer, Error(Errc::bridge_failed, "a fake runs nothing")) {}
    template <class Answer, class Result>
    FakeQuestion(FakeWorld& world, Answer answer, Result result) {
        world.reply([alive = std::weak_ptr(alive), answer = std::move(answer), result = std::move(result)] {
            if (alive.lock())
                answer(result);
        });
    }

    std::shared_ptr<bool> alive = std::make_shared<bool>();
};

struct FakeCall final : FailingOperation<sandbox::Call> {
    using FailingOperation::FailingOperation;
    void end_input() override {}
};

/// Refused later, unless it is ended.
struct FakeWatch final : sandbox::Watch {
    FakeWatch(FakeWorld& world, std::function<void(const Error&)> fail) {
        world.later([alive = std::weak_ptr(alive), fail = std::move(fail)] {
            if (alive.lock())
                fail(Error(Errc::bridge_failed, "a fake runs nothing"));
        });
    }
    void resume() override {}

    std::shared_ptr<bool> alive = std::make_shared<bool>();
};

class FakeOperations final : public sandbox::Operations {
  public:
    explicit FakeOperations(FakeWorld& world) : world_(world) {}
    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec&, sandbox::RunObserver& observer) override {
        return failing<FakeRun>(observer);
    }
    std::unique_ptr<sandbox::Run> attach(const std::string&, std::uint64_t,
                                         sandbox::RunObserver& observer) override {
        return failing<FakeRun>(observer);
    }
    std::unique_ptr<sandbox::Run> feed(const std::string&, sandbox::RunObserver& observer) override {
        return failing<FakeRun>(observer);
    }
    std::unique_ptr<sandbox::Question> start_process(const sandbox::ProcessSpec& spec,
                                                     sandbox::Answer<pid_t> answer) override {
        if (world_.start_process)
            return std::make_unique<FakeQuestion>(world_, std::move(answer), world_.start_process(spec));
        return std::make_unique<FakeQuestion>(world_, std::move(answer));
    }
    std::unique_ptr<sandbox::Question> list_processes(
        const std::string&, sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer) override {
        return std::make_unique<FakeQuestion>(world_, std::move(answer));
    }
    std::unique_ptr<sandbox::Question> control_process(const std::string&, const sandbox::ProcessControl&,
                                                       sandbox::Answer<void> answer) override {
        return std::make_unique<FakeQuestion>(world_, std::move(answer));
    }
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t, sandbox::DialObserver& observer) override {
        return std::make_unique<FakeDial>(world_,
                                          [&observer](const Error& error) { observer.on_end(error); });
    }
    std::unique_ptr<sandbox::Call> call(const sandbox::CallSpec&, sandbox::CallObserver& observer) override {
        return failing<FakeCall>(observer);
    }
    std::unique_ptr<sandbox::Watch> watch(sandbox::WatchObserver& observer) override {
        return failing<FakeWatch>(observer);
    }

  private:
    template <class Fake, class Observer>
    std::unique_ptr<Fake> failing(Observer& observer) {
        return std::make_unique<Fake>(world_, [&observer](const Error& error) { observer.on_failed(error); });
    }

    FakeWorld& world_;
};

}  // namespace

bool FakeWorld::run_pending() {
    if (pending.empty())
        return false;
    const std::size_t at = pick(pending.size());
    const auto run = std::move(pending[at]);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(at));
    run();
    return true;
}

void FakeWorld::gets_stuck(const std::shared_ptr<FakeProcessState>& process, base::Millis how_long) {
    process->is_stuck = true;
    process->stuck_until = clock.steady_now() + how_long;
    timers.arm(how_long, [this, process] { comes_loose(process); });
}

void FakeWorld::comes_loose(const std::shared_ptr<FakeProcessState>& process) {
    if (!std::exchange(process->is_stuck, false))
        return;
    if (process->asked_to_die && process->alive)
        process_dies(process, {sandbox::ExitClass::signalled, 9, "killed"});
}

void FakeWorld::find_leftovers() {
    left.clear();
    for (const auto& [pid, process] : processes) {
        const std::string name = process->sandbox_id + "-" + std::to_string(process->generation);
        left.push_back({process->sandbox_id,
                        process->generation,
                        {process->host_uid},
                        std::make_unique<FakeGroup>(*this, name)});
        // Where groups are made ahead, their names tell nothing.
        if (chance(500))
            left.back().sandbox_id.clear();
    }
}

void FakeWorld::change_facts() {
    if (chance(100))
        node.facts.clear();
    else if (chance(200))
        node.facts = node.older;
    if (chance(500))
        node.older = node.facts;
    if (chance(200))
        node.facts.emplace("half-made", 1000);
}

void FakeWorld::check_facts(const std::function<bool(const std::string& sandbox_id)>& is_there) const {
    for (const auto& [id, uid] : workspaces) {
        const auto found = node.facts.find(id);
        require(!is_there(id) || (found != node.facts.end() && found->second == uid),
                "the facts of a sandbox are lost");
    }
}

void FakeWorld::server_killed() {
    timers.clear();
    pending.clear();
    for (auto& query : queries)
        query->observer = nullptr;
    queries.clear();
    for (auto& [pid, process] : processes) {
        process->on_exit = nullptr;
        process->loses_channel();
        process->asked_to_die = true;
        process->alive = process->is_stuck;
        if (process->alive)
            timers.arm(std::max(base::Millis{0}, std::chrono::duration_cast<base::Millis>(
                                                     process->stuck_until - clock.steady_now())),
                       [this, kept = process] { comes_loose(kept); });
    }
    std::erase_if(processes, [](const auto& entry) { return !entry.second->alive; });
    watched.clear();
    // The next start removes empty groups.
    groups.clear();
    for (const auto& [pid, process] : processes)
        groups.insert(process->sandbox_id + "-" + std::to_string(process->generation));
    find_leftovers();
    uids.clear();
    withheld.clear();
    quarantined.clear();
}

void FakeWorld::process_dies(const std::shared_ptr<FakeProcessState>& dying, sandbox::Exit exit) {
    const auto process = dying;  // which may be the one in `processes`
    require(process->alive, "a process died twice");
    process->alive = false;
    process->frozen = false;
    std::erase_if(processes, [&](const auto& entry) { return entry.second == process; });
    for (const auto& query : queries) {
        if (query->process == process)
            later([this, query] { end_query(*query, sandbox::QueryEnd::closed); });
    }
    later([process, exit = std::move(exit)] {
        if (auto told = std::exchange(process->on_exit, nullptr))
            told(exit);
    });
}

FakeProcessState* FakeWorld::find_process(const std::string& group) const {
    for (const auto& [pid, process] : processes) {
        if (process->sandbox_id + "-" + std::to_string(process->generation) == group)
            return process.get();
    }
    return nullptr;
}

void FakeWorld::end_query(FakeQueryState& query, sandbox::QueryEnd end) {
    if (std::exchange(query.ended, true))
        return;
    if (query.observer != nullptr)
        query.observer->on_end(end, "");
    std::erase_if(queries, [&](const auto& candidate) { return candidate.get() == &query; });
}

Result<std::unique_ptr<sandbox::Process>> FakeWorld::launch(const sandbox::LaunchSpec& spec,
                                                            sandbox::ResourceGroup*,
                                                            std::function<void(sandbox::Exit)> on_exit) {
    const bool has_workspace = spec.workspace.empty() || workspaces.contains(spec.sandbox_id);
    require(has_workspace || workspaces_may_be_missing, "started without a workspace");
    if (!has_workspace)
        return Error(Errc::sandbox_failed, "the workspace is gone");
    for (const auto& [pid, process] : processes)
        require(process->sandbox_id != spec.sandbox_id, "a sandbox has two living processes");
    if (chance(failure_per_mille))
        return Error(Errc::sandbox_failed, "injected");
    auto state = std::make_shared<FakeProcessState>();
    state->sandbox_id = spec.sandbox_id;
    state->generation = spec.generation;
    state->host_uid = spec.host_uid;
    state->on_exit = std::move(on_exit);
    const pid_t pid = ++last_pid;
    processes.emplace(pid, state);
    return std::unique_ptr<sandbox::Process>(std::make_unique<FakeProcess>(*this, pid, state));
}

Result<std::unique_ptr<sandbox::ResourceGroup>> FakeWorld::create(const std::string& name,
                                                                  const sandbox::Limits& limits) {
    if (chance(failure_per_mille))
        return Error(Errc::sandbox_failed, "injected");
    require(groups.insert(name).second, "a group of this name is there already");
    group_limits[name] = limits;
    return std::unique_ptr<sandbox::ResourceGroup>(std::make_unique<FakeGroup>(*this, name));
}

Result<std::filesystem::path> FakeWorld::provision(const std::string& sandbox_id, std::uint32_t host_uid) {
    if (chance(failure_per_mille))
        return Error(Errc::storage_failed, "injected");
    for (const auto& [id, uid] : workspaces)
        require(uid != host_uid, "two workspaces share a uid");
    require(node.facts.contains(sandbox_id), "a workspace was made before its facts");
    workspaces.emplace(sandbox_id, host_uid);
    unclaimed.insert(sandbox_id);
    return workspace(sandbox_id);
}

void FakeWorld::watch(const std::string& sandbox_id, const base::ShareHolder&, std::uint32_t limit_mb,
                      std::function<void(sandbox::Exit)> on_excess,
                      std::function<void(std::uint64_t, std::uint64_t)> on_warning) {
    require(watched.emplace(sandbox_id, std::move(on_excess)).second, "a workspace is watched twice");
    if (!chance(failure_per_mille))
        return;
    later([this, sandbox_id, limit_mb, on_warning = std::move(on_warning)] {
        if (!watched.contains(sandbox_id))
            return;
        on_warning(limit_mb, limit_mb);
        exceed_disk(sandbox_id, "injected");
    });
}

std::filesystem::path FakeWorld::workspace(const std::string& sandbox_id) const {
    return "/workspaces/" + sandbox_id;
}

Result<void> FakeWorld::remove(const std::string& sandbox_id, const base::ShareHolder&,
                               std::function<void(Result<void>)> done) {
    for (const auto& [pid, process] : processes)
        require(process->sandbox_id != sandbox_id, "a workspace was removed under a living process");
    if (removals_fail)
        return Error(Errc::storage_failed, "injected");
    if (auto moved = workspaces.extract(sandbox_id))
        trash.emplace(sandbox_id, moved.mapped());
    unclaimed.erase(sandbox_id);
    if (!removals_last)
        later([this, sandbox_id, done = std::move(done)] {
            trash.erase(sandbox_id);
            done({});
        });
    return {};
}

std::unique_ptr<sandbox::Channel> FakeWorld::open(const std::string&, const sandbox::Process& process) {
    return std::make_unique<FakeChannel>(*this, dynamic_cast<const FakeProcess&>(process).state());
}

std::unique_ptr<sandbox::Operations> FakeWorld::open_operations(const sandbox::Process&) {
    return std::make_unique<FakeOperations>(*this);
}

}  // namespace atl::test
