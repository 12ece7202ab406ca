#include "bridge/guest/exec_command.hpp"

#include <utility>

#include "core/plain/operation_limits.hpp"

namespace atl::guest {

void ExecCommand::begin(Connection& connection, Command& command) {
    using namespace bridge::refusal;
    ProgramVisitor visitor;
    if (bridge::scan_object(command.line, k_max_program_depth, visitor) != bridge::Scan::complete)
        return refuse(connection, visitor.refusal.empty() ? "exec nested too deep" : visitor.refusal,
                      invalid);
    if (const auto wrong = check_program(visitor.request, services_.workspace); !wrong.error.empty())
        return refuse(connection, wrong.error, wrong.code);
    if (runs_.size() == base::k_max_exec_runs)
        return refuse(connection, "too many programs run in this sandbox already", busy);
    runs_.emplace_back(services_, connection);
    const auto run = std::prev(runs_.end());
    const ProgramRefusal refusal = run->start(visitor.request, [this, run] { runs_.erase(run); });
    if (refusal.error.empty())
        return;
    runs_.erase(run);
    refuse(connection, refusal.error, refusal.code);
}

}  // namespace atl::guest
