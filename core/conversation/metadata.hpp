// The metadata of a conversation: a JSON object that belongs to the client. Internal to core/conversation.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace atl::conversation {

/// `metadata` after a JSON merge patch (RFC 7396); both are the text of an object. Errors: invalid_field if
/// the result has more than k_max_metadata_bytes.
base::Result<std::string> merge_metadata(const std::string& metadata, const std::string& patch);

}  // namespace atl::conversation
