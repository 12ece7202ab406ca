#include "http/api/tool_checks.hpp"

#include <utility>

#include "http/api/execution_form.hpp"

namespace atl::http {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;

namespace {

Error no_checks() {
    return Error(Errc::internal, "this server has nothing that checks such long schemas");
}

}  // namespace

Error bad_tools(const Error& why) {
    if (why.code() == Errc::invalid_field)
        return Error(Errc::invalid_field, why.detail()).at("/tools");
    return why;
}

Task<Result<std::string>> async_verify(Api& api, RequestContext& context, const std::string& user,
                                       const std::vector<execution::ToolSpec>& specs) {
    if (api.checks == nullptr)
        co_return no_checks();
    execution::OffloadedChecks::Work work;
    auto verify = [&](execution::OffloadedChecks::Done<std::string> done) {
        work = api.checks->verify(user, specs, std::move(done));
    };
    const auto verified = co_await context.async_reply<std::string>(verify);
    if (verified.has_error())
        co_return bad_tools(verified.error());
    co_return *verified;
}

Task<Result<std::string>> async_declare(Api& api, RequestContext& context, const std::string& user,
                                        const std::vector<execution::ToolSpec>& specs,
                                        execution::ToolSet& set) {
    const auto verified = co_await async_verify(api, context, user, specs);
    if (verified.has_error())
        co_return verified.error();
    set.set_warnings(*verified);
    execution::OffloadedChecks::Work work;
    auto declare = [&](execution::OffloadedChecks::Done<std::string> done) {
        work = api.checks->declare(user, specs, std::move(done));
    };
    const auto declared = co_await context.async_reply<std::string>(declare);
    if (declared.has_error())
        co_return bad_tools(declared.error());
    co_return *declared;
}

Task<Result<execution::SplitJson>> async_split_body(Api& api, RequestContext& context,
                                                    const std::string& user, std::string_view key) {
    auto text = context.take_json_text();
    if (text.has_error())
        co_return text.error();
    execution::OffloadedChecks::Work work;
    auto split = [&](execution::OffloadedChecks::Done<execution::SplitJson> done) {
        work = api.checks->split(user, key, std::move(*text), std::move(done));
    };
    co_return co_await context.async_reply<execution::SplitJson>(split);
}

}  // namespace atl::http
