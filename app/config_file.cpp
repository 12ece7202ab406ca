#include "app/config_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "core/base/log.hpp"
#include "core/base/nearest.hpp"

namespace atl::app {
namespace {

constexpr std::string_view k_variable_prefix = "ATOLL_";

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view k_blanks = " \t\r\"'";
    const std::size_t begin = text.find_first_not_of(k_blanks);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(k_blanks) - begin + 1);
}

/// The line that begins with `wanted`, a key or a [section], counted from 1; 0 if there is none.
std::size_t line_of(const std::string& text, std::string_view wanted) {
    std::istringstream lines(text);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (trimmed(std::string_view(line).substr(0, line.find('='))) == wanted)
            return number;
    }
    return 0;
}

/// The names that a file may use, without dashes.
std::vector<std::string> keys_of(const CLI::App& cli) {
    std::vector<std::string> keys;
    for (const CLI::Option* option : cli.get_options()) {
        if (option->get_configurable())
            keys.insert(keys.end(), option->get_lnames().begin(), option->get_lnames().end());
    }
    return keys;
}

/// Variables of the clients and of the scripts, which a server may find in the environment of a developer.
bool is_read_beside(std::string_view name) {
    return name == "ATOLL_URL" || name == "ATOLL_BUILD_DIR" || name == "ATOLL_JOBS" ||
           name.starts_with("ATOLL_TEST");
}

}  // namespace

std::vector<std::string> flag_names(const CLI::App& cli) {
    std::vector<std::string> names;
    for (const CLI::Option* option : cli.get_options()) {
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    }
    return names;
}

std::vector<CLI::ConfigItem> CheckedConfigFile::from_config(std::istream& input) const {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    std::istringstream copy(text);
    auto read = CLI::ConfigTOML::from_config(copy);
    const auto files = cli_.get_config_ptr()->results();
    const std::string file = files.empty() ? "the configuration file" : files.back();
    const std::vector<std::string> keys = keys_of(cli_);
    std::string complaints;
    std::set<std::string> told;
    const auto complain = [&](const std::string& wanted, const std::string& what) {
        if (!told.insert(wanted).second)
            return;
        const std::size_t line = line_of(text, wanted);
        complaints += (complaints.empty() ? "" : "\n") + file + ":" +
                      (line > 0 ? std::to_string(line) + ": " : " ") + what;
    };
    for (const CLI::ConfigItem& item : read) {
        if (!item.parents.empty()) {
            const std::string section = item.parents.front();
            complain("[" + section + "]",
                     "there are no sections, as `[" + base::escaped(section) + "]`; the keys stand alone");
        } else if (std::find(keys.begin(), keys.end(), item.name) == keys.end()) {
            complain(item.name, "there is no key `" + base::escaped(item.name) + "`" +
                                    base::did_you_mean(item.name, keys, "`", ""));
        }
    }
    if (!complaints.empty())
        throw CLI::ConfigError(complaints, CLI::ExitCodes::ConfigError);
    std::erase_if(read, [this](const CLI::ConfigItem& item) {
        return std::find(overridden_.begin(), overridden_.end(), item.name) != overridden_.end();
    });
    return read;
}

std::string hints_for_extras(const CLI::App& cli) {
    const auto flags = flag_names(cli);
    std::string hints;
    for (const std::string& word : cli.remaining()) {
        if (word == "--port" || word == "--host" || word.starts_with("--port=") ||
            word.starts_with("--host="))
            hints += "; --listen has both: --listen 127.0.0.1:4100";
        else if (word.starts_with("--"))
            hints += base::did_you_mean(word.substr(0, word.find('=')), flags, "", "");
    }
    return hints;
}

UnreadVariables unread_variables(const CLI::App& cli) {
    std::vector<std::string> known{"ATOLL_API_KEY"};
    for (const CLI::Option* option : cli.get_options()) {
        if (!option->get_envname().empty())
            known.push_back(option->get_envname());
    }
    // The prefix, which all have in common, must not make strangers near.
    std::vector<std::string> rests;
    for (const std::string& other : known) {
        if (other.starts_with(k_variable_prefix))
            rests.push_back(other.substr(k_variable_prefix.size()));
    }
    UnreadVariables unread;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string name(text.substr(0, text.find('=')));
        if (!name.starts_with(k_variable_prefix) || is_read_beside(name) ||
            std::find(known.begin(), known.end(), name) != known.end())
            continue;
        const std::string what = "nothing reads the variable " + base::escaped(name);
        const auto near = base::nearest(std::string_view(name).substr(k_variable_prefix.size()), rests);
        if (near.empty())
            unread.strange.push_back(what + "; atolld --help lists those that are read");
        else
            unread.mistyped += (unread.mistyped.empty() ? "" : "\n") + what + "; did you mean " +
                               std::string(k_variable_prefix) + std::string(near) + "?";
    }
    return unread;
}

}  // namespace atl::app
