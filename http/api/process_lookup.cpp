#include "http/api/process_lookup.hpp"

#include "core/base/ids.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::http {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using LeasePtr = std::unique_ptr<conversation::Lease>;

namespace {

constexpr base::Millis k_cause_look{20};

Task<Result<void>> async_pause_reading(Api& api, RequestContext& context, base::Millis time) {
    base::Timers& timers = api.conversations.timers();
    base::TimerId timer = 0;
    auto wait = [&](conversation::Reply<void> reply) {
        timer = timers.arm(time, [reply = std::move(reply)] { reply({}); });
    };
    const auto waited = co_await context.async_reply<void>(wait);
    timers.cancel(timer);
    co_return waited;
}

}  // namespace

Error no_process() {
    return Error(Errc::not_found,
                 "There is no such process in the sandbox; one that has ended is known for ten "
                 "minutes, and not longer than the sandbox runs.");
}

Error process_error(const Error& error) {
    return error.code() == Errc::not_found ? no_process() : error;
}

Result<ProcessPath> process_path(const RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        return id.error();
    const std::string& process = context.param("processId");
    if (!base::is_id(process))
        return no_process();
    return ProcessPath{*id, process};
}

Task<Result<sandbox::Status>> async_status(Api& api, RequestContext& context, const std::string& sandbox_id) {
    auto look = [&](conversation::Reply<conversation::SandboxView> reply) {
        api.conversations.get_sandbox(sandbox_id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::SandboxView>(look);
    if (view.has_error())
        co_return view.error();
    co_return view->status;
}

Task<Result<LeasePtr>> async_living(Api& api, RequestContext& context, const std::string& sandbox_id,
                                    conversation::LeaseUse use) {
    const auto status = co_await async_status(api, context, sandbox_id);
    if (status.has_error())
        co_return status.error();
    if (*status != sandbox::Status::ready && *status != sandbox::Status::frozen)
        co_return LeasePtr();
    co_return co_await async_lease(api, context, sandbox_id, use);
}

Task<Result<LeasePtr>> async_process_lease(Api& api, RequestContext& context, const std::string& sandbox_id,
                                           conversation::LeaseUse use) {
    auto lease = co_await async_living(api, context, sandbox_id, use);
    if (lease.has_value() && !*lease)
        co_return no_process();
    co_return lease;
}

Task<Result<sandbox::Status>> async_status_behind(Api& api, RequestContext& context,
                                                  const std::string& sandbox_id, Error error) {
    if (error.code() != Errc::bridge_failed && error.code() != Errc::deadline_exceeded)
        co_return error;
    for (base::Millis waited{0}; waited < base::k_end_cause_wait; waited += k_cause_look) {
        const auto status = co_await async_status(api, context, sandbox_id);
        if (status.has_error() || *status != sandbox::Status::ready)
            co_return status;
        if (const auto pause = co_await async_pause_reading(api, context, k_cause_look); pause.has_error())
            co_return pause.error();
    }
    co_return error;
}

}  // namespace atl::http
