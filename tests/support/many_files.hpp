// Where a test makes files and folders by the ten thousand.
#pragma once

#include <unistd.h>

#include <filesystem>

#include "tests/support/deadline.hpp"

namespace atl::test {

/// In memory where there is such a place: a disk makes some hundred folders a second. With ATOLL_TEST_FULL=1
/// on the disk where temporary folders are.
inline std::filesystem::path folder_for_many_files() {
    const char* const memory = "/dev/shm";
    if (!checks_bounds() && ::access(memory, W_OK | X_OK) == 0)
        return memory;
    return std::filesystem::temp_directory_path();
}

}  // namespace atl::test
