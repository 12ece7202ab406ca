// Runs a program to its end and reads what it writes. It blocks the caller: for programs that the server
// waits for while it starts. Not here: programs that live on (spawn.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace atl::isolation {

struct ProgramOutput {
    int exit_code = 0;
    std::string text;  // of stdout and stderr, the first 64 KiB
};

/// Runs `program` (a path) with `arguments` and an empty stdin. Errors: host_unsupported, with `hint` at the
/// end.
base::Result<ProgramOutput> run_program(const std::filesystem::path& program,
                                        const std::vector<std::string>& arguments,
                                        const std::string& hint = {});

}  // namespace atl::isolation
