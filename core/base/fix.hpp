// Commands for operators: a message ends with lines of the form `FIX: COMMAND`, one command each, so that a
// script finds them. Only in text for operators; never in an answer of the API.
#pragma once

#include <string>
#include <string_view>

namespace atl::base {

inline constexpr std::string_view k_fix = "\nFIX: ";

/// Another such line, for the end of a message without a line end.
inline std::string fix_line(const std::string& command) {
    return std::string(k_fix) + command;
}

}  // namespace atl::base
