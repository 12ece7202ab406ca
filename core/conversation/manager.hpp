// Conversations: each is a log, a sandbox for life, and at most one open turn. Drives one pure Machine
// (machine.hpp) a conversation and performs its actions through sandbox::Manager, the journal and timers.
//
// Invariants: every turn that starts ends with exactly one `done`; nothing is told to a client before it is
// committed; whatever a sandbox does changes only its own conversation.
// Not here: HTTP forms, processes, SQL.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/conversation/roster.hpp"
#include "core/conversation/stats.hpp"
#include "core/conversation/subscription.hpp"
#include "core/conversation/types.hpp"
#include "core/sandbox/log_book.hpp"
#include "core/sandbox/types.hpp"

namespace atl::sandbox {
class Manager;
}

namespace atl::conversation {

class Journal;
class Store;
struct Snapshot;

/// The bounds of a conversation's log, in bytes of serialised events.
struct LogBounds {
    std::size_t turn_bytes = base::k_max_turn_log_bytes;
    std::size_t conversation_bytes = base::k_max_conversation_log_bytes;
};

/// How many sandboxes of an agent are started ahead.
struct PoolSize {
    std::string agent;
    std::size_t size = 0;
};

struct PoolState {
    std::string agent;
    std::size_t size = 0;
    std::size_t ready = 0;  // to be claimed now
};

struct ManagerSettings {
    std::vector<sandbox::AgentSpec> agents;  // shell and echo among them
    std::string default_agent = "shell";
    bool allow_host_network = false;
    ConversationBounds conversation_bounds;
    std::chrono::seconds keep_ended = base::k_default_keep_ended;  // one whose time to live is over
    LogBounds log_bounds;
    base::Millis turn_limit = base::k_default_turn_limit;
    std::vector<PoolSize> pool;                            // of `agents`, each once
    base::Millis warm_limit = base::k_default_warm_limit;  // of a warm pause; 0: all pauses are cold
    base::Millis evict_idle = base::k_default_evict_idle;  // before a sandbox may be ended for another one
};

/// A page of a list; `next` is empty at the end.
template <class T>
struct Page {
    std::vector<T> items;
    std::string next;
};

/// The order of a list, by when a conversation was created.
enum class ListOrder : std::uint8_t { oldest_first, newest_first };

struct ListQuery {
    std::optional<Status> status;
    std::optional<std::string> user_id;
    std::size_t limit = base::k_default_page_items;
    std::string cursor;  // as a page's `next` of the same order gave it
    ListOrder order = ListOrder::oldest_first;
};

class Manager {
  public:
    template <class T>
    using Reply = std::function<void(base::Result<T>)>;

    Manager(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes, Journal& journal,
            Store& store, ManagerSettings settings);
    ~Manager();
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Takes over what the store remembers, as it was loaded: conversations come back paused
    /// (server_restart), open turns get their error and their done, sandboxes nobody owns are given to
    /// sandbox::Manager. Call once, first.
    base::Result<void> restore(Snapshot snapshot);
    /// Starts sandboxes ahead from now on, as the settings say.
    void open_pool();

    /// `reply` once: the conversation when its sandbox is ready and that is committed; otherwise nothing is
    /// left.
    void create(CreateRequest request, Reply<View> reply);
    base::Result<View> get(const std::string& id) const;
    /// A page may have fewer items than its bound, or none, and still a `next`: one call looks at a bounded
    /// number of conversations.
    base::Result<Page<View>> list(const ListQuery& query) const;
    /// `reply` once the change is committed.
    void patch(const std::string& id, const PatchRequest& patch, Reply<View> reply);
    /// `reply` when sandbox, workspace and log are gone.
    void remove(const std::string& id, Reply<void> reply);

    /// When the reply to a message is given.
    enum class MessageReply : std::uint8_t {
        committed,  // the turn will be there whatever happens now
        at_once,    // for who tells nobody of the turn before its first event, which comes after a commit;
                    // possibly from inside the call
    };
    /// Starts a turn; resumes a paused conversation first, which the turn waits for. `reply` once.
    /// `idempotency_key` may be empty; with one the turn is committed before the agent hears of it, so that a
    /// retry cannot run it twice. Errors: not_found, turn_in_progress,
    /// conversation_ended, conversation_starting, idempotency_key_reused, storage_failed, shutting_down.
    void message(const std::string& id, std::string content, std::string idempotency_key, MessageReply when,
                 Reply<TurnTicket> reply);
    /// Asks the agent to stop the open turn, which ends as every turn does. Errors: not_found, no_turn.
    base::Result<View> interrupt(const std::string& id);
    /// Cold: ends the sandbox and keeps the workspace; an open turn ends first. Warm: freezes the sandbox,
    /// which is ended after the warm limit; cold where this host or the server's settings allow no warm
    /// pause, or the sandbox is not up. `reply` when it is paused. Errors: not_found, conversation_ended,
    /// turn_in_progress (warm only).
    void pause(const std::string& id, PauseMode mode, Reply<View> reply);
    /// Lets the sandbox go on, or starts it again; `reply` when it is ready.
    void resume(const std::string& id, Reply<View> reply);

    /// Errors: not_found; seq_expired if `after` lies before the log's beginning and is not 0.
    base::Result<std::unique_ptr<Subscription>> subscribe(const std::string& id, std::uint64_t after);

    /// Sandboxes without a conversation.
    struct SandboxRequest {
        std::string metadata = "{}";
        sandbox::Environment env;
        sandbox::Limits limits;
        sandbox::NetworkMode network = sandbox::NetworkMode::none;
        std::optional<std::uint32_t> ttl_seconds;
    };
    /// A sandbox as the API shows it; `conversation_id` is empty without one.
    struct SandboxView {
        sandbox::Record record;
        sandbox::Status status = sandbox::Status::pending;
        sandbox::Enforcement enforcement;
    };
    /// What a sandbox uses now; empty is what is not known.
    struct SandboxUsage {
        SandboxView view;
        base::WallTime at{};
        std::uint32_t memory_limit_mb = 0;  // of the living generation, else of the next
        sandbox::Usage usage;
        std::optional<sandbox::DiskUsage> disk;
    };
    void create_sandbox(SandboxRequest request, Reply<SandboxView> reply);
    base::Result<SandboxView> get_sandbox(const std::string& id) const;
    base::Result<Page<SandboxView>> list_sandboxes(std::size_t limit, const std::string& cursor) const;
    /// Errors: not_found.
    base::Result<SandboxUsage> sandbox_usage(const std::string& id) const;
    /// Of a sandbox that is there, or is gone and not yet forgotten. Errors: not_found.
    base::Result<sandbox::LogPage> sandbox_log(const std::string& id, std::uint64_t after,
                                               std::optional<sandbox::LogStream> only) const;
    /// Refused for a sandbox that belongs to a conversation (invalid_request): that is deleted instead.
    void remove_sandbox(const std::string& id, Reply<void> reply);

    /// Whether new work is accepted now. Errors: shutting_down, storage_failed.
    base::Result<void> ready() const;
    /// Ends open turns and all sandboxes, commits, then calls `done`. New work is refused from now on.
    void shut_down(std::function<void()> done);

    /// Conversations that have not ended, and sandboxes without one: what the bound of all counts.
    std::size_t count() const noexcept;
    const ConversationBounds& bounds() const noexcept;
    const std::vector<sandbox::AgentSpec>& agents() const noexcept;
    /// Of a sandbox whose request names no limits.
    const sandbox::Limits& default_limits() const noexcept;
    std::vector<PoolState> pool() const;
    const Stats& stats() const noexcept;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atl::conversation
