#include "core/conversation/keyed_creates.hpp"

#include <utility>

#include "core/conversation/digest.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::Result;

namespace {

Error reused() {
    return {Errc::idempotency_key_reused, "this Idempotency-Key was used for another create request"};
}

}  // namespace

void KeyedCreates::create(CreateRequest request, Reply<View> reply) {
    const std::string key = request.idempotency_key;
    std::string asked = digest(request.fingerprint);
    const auto running = running_.find(key);
    if (running != running_.end()) {
        if (running->second.digest != asked)
            return context_.timers.defer([reply = std::move(reply)] { reply(reused()); });
        return running->second.replies.push_back(std::move(reply));
    }
    running_[key] = {std::move(asked), {std::move(reply)}};
    auto look = [self = self_, request = std::move(request)](Result<std::optional<CreatedBefore>> found) {
        if (*self != nullptr)
            (*self)->on_looked_up(request, found);
    };
    context_.store.find_created(key, std::move(look));
}

void KeyedCreates::on_looked_up(CreateRequest request, const Result<std::optional<CreatedBefore>>& found) {
    const std::string key = request.idempotency_key;
    auto finish_later = [self = self_, key](const Result<View>& result) {
        if (*self != nullptr)
            (*self)->finish(key, result);
    };
    if (!found)
        return finish(key, found.error());
    if (!*found)
        return actions_.create(std::move(request), std::move(finish_later));
    if ((*found)->digest != running_.at(key).digest)
        return finish(key, reused());
    actions_.get((*found)->id, [finish_later](const Result<View>& view) {
        const bool is_going = !view && view.error().code() == Errc::not_found;
        finish_later(is_going ? Error(Errc::conversation_ended,
                                      "the conversation of this Idempotency-Key is being deleted; try again")
                              : view);
    });
}

void KeyedCreates::finish(const std::string& key, const Result<View>& result) {
    const auto replies = std::move(running_.at(key).replies);
    running_.erase(key);
    for (const Reply<View>& reply : replies)
        context_.timers.defer([reply, result] { reply(result); });
}

}  // namespace atl::conversation
