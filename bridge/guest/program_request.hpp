// The program that a command is to start, as its members tell, taken apart and checked. Not here: starting it
// (exec_run.hpp, background_process.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/guest/loop.hpp"
#include "bridge/guest/spawn.hpp"
#include "bridge/json_scan.hpp"

namespace atl::guest {

/// The members themselves and what is in argv and env; nothing nests deeper.
inline constexpr std::size_t k_max_program_depth = 3;

struct ProgramRequest {
    enum class Stdin : std::uint8_t { none, pipe };

    std::optional<std::string> script;  // for a shell; else argv
    std::vector<std::string> argv;
    std::string directory;
    std::vector<std::string> environment;  // NAME=VALUE
    Millis timeout{0};                     // 0: none
    Stdin stdin_kind = Stdin::none;        // none: /dev/null
};

/// Why a program does not run; an empty `error`: it does.
struct ProgramRefusal {
    std::string error;
    std::string_view code;  // a word of bridge::refusal, or empty
};

/// The refusal that the errno of a start means to the host.
ProgramRefusal program_refusal(int error_number, std::string error);

/// A pipe of which the guest's end, of that index, does not block: each end has a file description of its
/// own.
bool make_pipe(base::UniqueFd& own, base::UniqueFd& other, int own_index);

/// Reads the members that a program has. A command with more of them derives from this.
struct ProgramVisitor : bridge::ObjectVisitor {
    ProgramRequest request;
    std::string refusal;  // why the scan was stopped

    bool refuse(std::string why) {
        refusal = std::move(why);
        return false;
    }
    bool on_string(const std::string& key, std::string& value);
    bool on_bool(const std::string& key, bool value);
    bool on_unsigned(const std::string& key, std::uint64_t value);
    bool on_array(const std::string& key, std::string_view span);
    bool on_object(const std::string& key, std::string_view span);
};

/// Why `request` cannot be run; an empty error if it can. Makes its directory absolute.
ProgramRefusal check_program(ProgramRequest& request, const std::string& workspace);

/// Starts `request` as spawn() does; `spawned` has the descriptors, and gets the rest from `request`.
pid_t spawn_program(SpawnRequest& spawned, const ProgramRequest& request);

}  // namespace atl::guest
