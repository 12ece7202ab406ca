// The flags of previews, and how they fit together.
#pragma once

#include "app/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace atl::app {

void add_preview_options(CLI::App& cli, Config& config);

/// After the flags are read: makes `config.previews` of them. Throws CLI::ValidationError, naming the flag.
void name_previews(Config& config);

}  // namespace atl::app
