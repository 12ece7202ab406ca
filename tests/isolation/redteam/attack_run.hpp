// An attack that is going on: in a sandbox, or outside as an unsandboxed process under the rlimits of a
// sandbox. The object's end is the attack's end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/isolation/lab.hpp"

namespace atl::test {

/// The output of an attack.
struct Loot {
    std::map<std::string, std::uint64_t> taken;
    std::map<std::string, std::string> refused;  // names of errnos
    bool holding = false;                        // it came as far as it could; false: it was ended before
    std::string text;                            // the whole output, with the shell's own lines

    /// Fails the test if the attack told nothing of `key`: a missing program never passes for a refusal.
    std::uint64_t operator[](const std::string& key) const;
};

/// The longest that an attack may go on.
inline constexpr std::chrono::seconds k_attack_limit{60};

class AttackInside {
  public:
    /// Starts the attack in a sandbox of its own, through the shell agent, and returns at once. `request`: of
    /// the conversation, for its limits. `--seconds` is added if `words` have none.
    AttackInside(Lab& lab, const Words& words, const Json& request = Json::object());

    Sandbox& sandbox() noexcept { return sandbox_; }
    /// Waits until it holds its loot, or until its turn or sandbox has ended.
    const Loot& loot(std::chrono::milliseconds deadline = k_attack_limit);
    /// The events of its turn that have been read so far.
    const std::vector<Json>& events() const noexcept { return events_; }

  private:
    Sandbox sandbox_;
    HttpClient stream_;
    std::vector<Json> events_;
    Loot loot_;
    bool told_ = false;
};

/// Name of an rlimit as prlimit(1) takes it -> hard limit, as a process in this sandbox has it. Where a group
/// bounds the processes, their rlimit is that number.
using Rlimits = std::map<std::string, std::string>;
Rlimits rlimits_of(Sandbox& sandbox);

class AttackOutside {
  public:
    /// Starts the same attack as an unprivileged user of its own.
    AttackOutside(const Words& words, const Rlimits& rlimits);

    const Loot& loot();

  private:
    std::unique_ptr<HostProcess> process_;
    std::optional<Loot> loot_;
};

/// The user of attacks outside: no server of a test runs as this one.
uid_t attacker_uid();

/// The program `attack` in a folder that every user can go to. Fails the test if it was not built.
const std::filesystem::path& attack_program();

Loot loot_of(std::string text);

}  // namespace atl::test
