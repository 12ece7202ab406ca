// Which extensions of the WebSocket protocol a client offers (RFC 6455 section 9.1) and what becomes of them:
// permessage-deflate (RFC 7692 section 7.1), always without taking a context over, or nothing. Pure. Not
// here: the compression (websocket_deflate.hpp), the rest of the handshake (websocket_handshake.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

inline constexpr std::string_view k_extensions_field = "Sec-WebSocket-Extensions";

enum class Compression : std::uint8_t { none, deflate };

/// What both sides will do.
struct Agreement {
    Compression compression = Compression::none;
    std::string response;  // the value of the response's field; empty: no such field
};

/// Takes the first offer that can be met of those in `request`, if the server wants to compress at all. What
/// is not known, or cannot be met, is declined by silence. Errors: invalid_request for a field that is no
/// list of extensions, with which RFC 6455 wants the connection to fail.
base::Result<Agreement> agree_on_extensions(const Request& request, Compression wanted);

}  // namespace atl::http
