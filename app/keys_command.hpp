// `atolld keys add|list|revoke`: the command line's side of http/key_file.hpp. Needs no server and does not
// disturb one that runs.
#pragma once

#include <string>

#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

/// What the command has to say: `text` is for programs (a new key alone on its line), `note` for people.
struct KeysOutput {
    std::string text;
    std::string note;
};

/// Precondition: config.keys. Errors tell what is wrong and how to fix it.
base::Result<KeysOutput> run_keys_command(const Config& config);

}  // namespace atl::app
