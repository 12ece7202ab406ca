// The port to the process that checks what takes more work than the loop has time for (bridge/checker has its
// implementation; tests a fake): schemas of tools, arguments of calls, and their answers. Users take turns,
// one piece of work at a time. The process may die, hang or be missing: that is an error of the one who
// asked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/execution/tool_set.hpp"

namespace atl::execution {

/// Work that waits or is being done. Destroying it drops the answer; it may outlive who does the work.
class OffloadedJob {
  public:
    virtual ~OffloadedJob() = default;
};

/// A JSON object in parts, without space between its tokens: values that were split off, in their order, and
/// the rest.
struct SplitJson {
    std::string rest;
    std::vector<std::string> values;
};

/// A body with tools is split at this member.
inline constexpr std::string_view k_tools_member = "tools";

/// Work for `user`, the name of a base::ShareHolder, waits behind earlier work for that user. `done` is
/// called once, from the loop, never from inside the call that was given it. Errors, beside those of each
/// function: too_many_executions, user_share, capacity: too much work of the user, or of all users, waits;
/// deadline_exceeded, internal: no answer came.
class OffloadedChecks {
  public:
    template <class T>
    using Done = std::function<void(base::Result<T>)>;
    using Work = std::unique_ptr<OffloadedJob>;

    virtual ~OffloadedChecks() = default;
    /// Does the work of ToolSet::verify(). Errors: invalid_field.
    virtual Work verify(const std::string& user, std::span<const ToolSpec> specs, Done<std::string> done) = 0;
    /// The same, and their declarations (declarations.hpp).
    virtual Work declare(const std::string& user, std::span<const ToolSpec> specs,
                         Done<std::string> done) = 0;
    /// Does the work of ArgumentSchema::check(). Errors: invalid_field.
    virtual Work check(const std::string& user, const std::string& tool, const std::string& schema_json,
                       const std::string& args_json, Done<void> done) = 0;
    /// Parses `json` like base::parse_json() and splits off the value of the member `key`, if there is one;
    /// null takes its place. A value of more than k_max_execution_value_bytes is given as empty text. If
    /// `key` is k_tools_member, each `inputSchema` object of its items is split off, cut to at most
    /// k_schema_limit_bytes + 1 bytes, and {} takes its place. Errors: invalid_json, invalid_utf8.
    virtual Work split(const std::string& user, std::string_view key, std::string json,
                       Done<SplitJson> done) = 0;
    /// Parses `json`. Gives the value without space between its tokens, or empty if it is longer than a value
    /// may be. Other work of the user that waits never refuses it. Errors: invalid_json, invalid_utf8.
    virtual Work read_value(const std::string& user, std::string json, Done<std::string> done) = 0;
};

}  // namespace atl::execution
