// The member `routes` of a network: upstreams with headers that programs inside do not see. Requests name the
// secrets that stand in headers; an operator's agents file may also name variables of the server's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_writer.hpp"
#include "core/sandbox/types.hpp"
#include "http/api/schema_parts.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

/// The value of a variable of the server's; nothing: it is not set.
using RouteVariables = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads `reader`'s member `routes` into normal form; none where there is none. Errors go to `reader`:
/// invalid_field, unknown_field. With `variables` a header may be {"env": NAME}: a route with one that is not
/// set is left out. What a route may name is checked in sandbox::Egress::check().
std::vector<sandbox::EgressRoute> read_routes(ObjectReader& reader,
                                              const RouteVariables* variables = nullptr);
/// Writes routes as they were read: names of secrets, never values.
void write_routes(base::JsonWriter& json, const std::vector<sandbox::EgressRoute>& routes);
/// Reads the objects in an array `allow`, in its order: rules of a host whose requests get headers. The name
/// of each is the rule as a text, as egress::Endpoint has it. Errors as of read_routes().
std::vector<sandbox::EgressRoute> read_hosts(const Json& allow, ObjectReader& network);
/// Writes such a rule.
void write_host(base::JsonWriter& json, const sandbox::EgressRoute& host);
/// The schemas NetworkRoute and NetworkHost.
void add_route_schemas(Schema& out);

}  // namespace atl::http
