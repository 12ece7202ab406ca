// A file system of a test's own, small enough to be filled: ext4 in a file, mounted where only this process
// and its children see it. Only for root.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "tests/support/server_process.hpp"

namespace atl::test {

class SmallDisk {
  public:
    /// Skips the test where this cannot be had.
    explicit SmallDisk(std::uint64_t megabytes);
    ~SmallDisk();
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    /// Its root; everyone may write there.
    const std::filesystem::path& path() const noexcept { return path_; }
    /// A folder on it for a server's data.
    std::filesystem::path data_dir() const;
    std::uint64_t free_mb() const;

  private:
    TempDir temp_;
    std::filesystem::path path_;
};

}  // namespace atl::test
