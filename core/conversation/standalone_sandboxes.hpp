// Sandboxes without a conversation: made, kept in the store, listed, removed, ended when their time is up.
// Listing and looking up also cover those that belong to conversations. Internal to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/leases.hpp"
#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"
#include "core/sandbox/sandbox_logs.hpp"

namespace atl::conversation {

class StandaloneSandboxes {
  public:
    /// `room` succeeds if there may be one more of all. Errors: capacity.
    StandaloneSandboxes(Context& context, Admission& admission, std::function<base::Result<void>()> room)
        : context_(context), admission_(admission), room_(std::move(room)) {}
    ~StandaloneSandboxes() { *self_ = nullptr; }
    StandaloneSandboxes(const StandaloneSandboxes&) = delete;
    StandaloneSandboxes& operator=(const StandaloneSandboxes&) = delete;

    void create(SandboxRequest request, Reply<SandboxView> reply);
    void get(const std::string& id, Reply<SandboxView> reply) const;
    void preview(const std::string& id, Reply<PreviewView> reply) const;
    void list(const SandboxQuery& query, Reply<Page<SandboxView>> reply) const;
    /// Changes a sandbox. Limits are as for Manager::set_limits() of sandboxes. Errors: not_found;
    /// sandbox_in_use for a sandbox of a conversation; invalid_field for a limit that only a start sets;
    /// capacity; host_unsupported where the kernel refuses the limits, which then stay as they were;
    /// storage_failed.
    void patch(const std::string& id, const SandboxPatch& patch, Reply<SandboxView> reply);
    /// Ends the sandbox. `why` is told to the requests that work in it.
    void remove(const std::string& id, Reply<void> reply, std::string why = "the sandbox was deleted");
    /// The sandboxes of a user whose create is not answered yet: no list has them.
    std::vector<std::string> starting_of(const std::string& user_id) const;
    /// Ends the start of such a sandbox: its create is answered with sandbox_gone. Calls `reply` once it is
    /// removed.
    void remove_starting(const std::string& id, Reply<void> reply);
    void usage(const std::string& id, Reply<SandboxUsage> reply) const;
    void log(const std::string& id, std::uint64_t after, std::optional<sandbox::LogStream> only,
             Reply<sandbox::LogPage> reply) const;

    /// Makes a lease on a sandbox without a conversation. The sandbox lives anyway, until it ends; then all
    /// its leases end. Calls `reply` once, from the loop. Errors: not_found, sandbox_gone.
    void lease(const std::string& id, LeaseUse use, LeaseReply reply);
    void on_exit(const std::string& id, const sandbox::Exit& exit);
    void server_stops();

    /// The number of sandboxes without a conversation that are there or being made.
    std::size_t count() const noexcept { return count_; }

    /// Takes over a sandbox without a conversation that the store remembers.
    void adopt(const sandbox::Record& record);

  private:
    /// Sets all limits or none. Errors: host_unsupported.
    base::Result<void> set_limits(const std::string& id, sandbox::Limits from, const sandbox::Limits& to);
    /// Refuses an id that names no sandbox without a conversation: there is no such sandbox, or it is in use.
    void refuse_foreign(const std::string& id, std::function<void(base::Error)> reply) const;
    /// The record of a sandbox without a conversation, or null where the id names another thing.
    const sandbox::Record* find(const std::string& id) const;
    void enlist(const sandbox::Record& record);
    base::Result<void> check(const SandboxRequest& request) const;
    void count(const std::optional<std::string>& user_id);
    void uncount(const std::optional<std::string>& user_id);
    void arm_time_to_live(const sandbox::Record& record);
    void end_leases(const std::string& id, const base::Error& why);
    /// Answers once with the present view, when all that was added so far is committed, after `committed`.
    /// Answers with the error of `refused` when the store takes no writes for Journal::k_answer_deadline.
    void show_after_commit(const std::string& id, Reply<SandboxView> reply, std::function<void()> committed,
                           std::function<base::Error()> refused);

    Context& context_;
    Admission& admission_;
    std::function<base::Result<void>()> room_;
    std::size_t count_ = 0;
    std::unordered_map<std::string, std::size_t> of_user_;  // the number of each user; no zero
    std::unordered_map<std::string, std::optional<std::string>> starting_;  // the user; until it is committed
    std::unordered_map<std::string, base::TimerId> own_;  // and the timer of its end; 0: none
    std::unordered_map<std::string, LeaseTable> leases_;
    /// Null inside once it is destroyed: an answer of the store may come after that.
    std::shared_ptr<StandaloneSandboxes*> self_ = std::make_shared<StandaloneSandboxes*>(this);
};

}  // namespace atl::conversation
