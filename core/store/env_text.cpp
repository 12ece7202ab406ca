#include "core/store/env_text.hpp"

#include <nlohmann/json.hpp>

namespace atl::store {

sandbox::Environment parse_env(const std::string& text) {
    sandbox::Environment env;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_array())
        return env;
    for (const auto& entry : json) {
        if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string())
            env.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    }
    return env;
}

std::string env_text(const sandbox::Environment& env) {
    auto json = nlohmann::json::array();
    for (const auto& [name, value] : env)
        json.push_back({name, value});
    return json.dump();
}

}  // namespace atl::store
