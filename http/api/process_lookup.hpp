// How a request gets at the processes of a sandbox: a lease on the generation that is there, or a look at it
// that is no activity. Neither starts a generation: without one there is no process. Not here: what is done
// with them (processes.cpp, process_follow.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/sandbox/operations.hpp"
#include "http/api/api.hpp"
#include "http/api/leased_sandbox.hpp"

namespace atl::http {

struct ProcessPath {
    std::string sandbox;
    std::string process;
};
/// The `{id}` and the `{processId}` of the path. Errors: not_found.
base::Result<ProcessPath> process_path(const RequestContext& context);

/// The error for a process that is not there.
base::Error no_process();
/// The error that the client sees of `error`, which a guest answered about one process.
base::Error process_error(const base::Error& error);

/// Null: no generation is there. Errors: those of async_lease().
base::Task<base::Result<std::unique_ptr<conversation::Lease>>> async_living(Api& api, RequestContext& context,
                                                                            const std::string& sandbox_id,
                                                                            conversation::LeaseUse use);
/// The same for who needs a process. Errors: also not_found, where no generation is there.
base::Task<base::Result<std::unique_ptr<conversation::Lease>>> async_process_lease(
    Api& api, RequestContext& context, const std::string& sandbox_id, conversation::LeaseUse use);

/// Errors: not_found, storage_failed.
base::Task<base::Result<sandbox::Status>> async_status(Api& api, RequestContext& context,
                                                       const std::string& sandbox_id);
/// After a look that failed with `error`: whether the sandbox went down or was frozen under it, which is
/// known a moment later. A lease would wait for the next generation, and start it. Errors: `error`, where it
/// is up.
base::Task<base::Result<sandbox::Status>> async_status_behind(Api& api, RequestContext& context,
                                                              const std::string& sandbox_id,
                                                              base::Error error);

/// async_look() under a lease, which thaws a frozen sandbox.
template <class T, class Ask>
base::Task<base::Result<std::optional<T>>> async_look_leased(Api& api, RequestContext& context,
                                                             const std::string& sandbox_id, Ask& ask) {
    const auto lease = co_await async_living(api, context, sandbox_id, conversation::LeaseUse::request);
    if (lease.has_error())
        co_return lease.error();
    if (!*lease)
        co_return std::optional<T>();
    const auto operations = operations_of(api, **lease);
    if (operations.has_error())
        co_return operations.error();
    auto start = [&](conversation::Reply<T> reply) { return ask(**operations, std::move(reply)); };
    auto answer = co_await async_ask<T>(api, context, **lease, start);
    if (answer.has_error())
        co_return answer.error();
    co_return std::optional<T>(std::move(*answer));
}

/// Asks the guest: `ask(operations, reply)` gives the sandbox::Question. A look at a sandbox that is up is no
/// activity and holds nothing. `ask` must live until the task has finished: name it. Nothing: no generation
/// is there. Errors: those of the question, and of async_lease().
template <class T, class Ask>
base::Task<base::Result<std::optional<T>>> async_look(Api& api, RequestContext& context,
                                                      const std::string& sandbox_id, Ask& ask) {
    const auto status = co_await async_status(api, context, sandbox_id);
    if (status.has_error())
        co_return status.error();
    if (*status != sandbox::Status::ready)
        co_return co_await async_look_leased<T>(api, context, sandbox_id, ask);
    base::Result<T> found = base::Error(base::Errc::bridge_failed);
    if (sandbox::Operations* const there = api.conversations.operations_of_living(sandbox_id)) {
        std::unique_ptr<sandbox::Question> question;
        auto start = [&](conversation::Reply<T> reply) { question = ask(*there, std::move(reply)); };
        found = co_await context.async_reply<T>(start);
    }
    if (found.has_value())
        co_return std::optional<T>(std::move(*found));
    const auto behind = co_await async_status_behind(api, context, sandbox_id, found.error());
    if (behind.has_error())
        co_return behind.error();
    if (*behind == sandbox::Status::frozen)
        co_return co_await async_look_leased<T>(api, context, sandbox_id, ask);
    co_return std::optional<T>();
}

/// The routes that follow a process, without what all routes of processes have.
std::vector<Route> process_follow_routes(Api& api);

}  // namespace atl::http
