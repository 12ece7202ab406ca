// The report on a generation whose processes did not die in time (unkillable_list.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/clock.hpp"

namespace atl::sandbox {

struct Unkillable {
    std::string sandbox_id;  // empty: left by an earlier run, and the sandbox is not known
    std::uint32_t generation = 0;
    base::WallTime since{};
    std::optional<std::uint32_t> processes;  // with threads; none if the host does not count them
};

}  // namespace atl::sandbox
