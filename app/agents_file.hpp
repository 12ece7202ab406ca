// The file in which an operator configures agents:
//     {"agents": [{"name": "claude", "argv": ["node", "/agent/index.js"], "dir": "/opt/claude-agent"}]}
// Each is a recipe: also `adapter`, `mode`, `env`, `files`, `limits`, `permissions`,
// `permissionTimeoutSeconds` and `setup` (docs/agents.md). `argv` is as seen inside the sandbox; `dir`
// (optional) is a host folder, shown there read-only as /agent. `routes` (optional) of an agent, or beside
// `agents` for all, are as those of a network; their headers may have values of this process's variables.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::app {

/// `shell`, `echo` and `demo` (app/demo_agent.hpp), which are part of every server.
std::vector<sandbox::AgentSpec> built_in_agents();

/// The recipes that come with the server (scripts/agents): the text of a JSON array.
std::string_view recipe_texts() noexcept;

/// The built-in agents and, in the order of their names, those of the recipes that come with the server. They
/// are not installed, unless `scripts/setup --agents` of root has put them into `folder`.
std::vector<sandbox::AgentSpec> ready_made_agents(const std::filesystem::path& folder);

/// The built-in agents and the agents of `file`. Errors: invalid_field, naming file and entry.
base::Result<std::vector<sandbox::AgentSpec>> read_agents(const std::filesystem::path& file);

}  // namespace atl::app
