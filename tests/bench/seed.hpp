// Fills the database of a data directory with conversations that rest, through the product's own store: what
// a server has on its disk after a long life. Rows only: there is no workspace to any of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace atl::bench {

struct Seed {
    std::size_t conversations = 0;
    std::size_t events = 0;  // of each conversation's one turn, at least 2
    std::size_t event_bytes = 0;
};

/// Facts about the rows, for filters. 67 of 100 rows are paused, 30 ended, 3 in error; they were made over
/// the last 200 days. Each has a title and one of 5,000 users; the first user has a twentieth of all rows. A
/// third of all rows has the agent `auditor`, and none of these has `team` a, which half of all have.
struct Seeded {
    std::string sandbox_id;  // of one in the middle
    std::string middle;      // RFC 3339: half of all were made before, and last used after
};

inline constexpr const char* k_seeded_user = "user-0";

/// Makes `data_dir` if it is not there. Throws if a commit fails.
Seeded seed(const std::filesystem::path& data_dir, const Seed& seed);

/// The options of a server that keeps all of these and takes more.
std::vector<std::string> seeded_options();

}  // namespace atl::bench
