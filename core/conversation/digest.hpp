// A digest of a message, to tell a retry from another message under the same Idempotency-Key.
#pragma once

#include <string>
#include <string_view>

namespace atl::conversation {

/// SHA-256 in hexadecimal.
std::string digest(std::string_view text);

}  // namespace atl::conversation
