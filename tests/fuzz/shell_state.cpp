// The state that a bash tells: its directory and variables. That bash ran a stranger's message.
#include "bridge/agents/shell_state.hpp"

#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::Input input(data, size);
    const auto state = guest::parse_shell_state(input.rest());
    if (!state)
        return 0;
    require(state->directory.starts_with('/') && state->directory.find('\0') == std::string::npos,
            "a directory is an absolute path");
    require(state->environment.has_value(), "a state has its variables");
    std::string again = state->directory + '\n' + '\0';
    for (const std::string& variable : *state->environment) {
        require(variable.find('=') != 0 && variable.find('=') != std::string::npos &&
                    variable.find('\0') == std::string::npos,
                "a variable is a name with a value");
        again += variable + '\0';
    }
    again += '\0';
    require(again.size() <= input.rest().size(), "nothing is added");
    const auto second = guest::parse_shell_state(again);
    require(second && second->directory == state->directory && *second->environment == *state->environment,
            "it reads the same again");
    return 0;
}
