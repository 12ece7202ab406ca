// A change of one file as a whole: what is there now, the new content written beside it and put in its place
// by a rename, so that nobody ever sees half of it and a full disk leaves the old file. No fsync. The mode is
// kept, but for set-user-id and the like; a link is written through where it stays beneath the workspace; a
// hard link becomes a file of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bridge/guest/tools/file_text.hpp"
#include "bridge/guest/tools/tool_run.hpp"

namespace atl::guest {

class FileEdit {
  public:
    explicit FileEdit(ToolRun& run) : run_(run) {}

    /// Finds the file. The failure if it is no place for one; a file that is not there is none.
    std::optional<ToolResult> open(const std::string& given);
    bool exists() const noexcept { return found_.has_value(); }
    /// Absolute, as results show it.
    std::string shown() const { return WorkspacePaths::shown(found_ ? found_->relative : relative_); }
    /// The failure of an edit that the rule of reading first forbids. After async_load(), which takes the
    /// state that is judged.
    std::optional<ToolResult> objection() const;
    /// Reads what is there, if it is not too large. The failure otherwise.
    Task<std::optional<ToolResult>> async_load();
    const std::string& before() const noexcept { return before_; }

    /// Writes `after` and fills in the data that write_file and replace have in common.
    Task<ToolResult> async_commit(const std::string& after);

  private:
    Task<int> async_put(const std::string& bytes);
    int check_unchanged() const;
    void describe(const std::string& after, ToolResult& result) const;

    ToolRun& run_;
    std::string given_;
    std::string relative_;
    std::optional<Found> found_;
    std::optional<base::Beneath::Place> place_;
    std::string before_;
    bool is_loaded_ = false;
};

}  // namespace atl::guest
