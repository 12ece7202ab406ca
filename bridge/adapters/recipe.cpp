#include "bridge/adapters/recipe.hpp"

#include "bridge/adapters/json_value.hpp"

namespace atl::adapter {
namespace {

std::optional<Adapter> adapter_of(std::string_view name) {
    if (name == "acp")
        return Adapter::acp;
    if (name == "stream-json")
        return Adapter::stream_json;
    if (name == "lines")
        return Adapter::lines;
    return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> pairs_of(const Json& recipe, const char* name) {
    std::vector<std::pair<std::string, std::string>> texts;
    if (const Json* const object = object_of(recipe, name))
        for (const auto& [key, value] : object->items())
            texts.emplace_back(key, text_of(*object, key.c_str()));
    return texts;
}

}  // namespace

std::optional<Recipe> parse_recipe(std::string_view text) {
    const std::optional<Json> json = parse_line(text);
    const Json* const argv = json ? array_of(*json, "argv") : nullptr;
    const std::optional<Adapter> adapter = json ? adapter_of(text_of(*json, "adapter")) : std::nullopt;
    if (argv == nullptr || argv->empty() || !adapter)
        return std::nullopt;
    Recipe recipe;
    recipe.adapter = *adapter;
    recipe.name = text_of(*json, "name");
    recipe.mode = text_of(*json, "mode");
    for (const Json& argument : *argv) {
        if (!argument.is_string())
            return std::nullopt;
        recipe.argv.push_back(argument.get<std::string>());
    }
    if (recipe.argv[0].empty() || recipe.name.empty())
        return std::nullopt;
    recipe.env = pairs_of(*json, "env");
    recipe.files = pairs_of(*json, "files");
    return recipe;
}

}  // namespace atl::adapter
