// Helpers for the tests of core/isolation, cgroup and fs-guard: a temporary folder, a loop, small files.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "core/base/asio_timers.hpp"
#include "core/base/ids.hpp"
#include "tests/support/deadline.hpp"

namespace atl::test {

/// A folder that every user can enter, removed at the end.
class TempFolder {
  public:
    explicit TempFolder(const std::filesystem::path& in = std::filesystem::temp_directory_path())
        : path_(in / ("atoll-unit-" + base::new_id())) {
        std::filesystem::create_directory(path_);
        ::chmod(path_.c_str(), 0755);
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text, mode_t mode = 0644) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
}

/// A loop with timers, driven by hand.
struct Loop {
    boost::asio::io_context context{1};
    base::AsioTimers timers{context.get_executor()};

    /// Runs handlers until `done` holds; false if it does not within the deadline. It may also come to hold
    /// without a handler: the kernel changes what it asks for.
    bool run_until(const std::function<bool()>& done, std::chrono::milliseconds limit = k_client_deadline) {
        const auto deadline = std::chrono::steady_clock::now() + limit;
        while (!done()) {
            context.restart();
            const auto now = std::chrono::steady_clock::now();
            const auto next_look = std::min(deadline, now + std::chrono::milliseconds(20));
            if (context.run_one_until(next_look) == 0 && now >= deadline)
                return done();
        }
        return true;
    }
};

inline bool is_root() {
    return ::geteuid() == 0;
}

}  // namespace atl::test
