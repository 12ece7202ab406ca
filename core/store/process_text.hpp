// A process that is started again, as a column: JSON text.
#pragma once

#include <string>

#include "core/sandbox/operations.hpp"

namespace atl::store {

/// What is missing or of another type has its default.
sandbox::ProcessSpec parse_process(const std::string& text);
std::string process_text(const sandbox::ProcessSpec& spec);

}  // namespace atl::store
