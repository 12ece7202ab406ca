// A store that counts its operations and times its commits; it forwards every call to the store behind it.
#pragma once

#include <utility>

#include "core/base/counts_by.hpp"
#include "core/base/histogram.hpp"
#include "core/conversation/store.hpp"

namespace atl::store {

struct StoreStats {
    base::CountsBy<conversation::EventType> events;         // committed
    std::uint64_t event_bytes = 0;                          // of their text
    std::uint64_t refused_commits = 0;                      // and fenced ones
    base::Histogram commit_duration{base::k_stall_bounds};  // of durable ones, from the call to their end
};

class MeteredStore final : public conversation::Store {
  public:
    /// `store` outlives this. Destroyed only when no commit is under way, or when the loop has ended.
    explicit MeteredStore(conversation::Store& store) : store_(store) {}

    base::Result<void> usable() const override { return store_.usable(); }
    void commit(conversation::WriteBatchPtr batch, conversation::CommitDone done) override;
    base::Result<conversation::Purged> purge_log(std::int64_t key, std::uint64_t below_seq,
                                                 conversation::PurgeBound bound) override {
        return store_.purge_log(key, below_seq, bound);
    }
    void load_start(conversation::ReadDone<conversation::StartState> done) override {
        store_.load_start(std::move(done));
    }
    void load(const std::string& id,
              conversation::ReadDone<std::optional<conversation::StoredConversation>> done) override {
        store_.load(id, std::move(done));
    }
    void find_conversation(
        const std::string& id,
        conversation::ReadDone<std::optional<conversation::ListedConversation>> done) override {
        store_.find_conversation(id, std::move(done));
    }
    void find_created(const std::string& create_key,
                      conversation::ReadDone<std::optional<conversation::CreatedBefore>> done) override {
        store_.find_created(create_key, std::move(done));
    }
    void list(const conversation::ListRange& range,
              conversation::ReadDone<conversation::ConversationList> done) override {
        store_.list(range, std::move(done));
    }
    void list_sandboxes(const conversation::SandboxRange& range,
                        conversation::ReadDone<conversation::Listed<sandbox::Record>> done) override {
        store_.list_sandboxes(range, std::move(done));
    }
    void find_sandbox(const std::string& id,
                      conversation::ReadDone<std::optional<sandbox::Record>> done) override {
        store_.find_sandbox(id, std::move(done));
    }
    void count_open(const std::string& user_id, std::size_t limit,
                    conversation::ReadDone<std::size_t> done) override {
        store_.count_open(user_id, limit, std::move(done));
    }
    void find_ending(bool has_ended, std::size_t limit,
                     conversation::ReadDone<std::vector<conversation::Ending>> done) override {
        store_.find_ending(has_ended, limit, std::move(done));
    }
    void read_events(std::int64_t key, std::uint64_t after, std::size_t limit_bytes,
                     conversation::EventsRead done) override {
        store_.read_events(key, after, limit_bytes, std::move(done));
    }
    void find_turn(std::int64_t key, const std::string& idempotency_key,
                   conversation::TurnFound done) override {
        store_.find_turn(key, idempotency_key, std::move(done));
    }

    const StoreStats& stats() const noexcept { return stats_; }

  private:
    void count(const conversation::WriteBatch& batch);

    conversation::Store& store_;
    StoreStats stats_;
};

}  // namespace atl::store
