// The flags of the network `egress`, and how they fit together.
#pragma once

#include "app/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace atl::app {

void add_egress_options(CLI::App& cli, Config& config);

/// After the flags are read: the groups that are named are there. Throws CLI::ValidationError, naming the
/// flag.
void check_egress(const Config& config);

}  // namespace atl::app
