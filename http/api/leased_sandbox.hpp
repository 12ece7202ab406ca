// A request's hold on a sandbox: a lease on its living generation, which is started or thawed for it, and
// what can be done in that. Not here: what is done.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/base/shares.hpp"
#include "core/conversation/leases.hpp"
#include "http/api/api.hpp"
#include "http/server/context.hpp"

namespace atl::http {

/// Errors: those of conversation::Manager::lease.
base::Task<base::Result<std::unique_ptr<conversation::Lease>>> async_lease(Api& api, RequestContext& context,
                                                                           const std::string& sandbox_id,
                                                                           conversation::LeaseUse use);

/// The user of a sandbox, as budgets know it. Errors: not_found, storage_failed.
base::Task<base::Result<base::ShareHolder>> async_holder(Api& api, RequestContext& context,
                                                         const std::string& sandbox_id);

/// The operations under `lease`, for use before the next wait. Errors: those of conversation::end_error().
base::Result<sandbox::Operations*> operations_of(Api& api, const conversation::Lease& lease);

/// The error that the client sees of `error`, met under `lease` (conversation::EndCause, which takes the
/// lease's on_end() for itself).
base::Task<base::Error> async_cause(Api& api, RequestContext& context, conversation::Lease& lease,
                                    base::Error error);

/// Asks a guest under `lease`: `start(reply)` gives the sandbox::Question. Named, it lives until the task has
/// finished. Errors: those of the question; of the lease, if that ends.
template <class T, class Start>
base::Task<base::Result<T>> async_ask(Api& api, RequestContext& context, conversation::Lease& lease,
                                      Start& start) {
    std::unique_ptr<sandbox::Question> question;
    auto begin = [&](conversation::Reply<T> reply) { question = start(std::move(reply)); };
    auto answer = co_await context.async_reply<T>(begin);
    if (answer.has_value())
        co_return answer;
    const base::Error error = answer.error();
    co_return co_await async_cause(api, context, lease, error);
}

/// The error that the client sees of a program that could not run: `error`, or of too_many_processes the
/// limit that was met.
base::Task<base::Result<Response>> async_refuse_program(Api& api, RequestContext& context, std::string id,
                                                        base::Error error);

/// The errors of async_lease(), and `more`, for a route's table.
std::vector<base::Errc> lease_errors(std::initializer_list<base::Errc> more = {});

}  // namespace atl::http
