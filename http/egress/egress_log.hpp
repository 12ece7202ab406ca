// The file of --egress-log: lines for other programs to read. Written without waiting, as the server's own
// log (log_output.hpp), and opened again when a program that rotates logs has moved it away. Not here: what a
// line says (egress_recorder.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/log_output.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::http {

class EgressLog {
  public:
    /// Lines go behind those that are there; a file that is not there is made, for its owner and group. A
    /// pipe needs a reader. Errors: storage_failed.
    static base::Result<std::unique_ptr<EgressLog>> open(std::filesystem::path path);
    EgressLog(const EgressLog&) = delete;
    EgressLog& operator=(const EgressLog&) = delete;

    /// Opens the path again. After an error lines go on where they went before. Errors as open().
    base::Result<void> reopen();
    /// `line` ends with a newline. It is dropped where nothing fits, and counted.
    void write(std::string_view line);
    std::uint64_t dropped_lines() const noexcept { return dropped_; }

  private:
    explicit EgressLog(std::filesystem::path path) : path_(std::move(path)) {}

    const std::filesystem::path path_;
    base::UniqueFd fd_;
    std::optional<base::LogOutput> output_;
    std::uint64_t dropped_ = 0;
};

}  // namespace atl::http
