#include "core/execution/runner_pool.hpp"

#include <algorithm>
#include <utility>

#include "core/base/execution_limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::execution {

namespace {

// After one was taken: its program has the processors first.
constexpr base::Millis k_runner_refill_pause{20};
// While there is no room, or runs wait for their turn.
constexpr base::Millis k_runner_room_pause{500};
// Pause after an eviction, so that the pool does not refill at once: the evicting start needs the memory, or
// the host is short of it.
constexpr base::Millis k_runner_rest{5000};
constexpr base::Millis k_runner_first_retry{1000};
constexpr base::Millis k_runner_longest_retry{60'000};

}  // namespace

/// A runner that is being started, or is ready.
class RunnerPool::Waiting final : public ProgramObserver,
                                  public std::enable_shared_from_this<RunnerPool::Waiting> {
  public:
    Waiting(RunnerPool& pool, Shelf& shelf) : pool_(pool), timers_(pool.ports_.timers), shelf_(shelf) {}
    // It may outlive the pool.
    ~Waiting() override {
        if (timer_ != 0)
            timers_.cancel(timer_);
    }

    base::Result<void> begin() {
        auto made = pool_.ports_.sandboxes.create_ephemeral({pool_.limits_},
                                                            [told = runner.on_exit](const auto& exit) {
                                                                if (const auto call = *told)
                                                                    call(exit);
                                                            });
        if (!made)
            return made.error();
        runner.sandbox_id = std::move(*made);
        *runner.on_exit = [self = weak_from_this()](const sandbox::Exit& exit) {
            if (const auto it = self.lock()) {
                it->runner.program.reset();
                it->pool_.lose(*it, "its sandbox has ended: " + exit.detail);
            }
        };
        sandbox::AgentSpec agent;
        agent.dir = shelf_.engine->folder;
        pool_.ports_.sandboxes.start(runner.sandbox_id, agent,
                                     [self = weak_from_this(), told = runner.on_exit](const auto& result) {
                                         if (const auto it = self.lock())
                                             it->pool_.on_sandbox_ready(*it, result);
                                         // It was removed while it started.
                                         if (const auto call = *told; !result && call)
                                             call({});
                                     });
        return {};
    }
    void start_engine(sandbox::Operations& operations) {
        runner.program = pool_.ports_.programs.start(operations, *shelf_.engine, *this);
        timer_ = timers_.arm(base::k_engine_ready_deadline, [this] {
            timer_ = 0;
            pool_.lose(*this, "the engine was not ready within its time");
        });
    }
    void stop_clock() { timers_.cancel(std::exchange(timer_, 0)); }
    Shelf& shelf() const noexcept { return shelf_; }

    Runner runner{{}, nullptr, std::make_shared<std::function<void(const sandbox::Exit&)>>()};

  private:
    void on_ready() override { pool_.on_engine_ready(*this); }
    void on_broken(Failure failure) override { pool_.on_engine_broken(*this, failure.message); }
    void on_lost(const base::Error& error) override { pool_.lose(*this, error.detail()); }
    // It was told no program.
    void on_running() override {}
    void on_log(const std::string&, const std::string&) override {}
    void on_call(std::uint64_t, const std::string&, const std::string&) override {}
    void on_end(std::optional<std::string>, std::optional<Failure>) override {}

    RunnerPool& pool_;
    base::Timers& timers_;
    Shelf& shelf_;
    base::TimerId timer_ = 0;
};

RunnerPool::RunnerPool(Ports ports, const Engines& engines, std::vector<RunnerPoolSize> sizes,
                       sandbox::Limits limits)
    : ports_(std::move(ports)), sizes_(std::move(sizes)), limits_(limits) {
    add_shelves(engines);
}

void RunnerPool::add_shelves(const Engines& engines) {
    for (const RunnerPoolSize& size : sizes_) {
        std::optional<Language> language;
        const auto engine = engines.choose(size.executor, language);
        if (!engine) {
            base::LogLine line(base::evt::pool_failed);
            line.field("executor", size.executor).quoted("err", engine.error().detail());
            // The operator did not ask for a pool that is there by default.
            if (size.from == RunnerPoolSize::From::start)
                line.warn();
            else
                line.debug();
            continue;
        }
        if (size.size == 0)
            continue;
        // `auto` may be an engine that is named, too.
        if (Shelf* const same = shelf_of(**engine)) {
            same->size = std::max(same->size, size.size);
            same->is_open |= size.from == RunnerPoolSize::From::start;
            continue;
        }
        auto shelf = std::make_unique<Shelf>();
        shelf->engine = *engine;
        shelf->size = size.size;
        shelf->is_open = size.from == RunnerPoolSize::From::start;
        shelf->retry_pause = k_runner_first_retry;
        shelves_.push_back(std::move(shelf));
    }
}

RunnerPool::~RunnerPool() {
    ports_.timers.cancel(timer_);
    ports_.timers.cancel(rest_);
    for (const auto& shelf : shelves_)
        ports_.timers.cancel(shelf->rest);
}

void RunnerPool::open() {
    arm(base::Millis{0});
}

void RunnerPool::extend(const Engines& engines) {
    add_shelves(engines);
    arm(base::Millis{0});
}

void RunnerPool::note_run(const Engine& engine) {
    Shelf* const shelf = shelf_of(engine);
    if (shelf != nullptr && !std::exchange(shelf->is_open, true))
        arm(k_runner_refill_pause);
}

void RunnerPool::arm(base::Millis pause) {
    if (closed_ || timer_ != 0 || !is_short())
        return;
    timer_ = ports_.timers.arm(pause, [this] {
        timer_ = 0;
        start_next();
    });
}

/// Something is missing that may be started.
bool RunnerPool::is_short() const {
    return rest_ == 0 && std::any_of(shelves_.begin(), shelves_.end(),
                                     [](const auto& shelf) { return shelf->is_missing_one(); });
}

void RunnerPool::start_next() {
    if (!is_short())
        return;
    if (ports_.is_busy() || !ports_.room({limits_}))
        return arm(k_runner_room_pause);
    // The emptiest first. There is one: is_short().
    Shelf* next = nullptr;
    for (const auto& shelf : shelves_) {
        if (shelf->is_missing_one() && (next == nullptr || shelf->ready.size() < next->ready.size()))
            next = shelf.get();
    }
    start_one(*next);
    // Runners start one after the other; an engine that hangs delays only its own runners.
    arm(k_runner_refill_pause);
}

void RunnerPool::start_one(Shelf& shelf) {
    shelf.starting = std::make_shared<Waiting>(*this, shelf);
    if (const auto begun = shelf.starting->begin(); !begun) {
        shelf.starting.reset();
        fail(shelf, begun.error().detail());
    }
}

void RunnerPool::on_sandbox_ready(Waiting& waiting, const base::Result<void>& result) {
    if (waiting.shelf().starting.get() != &waiting)
        return;
    if (!result)
        return lose(waiting, result.error().detail());
    sandbox::Operations* const operations = ports_.sandboxes.operations(waiting.runner.sandbox_id);
    if (operations == nullptr)
        return lose(waiting, "its sandbox has ended at once");
    waiting.start_engine(*operations);
}

void RunnerPool::on_engine_ready(Waiting& waiting) {
    if (waiting.shelf().starting.get() != &waiting)
        return;
    waiting.stop_clock();
    Shelf& shelf = waiting.shelf();
    shelf.ready.push_back(std::exchange(shelf.starting, nullptr));
    ports_.on_start(*shelf.engine, "");
    arm(k_runner_refill_pause);
}

void RunnerPool::on_engine_broken(Waiting& waiting, const std::string& why) {
    const std::shared_ptr<Waiting> kept = waiting.shared_from_this();
    const Shelf& shelf = waiting.shelf();
    // The kernel ends the processes of a group that is out of memory, and tells it a moment later.
    const auto limit = ports_.sandboxes.limit_reached(waiting.runner.sandbox_id);
    if (shelf.starting == kept && !limit)
        ports_.on_start(*shelf.engine, why);
    lose(waiting, limit ? limit->detail : why);
}

/// It ended by itself, or could not be started.
void RunnerPool::lose(Waiting& waiting, const std::string& why) {
    const std::shared_ptr<Waiting> kept = waiting.shared_from_this();
    Shelf& shelf = waiting.shelf();
    if (shelf.starting == kept)
        shelf.starting.reset();
    else if (std::erase(shelf.ready, kept) == 0)
        return;
    remove(kept);
    fail(shelf, why);
}

void RunnerPool::fail(Shelf& shelf, const std::string& why) {
    base::LogLine(base::evt::pool_failed).field("executor", shelf.engine->name).quoted("err", why).warn();
    ports_.timers.cancel(shelf.rest);
    shelf.rest = ports_.timers.arm(shelf.retry_pause, [this, &shelf] {
        shelf.rest = 0;
        arm(base::Millis{0});
    });
    shelf.retry_pause = std::min(2 * shelf.retry_pause, k_runner_longest_retry);
    arm(k_runner_refill_pause);
}

void RunnerPool::remove(const std::shared_ptr<Waiting>& waiting, std::function<void()> free) {
    const auto tell = [free = std::make_shared<std::function<void()>>(std::move(free))] {
        if (const auto call = std::exchange(*free, nullptr))
            call();
    };
    waiting->stop_clock();
    *waiting->runner.on_exit = [tell](const sandbox::Exit&) { tell(); };
    // Not destroyed inside of its own call.
    ports_.timers.defer([waiting] { waiting->runner.program.reset(); });
    ports_.sandboxes.remove(waiting->runner.sandbox_id, tell);
}

RunnerPool::Shelf* RunnerPool::shelf_of(const Engine& engine) const {
    const auto found = std::find_if(shelves_.begin(), shelves_.end(),
                                    [&](const auto& shelf) { return shelf->engine == &engine; });
    return found == shelves_.end() ? nullptr : found->get();
}

// The memory limit of a living sandbox can be raised, not lowered.
bool RunnerPool::has(const Engine& engine, const sandbox::Limits& limits) const {
    const Shelf* const shelf = shelf_of(engine);
    if (shelf == nullptr || shelf->ready.empty() || limits.memory_mb < limits_.memory_mb)
        return false;
    return limits.memory_mb == limits_.memory_mb ||
           (!ports_.sandboxes.is_host_short() &&
            ports_.sandboxes.room_to_grow(shelf->ready.front()->runner.sandbox_id, limits).has_value());
}

std::optional<Runner> RunnerPool::take(const Engine& engine, const sandbox::Limits& limits) {
    while (!closed_ && has(engine, limits)) {
        Shelf& shelf = *shelf_of(engine);
        const std::shared_ptr<Waiting> waiting = shelf.ready.front();
        shelf.ready.pop_front();
        arm(k_runner_refill_pause);
        const std::string& id = waiting->runner.sandbox_id;
        // The pool was not told yet of the end of a sandbox that is just ending.
        if (ports_.sandboxes.operations(id) == nullptr) {
            remove(waiting);
            continue;
        }
        // The kernel would refuse these limits for the next runner, too.
        if (limits != limits_ && !ports_.sandboxes.set_limits(id, limits)) {
            remove(waiting);
            return std::nullopt;
        }
        shelf.retry_pause = k_runner_first_retry;
        return std::move(waiting->runner);
    }
    return std::nullopt;
}

bool RunnerPool::can_shrink() const noexcept {
    return std::any_of(shelves_.begin(), shelves_.end(),
                       [](const auto& shelf) { return shelf->starting || !shelf->ready.empty(); });
}

sandbox::Places RunnerPool::held() const noexcept {
    std::size_t all = 0;
    for (const auto& shelf : shelves_)
        all += shelf->ready.size() + (shelf->starting ? 1 : 0);
    return {all, std::uint64_t{all} * limits_.memory_mb};
}

std::optional<std::string> RunnerPool::shrink(std::function<void()> free) {
    std::shared_ptr<Waiting> waiting;
    // A runner that is not ready is worth least.
    for (const auto& shelf : shelves_) {
        if (!waiting)
            waiting = std::exchange(shelf->starting, nullptr);
    }
    for (const auto& shelf : shelves_) {
        if (waiting || shelf->ready.empty())
            continue;
        waiting = shelf->ready.front();
        shelf->ready.pop_front();
    }
    if (!waiting)
        return std::nullopt;
    remove(waiting, std::move(free));
    if (!closed_) {
        ports_.timers.cancel(rest_);
        rest_ = ports_.timers.arm(k_runner_rest, [this] {
            rest_ = 0;
            arm(base::Millis{0});
        });
    }
    return waiting->runner.sandbox_id;
}

void RunnerPool::close() {
    closed_ = true;
    ports_.timers.cancel(std::exchange(timer_, 0));
    ports_.timers.cancel(std::exchange(rest_, 0));
    for (const auto& shelf : shelves_)
        ports_.timers.cancel(std::exchange(shelf->rest, 0));
    while (shrink()) {
    }
}

std::vector<RunnerPool::State> RunnerPool::states() const {
    std::vector<State> all;
    for (const auto& shelf : shelves_)
        all.push_back({shelf->engine->name, shelf->ready.size()});
    return all;
}

}  // namespace atl::execution
