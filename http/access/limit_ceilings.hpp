// The ceilings of what a request may ask for as limits of a sandbox: those of the server hold for every key,
// those of a key for that key. Without either a key with a user has base::k_user_…, any other none.
// Not here: what all sandboxes take together (sandbox::ManagerSettings).
#pragma once

#include <span>
#include <string_view>

#include "core/base/error.hpp"
#include "http/access/access.hpp"
#include "http/access/limit_changes.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// One limit: what it is called, and where it is kept.
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

/// What holds for a request of `principal`; empty where nothing does.
LimitChanges ceilings_for(const Principal& principal, const LimitChanges& of_server) noexcept;

/// Errors: limit_not_allowed, naming the first limit that is above its ceiling.
base::Result<void> check_ceilings(const LimitChanges& asked, const LimitChanges& ceilings);

/// `limits`, each no higher than its ceiling.
sandbox::Limits lowered_to(const LimitChanges& ceilings, sandbox::Limits limits) noexcept;

}  // namespace atl::http
