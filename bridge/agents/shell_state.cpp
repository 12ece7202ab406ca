#include "bridge/agents/shell_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/plain/guest_limits.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::guest {
namespace {

// Names of the program's own variables, which the message's EXIT trap alone could export.
constexpr std::string_view k_own_prefix = "__atoll_";

bool is_name(std::string_view text) {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
    return !text.empty() && letter(text[0]) &&
           std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_made_anew(std::string_view name) {
    return name == "_" || name == "SHLVL" || name.starts_with(k_own_prefix);
}

/// With these a bash does not run its message, or not as it stands; then no message could unset them.
bool rules_the_shell(std::string_view name) {
    return name == "BASH_ENV" || name == "SHELLOPTS" || name == "BASHOPTS" || name == "POSIXLY_CORRECT";
}

bool is_injected(std::string_view name) {
    const auto& injected = base::k_injected_variables;
    return std::find(injected.begin(), injected.end(), name) != injected.end();
}

/// Cuts off what is before the next NUL; none without one.
std::optional<std::string_view> take_field(std::string_view& text) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos)
        return std::nullopt;
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(end + 1);
    return entry;
}

}  // namespace

std::optional<ShellState> parse_shell_state(std::string_view told) {
    ShellState state;
    auto directory = take_field(told);
    // `pwd` writes an absolute path and a line end.
    if (!directory || !directory->starts_with('/') || !directory->ends_with('\n'))
        return std::nullopt;
    directory->remove_suffix(1);
    state.directory = *directory;
    std::vector<std::string>& environment = state.environment.emplace();
    for (;;) {
        const auto entry = take_field(told);
        if (!entry)
            return std::nullopt;
        if (entry->empty())
            break;
        const std::size_t equals = entry->find('=');
        const std::string_view name = entry->substr(0, equals);
        if (equals == std::string_view::npos || !is_name(name))
            return std::nullopt;
        if (!is_made_anew(name) && !rules_the_shell(name) && !is_injected(name))
            environment.emplace_back(*entry);
    }
    return state;
}

void add_injected(std::vector<std::string>& environment) {
    for (const std::string_view name : base::k_injected_variables)
        if (const char* const value = getenv(std::string(name).c_str()))
            environment.emplace_back(std::string(name) + '=' + value);
}

std::unique_ptr<StateFile> StateFile::make(const std::string& directory) {
    static unsigned made = 0;
    std::string path = directory + "/.atoll-shell-" + std::to_string(++made);
    unlink(path.c_str());
    base::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file)
        return nullptr;
    return std::unique_ptr<StateFile>(new StateFile(std::move(path), std::move(file)));
}

StateFile::~StateFile() {
    unlink(path_.c_str());
}

StateFile::Found StateFile::read(ShellState& state) const {
    std::string told(base::k_max_shell_state_bytes + 1, '\0');
    std::size_t have = 0;
    while (have < told.size()) {
        const ssize_t size =
            pread(file_.get(), told.data() + have, told.size() - have, static_cast<off_t>(have));
        if (size <= 0)
            break;
        have += static_cast<std::size_t>(size);
    }
    if (have == 0)
        return Found::not_begun;
    if (have == told.size())
        return Found::too_much;
    auto parsed = parse_shell_state(std::string_view(told).substr(0, have));
    if (!parsed)
        return Found::nothing;
    state = std::move(*parsed);
    return Found::state;
}

std::string shell_program(const std::string& state_file, MessageIn where) {
    const std::string file = "'" + state_file + "'";
    // All of it is the condition of an `if`, in which `set -e` ends nothing. A subshell that exits writes
    // nothing: it is not the message's bash. Only built-in commands are used: a fork could wait for a place
    // among the sandbox's processes. No array is assigned: after a syntax error within `$(` bash 5.2 would
    // then corrupt its heap. The file is never cut: a write that fails leaves the mark in it.
    const std::string tell =
        "if [[ $BASHPID == \"$$\" ]] && builtin compgen -e 1<>" + file +
        " && builtin mapfile -t __atoll_names <" + file +
        " && { builtin pwd; builtin printf '\\0'; for __atoll_name in \"${__atoll_names[@]}\"; do "
        "[[ -v $__atoll_name ]] && builtin printf '%s\\0' \"$__atoll_name=${!__atoll_name}\"; done; "
        "builtin printf '\\0'; } 1<>" +
        file + "; then :; fi";
    // The traces of a message (`set -x`, DEBUG) must not show this, and its `ulimit -f` must not end it.
    const std::string quiet = "builtin trap - DEBUG ERR RETURN; builtin trap '' XFSZ; builtin set +xv; ";
    const std::string_view message =
        where == MessageIn::argument ? "builtin shift; $1" : "exec 3<&-; $(</proc/self/fd/3)";
    // In POSIX mode `exit` cannot be a function. All stands in the line of the `eval`: a message that is not
    // complete must not be read on into a next line.
    return "{ builtin printf x >|" + file +
           "; } 2>/dev/null; [[ -o posix ]] || exit() { { builtin local __atoll_status=$? __atoll_names "
           "__atoll_name; " +
           quiet + tell + "; } 2>/dev/null; builtin exit \"${@-$__atoll_status}\"; }; builtin eval \"" +
           std::string(message) + "\"; { __atoll_status=$?; " + quiet + tell +
           "; } 2>/dev/null; builtin exit \"$__atoll_status\"";
}

}  // namespace atl::guest
