// The choice of a victim where something of the host runs short: the user who takes most, then that user's
// largest things. Many small things of one user so end none of another's. Pure.
// Not here: how much a thing takes, and its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/shares.hpp"

namespace atl::base {

/// The part that one thing takes of a resource that runs short.
struct Taking {
    std::string id;  // empty: it counts for its user and cannot be ended
    ShareHolder user;
    std::uint64_t amount = 0;
};

struct UserTakings {
    std::uint64_t total = 0;
    std::vector<Taking> things;  // the largest first
};

/// Users with what they take, the one who takes most first; among equals in the order of their names.
std::vector<UserTakings> takings_by_user(std::vector<Taking> all);

struct Victims {
    std::uint64_t total = 0;       // taken by their user
    std::vector<std::string> ids;  // the largest first
};

/// The largest things of the user who takes most, until they take `enough` together. None where that user
/// takes less.
Victims choose_victims(std::vector<Taking> all, std::uint64_t enough);

}  // namespace atl::base
