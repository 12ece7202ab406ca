#include "core/conversation/permissions.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/plain/operation_limits.hpp"

namespace atl::conversation {
namespace {

using Json = nlohmann::json;
using Decision = PermissionDecision;

std::string string_in(const Json& object, const char* name) {
    if (!object.is_object())
        return {};
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The first option of the first of these kinds that there is.
const PermissionRequest::Option* option_of(const PermissionRequest& request,
                                           std::initializer_list<std::string_view> kinds) {
    for (const std::string_view kind : kinds) {
        const auto found = std::find_if(request.options.begin(), request.options.end(),
                                        [kind](const auto& option) { return option.kind == kind; });
        if (found != request.options.end())
            return &*found;
    }
    return nullptr;
}

}  // namespace

PermissionRequest parse_permission_request(std::string_view data) {
    const Json json = Json::parse(data, nullptr, false);
    PermissionRequest request;
    request.id = string_in(json, "id");
    const auto options = json.is_object() ? json.find("options") : json.end();
    if (options == json.end() || !options->is_array())
        return request;
    for (const Json& item : *options) {
        PermissionRequest::Option option{string_in(item, "optionId"), string_in(item, "kind")};
        if (!option.id.empty() && option.id.size() <= base::k_max_permission_id_bytes &&
            !option.kind.empty() && request.options.size() < base::k_max_permission_options)
            request.options.push_back(std::move(option));
    }
    return request;
}

std::string_view to_string(Decision::Outcome outcome) noexcept {
    switch (outcome) {
        case Decision::Outcome::allowed:
            return "allowed";
        case Decision::Outcome::denied:
            return "denied";
        case Decision::Outcome::cancelled:
            break;
    }
    return "cancelled";
}

std::string_view to_string(Decision::Reason reason) noexcept {
    switch (reason) {
        case Decision::Reason::answered:
            return "answered";
        case Decision::Reason::policy:
            return "policy";
        case Decision::Reason::timeout:
            return "timeout";
        case Decision::Reason::unattended:
            return "unattended";
        case Decision::Reason::withdrawn:
            return "withdrawn";
        case Decision::Reason::turn_ended:
            break;
    }
    return "turn_ended";
}

void Permissions::decide(const PermissionRequest& request, const PermissionRequest::Option* option,
                         Decision::Outcome otherwise, Decision::Reason reason) {
    Decision decision{request.id, otherwise, reason, {}};
    if (option != nullptr) {
        decision.outcome = option->allows() ? Decision::Outcome::allowed : Decision::Outcome::denied;
        decision.option_id = option->id;
    }
    decided_(decision);
}

/// An agent that has no option for it is told that its request is cancelled.
void Permissions::deny(const PermissionRequest& request, Decision::Reason reason) {
    decide(request, option_of(request, {"reject_once", "reject_always"}), Decision::Outcome::denied, reason);
}

void Permissions::ask(PermissionRequest request, const sandbox::AgentSpec& agent, Attended attended) {
    if (request.id.empty() || request.id.size() > base::k_max_permission_id_bytes ||
        waiting_.contains(request.id))
        return;
    switch (agent.permissions) {
        case sandbox::PermissionPolicy::allow:
            return decide(request, option_of(request, {"allow_once", "allow_always"}),
                          Decision::Outcome::cancelled, Decision::Reason::policy);
        case sandbox::PermissionPolicy::deny:
            return deny(request, Decision::Reason::policy);
        case sandbox::PermissionPolicy::ask:
            break;
    }
    if (attended == Attended::no || waiting_.size() == base::k_max_open_permissions)
        return deny(request, Decision::Reason::unattended);
    const std::string id = request.id;
    Waiting& waiting = waiting_[id];
    waiting.request = std::move(request);
    waiting.timer = timers_.arm(agent.permission_timeout, [this, id] { time_out(id); });
}

void Permissions::time_out(const std::string& id) {
    const auto waiting = waiting_.extract(id);
    if (!waiting.empty())
        deny(waiting.mapped().request, Decision::Reason::timeout);
}

void Permissions::withdraw(const std::string& id) {
    const auto waiting = waiting_.extract(id);
    if (waiting.empty())
        return;
    timers_.cancel(waiting.mapped().timer);
    decide(waiting.mapped().request, nullptr, Decision::Outcome::cancelled, Decision::Reason::withdrawn);
}

base::Result<void> Permissions::answer(const std::string& id, const std::string& option_id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end())
        return base::Error(
            base::Errc::not_found,
            "no permission of this id waits for an answer: it was decided already, or its turn "
            "is over");
    const auto& options = found->second.request.options;
    const auto option =
        std::find_if(options.begin(), options.end(), [&](const auto& one) { return one.id == option_id; });
    if (!option_id.empty() && option == options.end())
        return base::Error(base::Errc::invalid_field, "`optionId` is none of the options of this permission");
    timers_.cancel(found->second.timer);
    const auto waiting = waiting_.extract(found);
    decide(waiting.mapped().request, option_id.empty() ? nullptr : &*option, Decision::Outcome::cancelled,
           Decision::Reason::answered);
    return {};
}

void Permissions::end_turn() {
    for (const auto& [id, waiting] : take_all())
        decide(waiting.request, nullptr, Decision::Outcome::cancelled, Decision::Reason::turn_ended);
}

void Permissions::leave_unattended() {
    for (const auto& [id, waiting] : take_all())
        deny(waiting.request, Decision::Reason::unattended);
}

std::map<std::string, Permissions::Waiting> Permissions::take_all() {
    auto all = std::exchange(waiting_, {});
    for (const auto& [id, waiting] : all)
        timers_.cancel(waiting.timer);
    return all;
}

}  // namespace atl::conversation
