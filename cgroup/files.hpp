// The small text files of a cgroup folder: one write or one read each, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::cgroup {

/// The file's text, empty if it cannot be read.
std::string read_at(int folder, const char* name);

/// 0 or errno.
int write_at(int folder, const char* name, std::string_view text);

bool exists_at(int folder, const char* name);

/// A file that holds one number; none if it is not there, or says "max".
std::optional<std::uint64_t> number_at(int folder, const char* name);

/// The number behind `key` in a file of lines "key number".
std::optional<std::uint64_t> keyed_number_at(int folder, const char* name, std::string_view key);

}  // namespace atl::cgroup
