// The state that `shell` keeps between the turns of a generation: the directory and the exported variables
// with which a message ended, as the bash that ran it told them. That bash runs a stranger's code, so its
// text is parsed, bounded and never executed. A text that is not of the form counts as none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

struct ShellState {
    std::string directory;  // empty: the workspace
    /// NAME=VALUE, all of them; none: those of the guest.
    std::optional<std::vector<std::string>> environment;
};

/// Directory, then NAME=VALUE for each variable, then nothing, each with a NUL behind it; what follows does
/// not count. None if `told` is not of that form: a directory that is no absolute path, a name that is no
/// name. Variables that each shell makes anew (`_`, SHLVL), those that rule how a bash runs a message
/// (BASH_ENV, SHELLOPTS, BASHOPTS, POSIXLY_CORRECT), those of the program below and those that the server
/// sets (base::k_injected_variables) are left out.
std::optional<ShellState> parse_shell_state(std::string_view told);
/// Adds what the server set, as the guest has it: no message changes that for the next one.
void add_injected(std::vector<std::string>& environment);

/// A file that a bash writes its state into. It has a name, because a descriptor would be inherited by
/// everything that a message starts. Gone with this object.
class StateFile {
  public:
    /// A file in `directory`; null if it cannot be made.
    static std::unique_ptr<StateFile> make(const std::string& directory);
    StateFile(const StateFile&) = delete;
    StateFile& operator=(const StateFile&) = delete;
    ~StateFile();

    const std::string& path() const noexcept { return path_; }
    /// not_begun: the program has not even begun to run.
    enum class Found : std::uint8_t { not_begun, nothing, too_much, state };
    /// At most base::k_max_shell_state_bytes are read. Fills `state` where there is one.
    Found read(ShellState& state) const;

  private:
    StateFile(std::string path, base::UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

    std::string path_;
    base::UniqueFd file_;
};

/// Where a bash finds its message: as its first argument, or in a file that is its descriptor 3.
enum class MessageIn : std::uint8_t { argument, file };

/// The text for `bash -c`, `$0` and perhaps the message: marks `state_file`, runs the message much as `bash
/// -c` would, with `$#`, the line numbers and the exit status the same, then writes the state into
/// `state_file`. So does `exit` in the message, which is a function of this text until the message makes
/// another of it. A message that ends otherwise (`set -e`, `exec`, a signal, `builtin exit`) tells nothing.
/// An `exit` within a function tells the variables that are exported there. There is no EXIT trap and no
/// descriptor that the message could see. `state_file` holds no quote.
std::string shell_program(const std::string& state_file, MessageIn where);

}  // namespace atl::guest
