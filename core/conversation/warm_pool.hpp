// Sandboxes that were started ahead: each with an id, a uid and a workspace of its own, and with the id that
// its conversation will have. A conversation claims one once, and it never comes back. A claimed sandbox is
// replaced in the background, one at a time. Internal to core/conversation.
//
// Invariants: nothing of the pool is in the store or claimed, so what a killed server leaves of it is removed
// like any half-made sandbox; a sandbox that is not exactly as it was started is never given out.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

class WarmPool {
  public:
    struct Claimed {
        std::string conversation_id;
        sandbox::Record sandbox_record;
    };
    using FindAgent = std::function<const sandbox::AgentSpec*(const std::string&)>;

    WarmPool(base::Timers& timers, sandbox::Manager& sandboxes, const std::vector<PoolSize>& sizes,
             FindAgent find_agent);
    ~WarmPool();
    WarmPool(const WarmPool&) = delete;
    WarmPool& operator=(const WarmPool&) = delete;

    /// Starts sandboxes that are missing, as far as the server's capacity goes. Cheap when none is missing.
    void fill();
    /// A ready sandbox for this request, if it asks for nothing that the pool's have not: env, limits,
    /// network.
    std::optional<Claimed> claim(const std::string& agent, const CreateRequest& request);
    bool can_shrink() const;
    /// Begins to remove a sandbox to make room for something else, and names it. Returns nothing where there
    /// is none.
    std::optional<std::string> shrink();
    /// The sandbox or its agent ended. Returns false where it is none of the pool's.
    bool lost(const std::string& sandbox_id);
    /// Removes all; nothing is started any more.
    void close();

    std::vector<PoolState> states() const;

  private:
    struct Shelf {
        std::string agent;
        std::size_t size = 0;
        std::deque<sandbox::Record> ready;  // the oldest first
        base::Millis retry_pause{};         // after the next failure; grows until one is claimed
        base::TimerId rest = 0;             // after a failure
    };

    void start_next();
    void start_one(Shelf& shelf, const sandbox::AgentSpec& spec);
    sandbox::Limits limits_of(const sandbox::AgentSpec& spec) const;
    void on_started(const std::string& agent, const std::string& id, const base::Result<void>& result);
    void wait_for_next(base::Millis pause);
    void on_failure(Shelf& shelf, const base::Error& error);
    bool is_full() const;
    Shelf* shelf_of(const std::string& agent);

    base::Timers& timers_;
    sandbox::Manager& sandboxes_;
    FindAgent find_agent_;
    std::vector<Shelf> shelves_;
    std::size_t next_ = 0;    // the shelf to look at first
    std::string starting_;    // the sandbox that is being started
    bool gives_way_ = false;  // the sandbox that is being started gives way
    bool claimed_ = false;    // since the last look at what is missing
    bool closed_ = false;
    base::TimerId timer_ = 0;
};

}  // namespace atl::conversation
