// A program whose attempts a sandbox must refuse. It runs on both sides: inside a sandbox, where it must
// fail, and outside as the positive control, where it must succeed. Statically linked, free of sanitizers.
// Every attempt is one line of output, `NAME RESULT`: OK, the name of an errno or signal, or a value. Not
// here: the expected results, which the tests know.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atl::probe {

using Arguments = std::vector<std::string>;

/// Set in an argument of a system call that the kernel takes 32 bits of.
inline constexpr long k_high_half = 1L << 32;

/// A subcommand. It returns when the results of all its attempts are printed.
struct Command {
    std::string_view name;
    void (*run)(const Arguments&);
};

// The commands, in a list for each theme.
std::span<const Command> call_commands();
std::span<const Command> exploit_commands();
std::span<const Command> file_commands();
std::span<const Command> guest_commands();
std::span<const Command> namespace_commands();
std::span<const Command> process_commands();
std::span<const Command> socket_commands();
std::span<const Command> status_commands();
std::span<const Command> table_commands();

/// Runs a subcommand with its arguments in this process; false if there is none of that name.
bool run_command(const Arguments& words);

/// Prints one line at once.
void say(const std::string& name, const std::string& result);
/// Prints "OK", or the name of errno if `returned` is negative.
void tell(const std::string& name, long returned);
std::string outcome(long returned);
std::string signal_name(int signal_number);

/// The result of `attempt` in a child: like outcome(), or the name of the signal that ended the child.
std::string in_child(const std::function<long()>& attempt);
void tell_in_child(const std::string& name, const std::function<long()>& attempt);

/// Ends the program with a sentence on stderr and a status that no attempt has.
[[noreturn]] void give_up(const std::string& why);

}  // namespace atl::probe
