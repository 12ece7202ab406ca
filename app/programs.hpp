// Programs of the host.
#pragma once

#include <filesystem>
#include <string>

namespace atl::app {

/// The first executable `name` on PATH; the usual place if there is none, where a look then misses it.
std::filesystem::path find_program(const std::string& name);

}  // namespace atl::app
