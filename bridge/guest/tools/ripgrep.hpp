// ripgrep as a child of the guest: started below a directory of the workspace, its output read as it comes,
// ended after its time or with the call. It takes no configuration and writes no file. It walks by name: a
// link that a program inside swaps in for a directory meanwhile leads it to other files that the program can
// read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/guest/tools/tool_run.hpp"

namespace atl::guest {

class Ripgrep {
  public:
    explicit Ripgrep(ToolRun& run) : run_(run) {}
    /// Kills it.
    ~Ripgrep();
    Ripgrep(const Ripgrep&) = delete;
    Ripgrep& operator=(const Ripgrep&) = delete;

    /// Runs rg with `arguments` in the directory. `ignore_rules`, if not empty, are what the argument
    /// k_ignore_file names. The failure if it cannot be started.
    std::optional<ToolResult> start(std::vector<std::string> arguments, int directory_fd,
                                    std::string_view ignore_rules);
    /// The next piece of output, valid until the next call; empty at the end.
    Task<std::string_view> async_read();
    /// Waits for its end. Afterwards the rest is known.
    Task<void> async_finish();
    void kill();

    bool timed_out() const noexcept { return timed_out_; }
    /// 0: something was found, 1: nothing, 2: an error, more: a defect or no room for a thread, as it exited;
    /// nothing: a signal ended it.
    std::optional<int> status() const;
    /// The beginning of what it wrote to stderr, without words of k_tell_skipped.
    std::string errors() const;
    /// How many files were left out as too large. Needs k_tell_skipped.
    std::size_t skipped_files() const;
    /// The failure that the way it ended means; nothing if it found something, or nothing.
    std::optional<ToolResult> failure(std::string_view feedback) const;

    /// Makes ripgrep tell each file and directory that it leaves out. Not where that may be most of them.
    static constexpr std::string_view k_tell_skipped = "--debug";
    static constexpr std::string_view k_ignore_file = "--ignore-file=/proc/self/fd/3";

  private:
    void drop_words_later();

    ToolRun& run_;
    pid_t pid_ = -1;  // not -1: it runs
    base::UniqueFd output_;
    base::UniqueFd errors_;
    base::UniqueFd end_;  // a pidfd
    TimerId deadline_ = 0;
    TimerId drop_ = 0;
    std::optional<Ending> ending_;
    bool timed_out_ = false;
    std::string piece_;
};

/// The program and the options that search and glob have in common: hidden files but .git and
/// base::k_state_folder are found, .gitignore counts also without a repository, and no other list of ignored
/// files does (.ignore, .rgignore, .git/info/exclude, that of HOME).
std::vector<std::string> ripgrep_walk_options();

}  // namespace atl::guest
