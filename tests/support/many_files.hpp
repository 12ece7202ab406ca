// Where a test makes files and folders by the ten thousand, or large ones.
#pragma once

#include <unistd.h>

#include <filesystem>

#include "tests/support/deadline.hpp"

namespace atl::test {

/// Where temporary folders are, if there is no such place.
inline std::filesystem::path folder_in_memory() {
    const char* const memory = "/dev/shm";
    return ::access(memory, W_OK | X_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

/// In memory where there is such a place: a disk makes some hundred folders a second. With ATOLL_TEST_FULL=1
/// on the disk where temporary folders are.
inline std::filesystem::path folder_for_many_files() {
    return checks_bounds() ? std::filesystem::temp_directory_path() : folder_in_memory();
}

}  // namespace atl::test
