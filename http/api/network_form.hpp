// The member `network` of requests and of answers: a word, or an object where there is more to say.
#pragma once

#include <optional>

#include "core/base/json_writer.hpp"
#include "core/sandbox/types.hpp"
#include "http/access/access.hpp"
#include "http/api/schema_parts.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// Reads the member `network`; nothing where there is none. Errors go to `reader`: invalid_field,
/// unknown_field. The rules are in normal form then; sandbox::Egress::check() decides if they are allowed.
std::optional<sandbox::NetworkSettings> read_network(ObjectReader& reader);
/// The same for a sandbox without a conversation, where nobody can be asked.
std::optional<sandbox::NetworkSettings> read_network_alone(ObjectReader& reader);
/// The key sets `network`: its user's ceilings bind it, and the host's network is for keys without a user.
/// Errors: network_not_allowed.
base::Result<void> claim_network(const Principal& principal, sandbox::NetworkSettings& network);
void write_network(base::JsonWriter& json, const sandbox::NetworkSettings& network);
/// The schemas Network and NetworkMode.
void add_network_schemas(Schema& out);

}  // namespace atl::http
