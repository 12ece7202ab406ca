#include "http/api/leased_sandbox.hpp"

#include <optional>
#include <utility>

#include "core/conversation/end_cause.hpp"

namespace atl::http {

using base::Errc;
using LeasePtr = std::unique_ptr<conversation::Lease>;

base::Task<base::Result<LeasePtr>> async_lease(Api& api, RequestContext& context,
                                               const std::string& sandbox_id, conversation::LeaseUse use) {
    auto start = [&](conversation::Reply<LeasePtr> reply) {
        api.conversations.lease(sandbox_id, use, std::move(reply));
    };
    co_return co_await context.async_reply<LeasePtr>(start);
}

base::Task<base::Result<base::ShareHolder>> async_holder(Api& api, RequestContext& context,
                                                         const std::string& sandbox_id) {
    // The route's guard has compared the owner with the key's user.
    if (context.principal.user_id)
        co_return base::ShareHolder::user(*context.principal.user_id);
    using Owner = std::optional<std::string>;
    auto look = [&](conversation::Reply<Owner> reply) {
        api.conversations.owner_of(sandbox_id, std::move(reply));
    };
    const auto owner = co_await context.async_reply<Owner>(look);
    if (owner.has_error())
        co_return owner.error();
    co_return base::ShareHolder::owner(*owner, sandbox_id);
}

base::Result<sandbox::Operations*> operations_of(Api& api, const conversation::Lease& lease) {
    if (!lease.is_held())
        return lease.why();
    sandbox::Operations* const operations = api.conversations.operations(lease);
    if (operations == nullptr)
        return api.conversations.end_of(lease);
    return operations;
}

base::Task<base::Error> async_cause(Api& api, RequestContext& context, conversation::Lease& lease,
                                    base::Error error) {
    std::optional<conversation::EndCause> cause;
    auto wait = [&](conversation::Reply<void> reply) {
        cause.emplace(lease, api.conversations.timers(), std::move(reply));
        cause->met(error);
    };
    const auto known = co_await context.async_reply<void>(wait);
    co_return known.error();
}

base::Task<base::Result<Response>> async_refuse_program(Api& api, RequestContext& context, std::string id,
                                                        base::Error error) {
    if (error.code() != Errc::too_many_processes)
        co_return error;
    auto start = [&](conversation::Reply<conversation::SandboxView> reply) {
        api.conversations.get_sandbox(id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::SandboxView>(start);
    if (view.has_error())
        co_return error;
    co_return base::Error(Errc::too_many_processes,
                          "The sandbox has all the processes that it may have: limits.maxProcesses is " +
                              std::to_string(view->record.limits.max_processes) +
                              ". End some, wait until some have ended, or raise the limit.");
}

std::vector<Errc> lease_errors(std::initializer_list<Errc> more) {
    std::vector<Errc> errors{Errc::not_found,      Errc::conversation_ended, Errc::conversation_starting,
                             Errc::sandbox_failed, Errc::sandbox_gone,       Errc::disk_full,
                             Errc::capacity,       Errc::storage_failed,     Errc::shutting_down,
                             Errc::bridge_failed,  Errc::deadline_exceeded,  Errc::user_share};
    errors.insert(errors.end(), more);
    return errors;
}

}  // namespace atl::http
