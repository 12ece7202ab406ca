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
    /// `room`: whether there may be one more of all. Errors: capacity.
    StandaloneSandboxes(Context& context, Admission& admission, std::function<base::Result<void>()> room)
        : context_(context), admission_(admission), room_(std::move(room)) {}
    ~StandaloneSandboxes() { *self_ = nullptr; }
    StandaloneSandboxes(const StandaloneSandboxes&) = delete;
    StandaloneSandboxes& operator=(const StandaloneSandboxes&) = delete;

    void create(SandboxRequest request, Reply<SandboxView> reply);
    void get(const std::string& id, Reply<SandboxView> reply) const;
    void preview(const std::string& id, Reply<PreviewView> reply) const;
    void list(const SandboxQuery& query, Reply<Page<SandboxView>> reply) const;
    /// Limits as Manager::set_limits() of sandboxes. Errors: not_found; sandbox_in_use for one of a
    /// conversation; invalid_field for what only a start sets; capacity; host_unsupported where the kernel
    /// refuses the limits, which then stay as they were; storage_failed.
    void patch(const std::string& id, const SandboxPatch& patch, Reply<SandboxView> reply);
    /// `why` is told to those who work in it.
    void remove(const std::string& id, Reply<void> reply, std::string why = "the sandbox was deleted");
    /// Those of a user that a create is still to answer: no list has them.
    std::vector<std::string> starting_of(const std::string& user_id) const;
    /// Ends the start of one of these: its create is answered with sandbox_gone. `reply` once it is removed.
    void remove_starting(const std::string& id, Reply<void> reply);
    void usage(const std::string& id, Reply<SandboxUsage> reply) const;
    void log(const std::string& id, std::uint64_t after, std::optional<sandbox::LogStream> only,
             Reply<sandbox::LogPage> reply) const;

    /// A lease on one without a conversation. It lives anyway, until it ends; then all its leases do. `reply`
    /// once, from the loop. Errors: not_found, sandbox_gone.
    void lease(const std::string& id, LeaseUse use, LeaseReply reply);
    void on_exit(const std::string& id, const sandbox::Exit& exit);
    void server_stops();

    /// Those without a conversation that are there or being made.
    std::size_t count() const noexcept { return count_; }

    /// One without a conversation that the store remembers.
    void adopt(const sandbox::Record& record);

  private:
    /// All of them or none. Errors: host_unsupported.
    base::Result<void> set_limits(const std::string& id, sandbox::Limits from, const sandbox::Limits& to);
    /// Tells that a sandbox is none of those without a conversation: it is not there, or in use.
    void refuse_foreign(const std::string& id, std::function<void(base::Error)> reply) const;
    /// Null if it is none of those without a conversation.
    const sandbox::Record* find(const std::string& id) const;
    void enlist(const sandbox::Record& record);
    base::Result<void> check(const SandboxRequest& request) const;
    void count(const std::optional<std::string>& user_id);
    void uncount(const std::optional<std::string>& user_id);
    void arm_time_to_live(const sandbox::Record& record);
    void end_leases(const std::string& id, const base::Error& why);
    /// Answers once with how it is, when all that was added so far is committed, after `committed`; or with
    /// what `refused` makes, when the store takes no writes for Journal::k_answer_deadline.
    void show_after_commit(const std::string& id, Reply<SandboxView> reply, std::function<void()> committed,
                           std::function<base::Error()> refused);

    Context& context_;
    Admission& admission_;
    std::function<base::Result<void>()> room_;
    std::size_t count_ = 0;
    std::unordered_map<std::string, std::size_t> of_user_;                  // how many there are; no zero
    std::unordered_map<std::string, std::optional<std::string>> starting_;  // the user; until it is committed
    std::unordered_map<std::string, base::TimerId> own_;  // and the timer of its end; 0: none
    std::unordered_map<std::string, LeaseTable> leases_;
    /// Null inside once it is destroyed: an answer of the store may come after that.
    std::shared_ptr<StandaloneSandboxes*> self_ = std::make_shared<StandaloneSandboxes*>(this);
};

}  // namespace atl::conversation
