// The output of a subcommand: `text` is for programs (a new key alone on its line), `note` for people.
#pragma once

#include <string>

namespace atl::app {

struct CommandOutput {
    std::string text;
    std::string note;
};

}  // namespace atl::app
