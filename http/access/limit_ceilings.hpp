// Ceilings on the sandbox limits that a request may ask for: the server's ceilings hold for every key, a
// key's ceilings for that key. Without either, a key with a user has base::k_user_…, and any other key has no
// ceiling.
// Not here: limits on all sandboxes together (sandbox::ManagerSettings).
#pragma once

#include <span>
#include <string_view>

#include "core/base/error.hpp"
#include "http/access/access.hpp"
#include "http/access/limit_changes.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// One limit: its name and its members.
struct LimitName {
    std::string_view api;   // "memoryMb", in requests and in keys.json
    std::string_view flag;  // "memory-mb", in flags of the server and of `atolld keys add`
    IntRange range;
    std::uint32_t sandbox::Limits::*value;
    std::optional<std::uint32_t> LimitChanges::*change;
    std::uint32_t user_ceiling;
};

/// All limits that a request can name.
std::span<const LimitName> limit_names() noexcept;

/// The ceilings for a request of `principal`; a limit without a ceiling is empty.
LimitChanges ceilings_for(const Principal& principal, const LimitChanges& of_server) noexcept;

/// `member` is the one of the request that has the limits; empty: they are its own members. Errors:
/// limit_not_allowed, naming the first limit that is above its ceiling.
base::Result<void> check_ceilings(const LimitChanges& asked, const LimitChanges& ceilings,
                                  std::string_view member = "limits");

/// `limits`, each no higher than its ceiling.
sandbox::Limits lowered_to(const LimitChanges& ceilings, sandbox::Limits limits) noexcept;

}  // namespace atl::http
