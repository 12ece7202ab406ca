// The reference of the API as a page of HTML for people, made of the OpenAPI document and the table of
// errors: routes, schemas, events and errors. It has no scripts and nothing of any client. Not here: guides
// (docs/).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "http/server/router.hpp"

namespace atl::http {

/// The page of an OpenAPI document. Each code of an error is the id of its section.
std::string docs_page(const nlohmann::ordered_json& document);

/// `GET /docs`, which shows `page` once that is there. The page outlives no route: they share it.
Route docs_route(std::shared_ptr<const std::string> page);

}  // namespace atl::http
