// atoll-agent: stands between the guest and an agent that speaks another protocol. Started by the guest as
// the agent, with a recipe (recipe.hpp) as its one argument.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "bridge/adapters/driver.hpp"
#include "bridge/guest/spawn.hpp"

namespace {

using atl::adapter::Recipe;

/// An agent that speaks the guest's own lines needs nobody in between.
int become_program(const Recipe& recipe) {
    std::vector<char*> argv;
    for (const std::string& argument : recipe.argv)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    std::fprintf(stderr, "atoll-agent: cannot run %s: %s\n", argv[0], strerrordesc_np(errno));
    return 127;
}

}  // namespace

int main(int argc, char** argv) {
    std::optional<Recipe> recipe = argc == 2 ? atl::adapter::parse_recipe(argv[1]) : std::optional<Recipe>();
    if (!recipe) {
        std::fputs("atoll-agent: its argument is no recipe\n", stderr);
        return 64;  // EX_USAGE of sysexits.h
    }
    for (const auto& [name, value] : recipe->env)
        setenv(name.c_str(), value.c_str(), 1);
    std::string directory = atl::guest::workspace_directory();
    atl::adapter::AgentState state(directory, recipe->name);
    if (const std::string wrong = state.prepare(recipe->files); !wrong.empty()) {
        std::fprintf(stderr, "atoll-agent: cannot write the files of the agent: %s\n", wrong.c_str());
        return 73;  // EX_CANTCREAT
    }
    if (recipe->adapter == atl::adapter::Adapter::lines)
        return become_program(*recipe);
    atl::adapter::Driver driver(std::move(*recipe), std::move(directory), std::move(state));
    return driver.run();
}
