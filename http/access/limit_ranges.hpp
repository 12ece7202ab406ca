// The valid range of each sandbox limit, for every key. Ceilings of a key: limit_ceilings.hpp.
#pragma once

#include "core/base/limits.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

inline constexpr IntRange k_memory_mb_range{16, 1'048'576};
inline constexpr IntRange k_cpu_percent_range{1, 6'400};
inline constexpr IntRange k_disk_mb_range{1, 1'048'576};
inline constexpr IntRange k_tmp_mb_range{1, 1'048'576};
inline constexpr IntRange k_max_processes_range{1, 65'536};
inline constexpr IntRange k_max_sockets_range{base::k_least_sockets, base::k_most_sockets};
inline constexpr IntRange k_max_open_files_range{base::k_least_open_files, base::k_most_open_files};

}  // namespace atl::http
