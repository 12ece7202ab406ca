// The step at which a child failed before its exec, and the text for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/isolation/child_plan.hpp"

namespace atl::isolation {

/// The step that a child was at when it failed, in their order.
enum class ChildStage : std::uint8_t {
    none,
    join_group,
    session,
    mount_namespace,
    staging_source,
    staging_mount,
    working_directory,
    descriptors,
    limits,
    identity,
    parent_death,
    no_new_privileges,
    priority,
    signals,
    exec,
};

struct ChildFailure {
    ChildStage stage = ChildStage::none;
    int error_number = 0;
    std::size_t index = 0;  // of the staged mount or descriptor
};

/// The failed step for a human reader: "binding /srv/x". The reason is `error_number`.
std::string what_failed(const ChildFailure& failure, const ChildPlan& plan, const std::string& program);

}  // namespace atl::isolation
