#include "app/programs.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace atl::app {

std::filesystem::path find_program(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const auto candidate = std::filesystem::path(folder) / name;
        if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0)
            return candidate;
    }
    return "/usr/bin/" + name;
}

}  // namespace atl::app
