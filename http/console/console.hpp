// The web console's files as they are built in, and the routes that serve them. They hold no secret and
// answer without a key; one Content-Security-Policy bounds their rights in a browser. Not here: the behaviour
// of the console (console/README.md).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "http/server/router.hpp"

namespace atl::http {

/// One file of the console. Of static storage.
struct ConsoleFile {
    std::string_view name;          // "console.css"
    std::string_view content_type;  // with its charset
    std::string_view etag;          // quoted, of the bytes
    std::string_view bytes;
};

/// Every file, in no order that matters. Made from http/console by embed.cmake.
std::span<const ConsoleFile> console_files() noexcept;

/// True if `if_none_match` (RFC 9110 section 13.1.2) names `etag`: then the client has these bytes already.
bool etag_matches(std::string_view if_none_match, std::string_view etag) noexcept;

/// `GET /` and `GET /console/{file}`.
std::vector<Route> console_routes();

}  // namespace atl::http
