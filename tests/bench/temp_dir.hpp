// A folder for one measurement, on a disk: /var/tmp, since /tmp is memory on some systems. TMPDIR overrides.
#pragma once

#include <filesystem>

namespace atl::bench {

class TempDir {
  public:
    TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    /// Removes it with all that is in it.
    ~TempDir();

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace atl::bench
