// The tools of one sandbox as tools of a program: each call leases the sandbox, which is started or thawed
// for it, and its guest answers, or run_command does. Not here: which tools there are
// (core/plain/tool_table.hpp), the routes of tools (tools.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/shares.hpp"
#include "core/execution/tool_host.hpp"
#include "core/execution/tool_set.hpp"
#include "http/api/api.hpp"

namespace atl::http {

class SandboxToolHost final : public execution::ToolHost {
  public:
    /// `conversations` and `exec`, the budget of that name, outlive it and its calls. `holder` pays for the
    /// output of commands.
    SandboxToolHost(conversation::Manager& conversations, base::Budget& exec, base::ShareHolder holder,
                    std::string sandbox_id, std::vector<std::string> names)
        : conversations_(conversations),
          exec_(exec),
          holder_(std::move(holder)),
          sandbox_id_(std::move(sandbox_id)),
          names_(std::move(names)) {}

    bool has(std::string_view tool) const override;
    std::unique_ptr<execution::HostedCall> call(const std::string& tool, const std::string& args_json,
                                                std::function<void(base::Result<std::string>)> done) override;

    /// The tools of a program: those of these names, with their published schemas, each with the strongest
    /// policy that `tools` has for its name; behind them the others of `tools`.
    static std::vector<execution::ToolSpec> specs(const std::vector<std::string>& names,
                                                  std::vector<execution::ToolSpec> tools);

  private:
    conversation::Manager& conversations_;
    base::Budget& exec_;
    const base::ShareHolder holder_;
    const std::string sandbox_id_;
    const std::vector<std::string> names_;
};

}  // namespace atl::http
