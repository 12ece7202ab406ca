#include "core/conversation/user_erasure.hpp"

#include <utility>

#include "core/sandbox/manager.hpp"

namespace atl::conversation {
namespace {

constexpr std::size_t k_removed_at_once = 32;

}  // namespace

UserErasure::UserErasure(UserThings things, std::shared_ptr<Manager*> alive, Context& context,
                         std::string user_id, Reply<ErasedUser> reply)
    : things_(std::move(things)), alive_(std::move(alive)), context_(context), reply_(std::move(reply)) {
    conversations_.filter.user_id = user_id;
    conversations_.limit = k_removed_at_once;
    sandboxes_.user_id = std::move(user_id);
    sandboxes_.limit = k_removed_at_once;
}

void UserErasure::go_on(void (UserErasure::*step)()) {
    context_.timers.defer([self = shared_from_this(), step] {
        if (*self->alive_ != nullptr)
            ((*self).*step)();
    });
}

// Starting sandboxes are removed first, before they are up: from then on the store lists them.
void UserErasure::remove_starting() {
    std::vector<Thing> found;
    for (const std::string& id : things_.starting_sandboxes)
        found.push_back({id, id});
    remove_all(found, erased_.sandboxes, things_.remove_starting, &UserErasure::look_for_conversations);
}

void UserErasure::look_for_conversations() {
    things_.list(conversations_, [self = shared_from_this()](base::Result<Page<View>> page) {
        if (!page)
            return self->on_unread(page.error(), &UserErasure::look_for_conversations);
        self->conversations_.cursor = page->next;
        std::vector<Thing> found;
        for (const View& view : page->items) {
            // Conversations that are made from now on do not belong to this request.
            if (view.record.key <= self->things_.last_key)
                found.push_back({view.record.id, view.record.sandbox_id});
        }
        const auto then =
            page->next.empty() ? &UserErasure::look_for_sandboxes : &UserErasure::look_for_conversations;
        self->remove_all(found, self->erased_.conversations, self->things_.remove, then);
    });
}

void UserErasure::look_for_sandboxes() {
    things_.list_sandboxes(sandboxes_, [self = shared_from_this()](base::Result<Page<SandboxView>> page) {
        if (!page)
            return self->on_unread(page.error(), &UserErasure::look_for_sandboxes);
        self->sandboxes_.cursor = page->next;
        std::vector<Thing> found;
        for (const SandboxView& view : page->items) {
            if (view.record.conversation_id.empty())
                found.push_back({view.record.id, view.record.id});
        }
        const auto then = page->next.empty() ? &UserErasure::remove_rest : &UserErasure::look_for_sandboxes;
        self->remove_all(found, self->erased_.sandboxes, self->things_.remove_sandbox, then);
    });
}

void UserErasure::remove_all(const std::vector<Thing>& things, std::size_t& removed, const Remove& remove,
                             void (UserErasure::*then)()) {
    removing_ = things.size();
    if (things.empty())
        return go_on(then);
    for (const Thing& thing : things) {
        remove(thing.id, [self = shared_from_this(), &removed, sandbox_id = thing.sandbox_id,
                          then](const base::Result<void>& gone) {
            if (*self->alive_ == nullptr)
                return;
            if (gone) {
                ++removed;
                self->context_.sandboxes.drop_log(sandbox_id);
            } else {
                self->note(gone.error());
            }
            if (--self->removing_ == 0)
                self->go_on(then);
        });
    }
}

void UserErasure::on_unread(const base::Error& error, void (UserErasure::*step)()) {
    if (error.code() != base::Errc::too_many_requests)
        return reply_(error);
    context_.timers.arm(std::chrono::seconds(1), [self = shared_from_this(), step] {
        if (*self->alive_ != nullptr)
            ((*self).*step)();
    });
}

void UserErasure::note(const base::Error& error) {
    // Another request removes it.
    if (error.code() != base::Errc::not_found && !failure_)
        failure_ = error;
}

void UserErasure::remove_rest() {
    auto one_is_gone = [self = shared_from_this()](const base::Result<void>& gone) {
        if (!gone)
            self->note(gone.error());
        self->go_on(&UserErasure::remove_rest);
    };
    if (!failure_ && things_.remove_rest(*sandboxes_.user_id, std::move(one_is_gone)))
        return;
    context_.sandboxes.drop_logs_of(*sandboxes_.user_id);
    if (failure_)
        return reply_(*failure_);
    reply_(erased_);
}

}  // namespace atl::conversation
