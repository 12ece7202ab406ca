// The guest's own lines in the sandbox's log, which is stderr.
#pragma once

#include <string_view>

namespace atl::guest {

/// Writes "atoll-guest: TEXT". Never blocks: where the log is full or cannot take a write without waiting,
/// the line is lost.
void log(std::string_view text);

}  // namespace atl::guest
