#include "tests/bench/temp_dir.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace atl::bench {

TempDir::TempDir() {
    const char* parent = std::getenv("TMPDIR");
    std::string pattern = std::string(parent ? parent : "/var/tmp") + "/atoll-bench-XXXXXX";
    if (!::mkdtemp(pattern.data()))
        throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
    path_ = pattern;
}

TempDir::~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace atl::bench
