// The flags of listeners, of those who may ask them, and of what clients may do.
#pragma once

#include "app/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace atl::app {

void add_server_options(CLI::App& cli, Config& config);

}  // namespace atl::app
