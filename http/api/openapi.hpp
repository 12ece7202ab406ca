// The server's own description, made of the routing table and the component schemas: what is not in the table
// is not in the document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "http/server/router.hpp"

namespace atl::http {

/// The OpenAPI 3.1 document as JSON text.
std::string openapi_document(const std::vector<Route>& routes, std::string_view version);

/// components/schemas by name (JSON Schema 2020-12).
nlohmann::ordered_json component_schemas();

/// The errors that a route may give: its own, and those of its auth, body and the transport.
std::vector<base::Errc> possible_errors(const Route& route);

}  // namespace atl::http
