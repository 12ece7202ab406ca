// The engines of code mode that this server knows, and whether each can run programs here: read at the start
// from the list beside the server's programs and from the folder of packages that scripts/setup --executors
// fills, and again while something is missing (executions.hpp); what their runners then show is noted. Not
// here: what an engine does (bridge/runner).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/sandbox/types.hpp"

namespace atl::execution {

/// The name of an executor in a request that leaves the choice to the server.
inline constexpr std::string_view k_auto_executor = "auto";

enum class Language : std::uint8_t { javascript, typescript, python };
std::string_view to_string(Language language) noexcept;
std::optional<Language> parse_language(std::string_view word) noexcept;

struct Engine {
    std::string name;
    std::vector<Language> languages;
    std::string version;  // of its package; empty: not known
    std::string isolates;
    std::vector<std::string> weaknesses;
    std::string reason;             // why it cannot run a program here; empty: it can
    std::filesystem::path folder;   // of the host, shown to its sandboxes as base::k_inner_agent_dir
    std::vector<std::string> argv;  // inside
    sandbox::Environment env;

    bool is_available() const noexcept { return reason.empty(); }
    bool speaks(Language language) const noexcept;
    /// executor_unavailable, with the reason. Precondition: it is not available.
    base::Error unavailability() const;
};

struct EngineFolders {
    std::filesystem::path runners;   // has runner/engines.json, and runs what needs no package
    std::filesystem::path packages;  // has runner/ and node_modules/; may be missing
};

class Engines {
  public:
    explicit Engines(std::vector<Engine> all) : all_(std::move(all)) {}
    /// Errors: host_unsupported, where the server's own list is missing or damaged.
    static base::Result<Engines> read(const EngineFolders& folders);

    std::span<const Engine> all() const noexcept { return all_; }
    /// The first file of the packages' runner that differs from this server's, as after an upgrade of the
    /// server alone; empty: none does, or there are no packages. Engines with packages have it as a weakness.
    const std::filesystem::path& stale_runner() const noexcept { return stale_runner_; }
    /// The engine for a request: `executor` is a name or `auto`. Sets `language` where the request names
    /// none. Errors: invalid_field for a name that is none, or an engine that does not speak the language;
    /// executor_unavailable.
    base::Result<const Engine*> choose(std::string_view executor, std::optional<Language>& language) const;
    /// The languages in which a program can run now.
    std::vector<Language> languages() const;
    /// True if an engine cannot run a program here, or has a runner of another version of the server.
    bool is_incomplete() const noexcept;
    /// Takes over what `fresh`, read later, says of the engines that `may` is true of. Pointers to engines
    /// stay valid. True if one can run programs that could not before.
    bool renew(const Engines& fresh, const std::function<bool(const Engine&)>& may);
    /// Why `engine` of all() cannot run a program now; empty: it can.
    void set_reason(const Engine& engine, std::string reason);

  private:
    std::vector<Engine> all_;
    std::filesystem::path stale_runner_;
};

}  // namespace atl::execution
