// The web console's files as they are built in, and the routes that serve them. They hold no secret and
// answer without a key; one Content-Security-Policy bounds their rights in a browser. Not here: the behaviour
// of the console (console/README.md).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "http/server/router.hpp"

namespace atl::http {

/// A file of the console, in static storage.
struct ConsoleFile {
    std::string_view name;          // "console.css"
    std::string_view content_type;  // with its charset
    std::string_view etag;          // quoted, of the bytes
    std::string_view bytes;
};

/// Every file, in no order that matters. Made from http/console by embed.cmake.
std::span<const ConsoleFile> console_files() noexcept;

/// True if the build had the package of the terminal (npm/README.md).
bool console_has_terminal() noexcept;

/// True if `if_none_match` (RFC 9110 section 13.1.2) names `etag`: then the client has these bytes already.
bool etag_matches(std::string_view if_none_match, std::string_view etag) noexcept;

/// `GET /` and `GET /console/{file}`. `frames`: what the page may show in a frame, as the sources of a
/// Content-Security-Policy; empty: nothing.
std::vector<Route> console_routes(std::string_view frames = {});

}  // namespace atl::http
