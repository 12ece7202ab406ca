#include "core/conversation/residents.hpp"

#include <algorithm>
#include <utility>

#include "core/conversation/journal.hpp"
#include "core/conversation/view.hpp"

namespace atl::conversation {
namespace {

constexpr base::Millis k_unload_interval{1000};
// The number of residents in a look by the timer, and in a look at each load. The latter is more than one: so
// the number of those that rest is bounded by the number of those that live, however many are named.
constexpr std::size_t k_residents_looked_at = 128;
constexpr std::size_t k_looked_at_by_load = 4;
// So many may be in memory before a load looks for some that rest.
constexpr std::size_t k_free = 64;

}  // namespace

Residents::~Residents() {
    context_.timers.cancel(timer_);
    *self_ = nullptr;
}

void Residents::add(std::shared_ptr<Conversation> conversation) {
    by_sandbox_.emplace(conversation->record().sandbox_id, conversation.get());
    ring_.push_back(conversation->id());
    const std::string id = conversation->id();
    by_id_.emplace(id, std::move(conversation));
    schedule_unload();
}

void Residents::remove(const Conversation& conversation) {
    by_sandbox_.erase(conversation.record().sandbox_id);
    const auto node = by_id_.extract(conversation.id());
    context_.timers.defer([gone = node.mapped()] {});
}

void Residents::erase(const Conversation& conversation) {
    erased_.insert(conversation.id());
    context_.journal.after_commit([self = self_, id = conversation.id()] {
        if (*self != nullptr)
            (*self)->erased_.erase(id);
    });
    remove(conversation);
}

Conversation* Residents::find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() || found->second->is_erasing() ? nullptr : found->second.get();
}

Conversation* Residents::find_by_sandbox(const std::string& sandbox_id) const {
    const auto found = by_sandbox_.find(sandbox_id);
    return found == by_sandbox_.end() ? nullptr : found->second;
}

void Residents::for_each(const std::function<void(Conversation&)>& call) const {
    for (const auto& [id, conversation] : by_id_)
        call(*conversation);
}

void Residents::get(const std::string& id, Found found) {
    if (is_loaded(id) || is_erased(id))
        return found(find(id));
    auto& waiting = loading_[id];
    waiting.push_back(std::move(found));
    if (waiting.size() > 1)
        return;
    context_.store.load(id, [self = self_, id](base::Result<std::optional<StoredConversation>> stored) {
        if (*self != nullptr)
            (*self)->on_loaded(id, std::move(stored));
    });
}

void Residents::show(const std::string& id, ReadDone<std::optional<View>> done) const {
    if (is_loaded(id) || is_erased(id)) {
        const Conversation* const found = find(id);
        return done(found == nullptr ? std::nullopt : std::optional(found->view()));
    }
    context_.store.find_conversation(
        id, [self = self_, id, done](base::Result<std::optional<ListedConversation>> stored) {
            if (*self == nullptr)
                return;
            const Residents& now = **self;
            // It was loaded or removed while the store was asked.
            if (now.is_loaded(id) || now.is_erased(id))
                return now.show(id, done);
            if (!stored)
                return done(stored.error());
            std::optional<View> view;
            if (*stored)
                view = view_of(now.context_, std::move((*stored)->record), (*stored)->sandbox);
            done(std::move(view));
        });
}

void Residents::on_loaded(const std::string& id, base::Result<std::optional<StoredConversation>> stored) {
    const auto waiting = loading_.extract(id);
    if (stored && *stored) {
        actions_.load(std::move(**stored));
        if (by_id_.size() > k_free)
            unload_some(k_looked_at_by_load);
    }
    for (const Found& found : waiting.mapped())
        stored ? found(find(id)) : found(stored.error());
}

void Residents::unload_some(std::size_t looked_at) {
    for (std::size_t left = std::min(looked_at, ring_.size()); left > 0; --left) {
        std::string id = std::move(ring_.front());
        ring_.pop_front();
        const auto resident = by_id_.find(id);
        if (resident == by_id_.end())
            continue;
        if (resident->second->is_resting())
            actions_.unload(*resident->second);
        else
            ring_.push_back(std::move(id));
    }
}

void Residents::schedule_unload() {
    to_look_at_ = ring_.size();
    if (timer_ == 0)
        timer_ = context_.timers.arm(k_unload_interval, [this] {
            timer_ = 0;
            look();
        });
}

void Residents::look() {
    const std::size_t looked_at = std::min(k_residents_looked_at, to_look_at_);
    const std::size_t left = to_look_at_ - looked_at;
    unload_some(looked_at);
    // A conversation with uncommitted writes does not rest yet.
    if (!context_.journal.idle())
        return schedule_unload();
    if (left == 0)
        return;
    schedule_unload();
    to_look_at_ = left;
}

}  // namespace atl::conversation
