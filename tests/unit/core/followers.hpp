// Clients that follow conversations of a simulated world across reconnects and servers. Each checks that it
// is told every event of its log once, in order, and none before its commit.
#pragma once

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/conversation/manager.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test {

class Followers {
  public:
    explicit Followers(FakeWorld& world) : world_(world) {}

    void add(const conversation::Record& record) {
        followers_.push_back({record.id, record.key, 0, nullptr, std::make_shared<bool>(false)});
    }
    /// Every follower reads when it is woken, sometimes also without.
    void read(conversation::Manager& conversations) {
        for (std::size_t at = 0; at < followers_.size(); ++at) {
            Follower& follower = followers_[at];
            // Some stay away for a while: only what nobody follows is unloaded.
            if (!follower.subscription && !follower.is_asking && !follower.is_over && !away_ &&
                (stay_ || world_.chance(300)))
                subscribe(at, conversations);
            if (follower.subscription && (*follower.woken || (!stay_ && world_.chance(100))))
                read(follower);
        }
    }
    /// All connections end; so does what was asked of the server.
    void leave() {
        for (auto& follower : followers_) {
            leave(follower);
            follower.is_asking = false;
            follower.is_over = false;  // a deletion that was not committed is undone
        }
    }
    /// Nobody follows from now on.
    void go_away() {
        away_ = true;
        for (auto& follower : followers_)
            follower.subscription.reset();
    }
    /// From now on no connection ends, and all wait to be woken.
    void stay() { stay_ = true; }
    void check_all_was_told() const {
        for (const auto& follower : followers_) {
            if (!follower.subscription || !world_.store.conversations.contains(follower.key))
                continue;
            const auto last = std::prev(world_.store.events.lower_bound({follower.key + 1, 0}));
            require(follower.cursor == last->first.second, "a follower was not told everything");
        }
    }
    /// How often the store had not answered yet.
    std::size_t late_reads() const noexcept { return late_reads_; }

  private:
    struct Follower {
        std::string id;
        std::int64_t key;
        std::uint64_t cursor;
        std::unique_ptr<conversation::Subscription> subscription;
        std::shared_ptr<bool> woken;
        bool is_asking = false;  // for a subscription
        bool is_over = false;    // the conversation is gone
    };

    /// The answer may come later: the conversation may have to be loaded.
    void subscribe(std::size_t at, conversation::Manager& conversations) {
        using Subscription = std::unique_ptr<conversation::Subscription>;
        followers_[at].is_asking = true;
        conversations.subscribe(
            followers_[at].id, {followers_[at].cursor, {}},
            [this, at](base::Result<Subscription> subscription) {
                Follower& follower = followers_[at];
                follower.is_asking = false;
                if (!subscription) {
                    const auto code = subscription.error().code();
                    require(code == base::Errc::not_found || code == base::Errc::seq_expired,
                            "a reconnect was refused: " + subscription.error().detail());
                    follower.is_over = code == base::Errc::not_found;
                    if (code == base::Errc::seq_expired)
                        follower.cursor = 0;
                } else if (!away_) {
                    follower.subscription = std::move(*subscription);
                    *follower.woken = true;
                    follower.subscription->on_wake([woken = follower.woken] { *woken = true; });
                }
            });
    }

    void read(Follower& follower) {
        const auto batch = follower.subscription->next(world_.chance(500) ? 1 : 100'000);
        if (!batch) {
            require(batch.error().code() == base::Errc::seq_expired,
                    "reading failed: " + batch.error().detail());
            follower.subscription.reset();
            follower.cursor = 0;
            return;
        }
        *follower.woken = !batch->events.empty();
        if (batch->reading)
            ++late_reads_;
        for (const auto& event : batch->events) {
            const bool next = event->seq == follower.cursor + 1;
            require(next || follower.cursor == 0, "an event was lost or doubled");
            require(world_.store.events.contains({follower.key, event->seq}) || batch->gone ||
                        !world_.store.conversations.contains(follower.key) ||
                        event->seq < world_.store.conversations[follower.key].first_seq,
                    "an event was told before it was committed");
            follower.cursor = event->seq;
        }
        if (batch->gone)
            follower.subscription.reset();
        else if (!stay_ && world_.chance(50))
            leave(follower);
    }

    /// The client comes back, or one that wants the whole log.
    void leave(Follower& follower) {
        follower.subscription.reset();
        if (world_.chance(500))
            follower.cursor = 0;
    }

    FakeWorld& world_;
    std::vector<Follower> followers_;
    bool stay_ = false;
    bool away_ = false;
    std::size_t late_reads_ = 0;
};

}  // namespace atl::test
