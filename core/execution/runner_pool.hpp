// Engines that were started ahead, each in a sandbox of its own: a run that gets one starts in a few
// milliseconds. One is given to one run and never comes back. What is missing is started in the background,
// one of each engine at a time, while fewer runs are under way than may be.
//
// Invariants: what is taken is ready and was told nothing; each counts as a living sandbox, and goes first
// where somebody else needs its place. Not here: what a run is (execution.hpp). Internal to core/execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "core/execution/engine.hpp"
#include "core/execution/program.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::execution {

struct RunnerPoolSize {
    enum class From : std::uint8_t { start, first_run };  // on this engine
    std::string executor;                                 // `auto`: what that chooses for JavaScript
    std::size_t size = 0;
    From from = From::start;
};

/// An engine that waits for its program. Whoever has it removes the sandbox.
struct Runner {
    std::string sandbox_id;
    std::unique_ptr<Program> program;
    std::shared_ptr<std::function<void(const sandbox::Exit&)>> on_exit;  // who is told of the sandbox's end
};

class RunnerPool {
  public:
    struct Ports {
        base::Timers& timers;
        sandbox::Manager& sandboxes;
        Programs& programs;
        /// Tells if a sandbox may start now, with nobody ended for it.
        std::function<base::Result<void>(const sandbox::Demand&)> room;
        /// True while as many runs are under way as may be: they go first.
        std::function<bool()> is_busy;
        /// How a runner of this engine ended before it was ready, without having reached a limit; empty: one
        /// is ready.
        std::function<void(const Engine&, std::string_view)> on_start;
    };
    struct State {
        std::string executor;
        std::size_t ready = 0;
    };

    /// Engines outlive the pool. An unknown or unavailable engine has no pool; one that is named twice has
    /// the larger.
    RunnerPool(Ports ports, const Engines& engines, std::vector<RunnerPoolSize> sizes,
               sandbox::Limits limits);
    ~RunnerPool();
    RunnerPool(const RunnerPool&) = delete;
    RunnerPool& operator=(const RunnerPool&) = delete;

    /// Begins to start those that do not wait for a first run.
    void open();
    /// More of the engines are available: those of the sizes have their pools from now on, too.
    void extend(const Engines& engines);
    /// A run on this engine begins.
    void note_run(const Engine& engine);
    /// True if take() would give a runner.
    bool has(const Engine& engine, const sandbox::Limits& limits) const;
    /// Takes a runner that is ready and gives it these limits. None: there is none that can have them.
    std::optional<Runner> take(const Engine& engine, const sandbox::Limits& limits);
    bool can_shrink() const noexcept;
    /// Capacity held by the runners that shrink() can remove.
    sandbox::Places held() const noexcept;
    /// Begins to remove one to make room for something else, and names it. Calls `free` once: in the moment
    /// in which its place is free, before anybody else is told of it, or after
    /// base::k_removal_answer_deadline. None: there is none, and `free` is not called.
    std::optional<std::string> shrink(std::function<void()> free = nullptr);
    /// Removes all; nothing is started any more.
    void close();

    std::vector<State> states() const;

  private:
    class Waiting;
    struct Shelf {
        const Engine* engine = nullptr;
        std::size_t size = 0;
        bool is_open = false;
        std::deque<std::shared_ptr<Waiting>> ready;  // the oldest first
        base::Millis retry_pause{};                  // after the next failure; grows until one is taken
        base::TimerId rest = 0;                      // after a failure
        std::shared_ptr<Waiting> starting;           // one at a time

        bool is_missing_one() const noexcept {
            return is_open && rest == 0 && !starting && ready.size() < size;
        }
    };

    Shelf* shelf_of(const Engine& engine) const;
    void add_shelves(const Engines& engines);
    void arm(base::Millis pause);
    void start_next();
    void start_one(Shelf& shelf);
    void on_sandbox_ready(Waiting& waiting, const base::Result<void>& result);
    void on_engine_ready(Waiting& waiting);
    void on_engine_broken(Waiting& waiting, const std::string& why);
    void lose(Waiting& waiting, const std::string& why);
    void fail(Shelf& shelf, const std::string& why);
    bool is_short() const;
    void remove(const std::shared_ptr<Waiting>& waiting, std::function<void()> free = nullptr);

    Ports ports_;
    const std::vector<RunnerPoolSize> sizes_;
    const sandbox::Limits limits_;
    std::vector<std::unique_ptr<Shelf>> shelves_;
    base::TimerId timer_ = 0;
    base::TimerId rest_ = 0;  // after one gave way
    bool closed_ = false;
};

}  // namespace atl::execution
