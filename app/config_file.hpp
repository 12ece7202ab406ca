// The file of --config, as CLI11 reads it (INI or TOML). Each key is checked: a key without a flag is a
// typing error, and a server that ignored it would run without a limit or an address that its operator set.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <utility>
#include <vector>

namespace atl::app {

class CheckedConfigFile final : public CLI::ConfigTOML {
  public:
    /// `cli` has all its options by the time the file is read, and outlives this. Keys of `overridden` are
    /// left out.
    CheckedConfigFile(const CLI::App& cli, std::vector<std::string> overridden)
        : cli_(cli), overridden_(std::move(overridden)) {}

    /// Throws CLI::ConfigError for keys that are no flags, for sections, and for flags that a file cannot
    /// set: a line for each, with the file, the line and the nearest key.
    std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  private:
    const CLI::App& cli_;
    std::vector<std::string> overridden_;
};

/// The long names of the flags of `cli`, with their dashes.
std::vector<std::string> flag_names(const CLI::App& cli);

/// "; did you mean --listen?" for each word of the command line that `cli` did not take; may be empty.
std::string hints_for_extras(const CLI::App& cli);

/// The ATOLL_* variables of the environment that no flag of `cli` reads.
struct UnreadVariables {
    std::string mistyped;              // a line for each that is close to one that is read, ends between them
    std::vector<std::string> strange;  // a line for each other, but for those of the clients and the scripts
};
UnreadVariables unread_variables(const CLI::App& cli);

}  // namespace atl::app
