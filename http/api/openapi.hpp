// The OpenAPI document, made from the routing table, the component schemas and the recorded examples: it has
// exactly the routes of the table. Problems that several routes share are components. Not here: frames of
// streams, for which OpenAPI has no place; schemas that say so stand for them (frame_schemas.cpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "http/server/router.hpp"

namespace atl::http {

/// The OpenAPI 3.1 document.
nlohmann::ordered_json openapi_document(const std::vector<Route>& routes, std::string_view version);

/// components/schemas by name (JSON Schema 2020-12).
nlohmann::ordered_json component_schemas();

/// The errors that a route may give: its own errors, and those of its auth, its body and the transport.
std::vector<base::Errc> possible_errors(const Route& route);

}  // namespace atl::http
