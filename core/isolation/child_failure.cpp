#include "core/isolation/child_failure.hpp"

namespace atl::isolation {
namespace {

std::string staged_source(const ChildPlan& plan, std::size_t index) {
    if (index >= plan.staged.size())
        return "?";
    return plan.staged[index].kind == StagedKind::ptys ? "pseudoterminals" : plan.staged[index].source;
}

}  // namespace

std::string what_failed(const ChildFailure& failure, const ChildPlan& plan, const std::string& program) {
    switch (failure.stage) {
        case ChildStage::join_group:
            return "joining the cgroup";
        case ChildStage::session:
            return "setsid";
        case ChildStage::limits:
            return "setting resource limits";
        case ChildStage::mount_namespace:
            return "entering the staging mount namespace";
        case ChildStage::staging_source:
            return "open " + staged_source(plan, failure.index);
        case ChildStage::staging_mount:
            return "mounting " + staged_source(plan, failure.index);
        case ChildStage::working_directory:
            return "chdir " + plan.cwd;
        case ChildStage::descriptors:
            return "arranging file descriptors";
        case ChildStage::identity:
            return "changing to uid " + std::to_string(plan.uid) +
                   " (root needs CAP_SETUID and CAP_SETGID for it, and this uid must exist in its user "
                   "namespace)";
        case ChildStage::parent_death:
            return "tying the process to the server's life";
        case ChildStage::no_new_privileges:
            return "PR_SET_NO_NEW_PRIVS";
        case ChildStage::priority:
            return "lowering the priority";
        case ChildStage::signals:
            return "resetting signals";
        case ChildStage::exec:
            return "exec " + program;
        case ChildStage::none:
            break;
    }
    return "starting " + program;
}

}  // namespace atl::isolation
