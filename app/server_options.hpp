// The flags that say where the server listens, which hosts, pages and proxies it trusts, and what a client
// may do.
#pragma once

#include "app/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace atl::app {

void add_server_options(CLI::App& cli, Config& config);

}  // namespace atl::app
