// How long members of a v2 group have waited for a resource (PSI; the kernel's
// Documentation/accounting/psi.rst).
#pragma once

#include <optional>
#include <string_view>

#include "core/sandbox/types.hpp"

namespace atl::cgroup {

/// The totals in the text of a `*.pressure` file; none if it is not of that form.
std::optional<sandbox::Pressure> parse_pressure(std::string_view text);

/// Fills in the pressure of the v2 group `folder`; a value that this kernel does not account stays empty.
void read_pressure(int folder, sandbox::Usage& usage);

}  // namespace atl::cgroup
