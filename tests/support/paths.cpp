#include "tests/support/paths.hpp"

namespace atl::test {

std::string build_path(std::string_view file) {
    return std::string(ATOLL_BUILD_DIR "/").append(file);
}

std::string source_path(std::string_view file) {
    return std::string(ATOLL_SOURCE_DIR "/").append(file);
}

}  // namespace atl::test
