#include "app/variables.hpp"

#include <cstdlib>
#include <string_view>

namespace atl::app {
namespace {

std::string value_of(const std::string& variable) {
    const char* const value = std::getenv(variable.c_str());
    return value == nullptr ? "" : value;
}

std::vector<std::string> values_of(const CLI::Option& option, const std::string& text) {
    if (option.get_items_expected_max() <= 1)
        return {text};
    std::vector<std::string> values;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        if (end > begin)
            values.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return values;
}

/// The text of `error` without the name of the flag before it.
std::string complaint(const CLI::Option& option, std::string_view error) {
    const std::string name = option.get_name() + ": ";
    return std::string(error.starts_with(name) ? error.substr(name.size()) : error);
}

}  // namespace

Variables::Variables(CLI::App& cli) {
    for (CLI::Option* const option : cli.get_options({})) {
        if (option->get_envname().empty())
            continue;
        all_.push_back({option, option->get_envname()});
        option->envname("");
    }
}

Variables::~Variables() {
    for (const auto& [option, name] : all_)
        option->envname(name);
}

std::vector<std::string> Variables::overridden_keys() const {
    std::vector<std::string> keys;
    for (const auto& [option, name] : all_) {
        if (!value_of(name).empty())
            keys.insert(keys.end(), option->get_lnames().begin(), option->get_lnames().end());
    }
    return keys;
}

void Variables::apply() {
    for (const auto& [option, name] : all_) {
        const std::string text = value_of(name);
        if (text.empty() || option->count() > 0)
            continue;
        const auto values = values_of(*option, text);
        if (values.empty())
            throw CLI::ValidationError(name, "there is no value between its commas");
        try {
            for (const std::string& value : values)
                option->add_result(value);
            option->run_callback();
        } catch (const CLI::Error& error) {
            throw CLI::ValidationError(name, complaint(*option, error.what()));
        }
    }
}

}  // namespace atl::app
