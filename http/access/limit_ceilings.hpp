// Ceilings on the sandbox limits that a request may ask for: the server's ceilings hold for every key, a
// key's ceilings for that key. Without either, a key with a user has the table's, and any other key none.
// Not here: limits on all sandboxes together (sandbox::ManagerSettings).
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "http/access/access.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// The members of the object that are limits. A value outside its range fails the reader.
sandbox::LimitChanges read_limit_changes(ObjectReader& reader);

/// The ceilings for a request of `principal`; a limit without a ceiling is empty.
sandbox::LimitChanges ceilings_for(const Principal& principal,
                                   const sandbox::LimitChanges& of_server) noexcept;

/// `member` is the one of the request that has the limits; empty: they are its own members. Errors:
/// limit_not_allowed, naming the first limit that is above its ceiling.
base::Result<void> check_ceilings(const sandbox::LimitChanges& asked, const sandbox::LimitChanges& ceilings,
                                  std::string_view member = "limits");

/// `limits`, each no higher than its ceiling.
sandbox::Limits lowered_to(const sandbox::LimitChanges& ceilings, sandbox::Limits limits) noexcept;

}  // namespace atl::http
