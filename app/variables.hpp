// Values of flags from the environment: below the command line, above the config file, with the same checks.
// CLI11 is not left to read them: from 2.4 on it passes over a variable whose whole text fails a check,
// without a word, also a list that would be good once it is split; and a key of the file would win over a
// variable.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace atl::app {

class Variables {
  public:
    /// Takes the names of the variables from the flags of `cli`, which has all of them and outlives this, and
    /// gives them back at its end: the help tells them. A flag of a command has none.
    explicit Variables(CLI::App& cli);
    ~Variables();
    Variables(const Variables&) = delete;
    Variables& operator=(const Variables&) = delete;

    /// The keys of the config file that do not count, since a variable is set in their place.
    std::vector<std::string> overridden_keys() const;

    /// After the parse: gives each flag that the command line does not have the value of its variable, of a
    /// repeatable flag several with commas between them. An empty variable counts as none. Throws
    /// CLI::ValidationError that names the variable.
    void apply();

  private:
    struct Named {
        CLI::Option* option;
        std::string name;
    };
    std::vector<Named> all_;
};

}  // namespace atl::app
