// Checks of tools and of answers to calls that take more work than the loop has time for, as a handler waits
// for them.
#pragma once

#include <string>
#include <vector>

#include "core/execution/offloaded_checks.hpp"
#include "core/execution/tool_set.hpp"
#include "http/api/api.hpp"
#include "http/server/context.hpp"

namespace atl::http {

/// Why tools are refused, at their place in the body.
base::Error bad_tools(const base::Error& why);

/// Gives the warnings of tools whose set is not compiled (execution::ToolSet). `user` as for
/// execution::OffloadedChecks. Errors: invalid_field; those of execution::OffloadedChecks.
base::Task<base::Result<std::string>> async_verify(Api& api, RequestContext& context, const std::string& user,
                                                   const std::vector<execution::ToolSpec>& specs);
/// Gives their declarations; `set` gets the warnings.
base::Task<base::Result<std::string>> async_declare(Api& api, RequestContext& context,
                                                    const std::string& user,
                                                    const std::vector<execution::ToolSpec>& specs,
                                                    execution::ToolSet& set);
/// The body, split at the member `key` (execution_form.hpp). Errors: unsupported_media_type; those of
/// execution::OffloadedChecks::split().
base::Task<base::Result<execution::SplitJson>> async_split_body(Api& api, RequestContext& context,
                                                                const std::string& user,
                                                                std::string_view key);

}  // namespace atl::http
