// Negotiates the extensions of the WebSocket protocol that a client offers (RFC 6455 section 9.1):
// permessage-deflate (RFC 7692 section 7.1), always without context takeover, or nothing. Pure. Not here: the
// compression (deflate.hpp), the rest of the handshake (handshake.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

inline constexpr std::string_view k_extensions_field = "Sec-WebSocket-Extensions";

enum class Compression : std::uint8_t { none, deflate };

/// The extension parameters that both sides agreed on.
struct Agreement {
    Compression compression = Compression::none;
    std::string response;  // the value of the response's field; empty: no such field
};

/// Takes the first offer in `request` that the server can meet, if it wants to compress at all. Other offers
/// are left out of the answer, which declines them. Errors: invalid_request for a field that is no list of
/// extensions: RFC 6455 then wants the connection to fail.
base::Result<Agreement> agree_on_extensions(const Request& request, Compression wanted);

}  // namespace atl::http
