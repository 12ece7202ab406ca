// Identifiers: lower-case letters and digits drawn from getrandom(2); 20 characters of a 32-letter
// alphabet are 100 bits. Valid as a DNS label, a file name and a cgroup name as they are.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace atl::base {

inline constexpr std::size_t k_id_length = 20;

/// Random bytes that nobody can guess. Aborts the process if the kernel has none to give.
void fill_random(std::span<unsigned char> bytes);

/// A new id that nobody can guess. Aborts the process if the kernel has no randomness to give.
std::string new_id();

/// True if `text` has the form of an id from new_id(). Every id that names a file or a row is checked with
/// this function.
bool is_id(std::string_view text) noexcept;

}  // namespace atl::base
