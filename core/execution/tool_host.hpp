// Who answers calls of tools in place of the caller: the tools of a sandbox (http/api/sandbox_tools.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::execution {

/// A call on its way. Destroying it cancels the answer.
class HostedCall {
  public:
    virtual ~HostedCall() = default;
};

class ToolHost {
  public:
    virtual ~ToolHost() = default;
    virtual bool has(std::string_view tool) const = 0;
    /// `args_json` is an array that fits the tool's schema, without space between its tokens. `done` is
    /// called once, from the loop, with the text of a JSON value; an error's detail is told to the program.
    virtual std::unique_ptr<HostedCall> call(const std::string& tool, const std::string& args_json,
                                             std::function<void(base::Result<std::string>)> done) = 0;
};

}  // namespace atl::execution
