// How an agent is started, as the server writes it into the adapter's one argument: a JSON object. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::adapter {

enum class Adapter : std::uint8_t { acp, stream_json, lines };

struct Recipe {
    Adapter adapter = Adapter::lines;
    std::string name;
    std::string mode;
    std::vector<std::string> argv;
    std::vector<std::pair<std::string, std::string>> env;
    std::vector<std::pair<std::string, std::string>> files;  // by their paths in the agent's state
};

/// Nothing where `text` is no recipe.
std::optional<Recipe> parse_recipe(std::string_view text);

}  // namespace atl::adapter
