// The opening handshake of a WebSocket, server side (RFC 6455 section 4.2). Pure functions of a request.
#pragma once

#include <memory>

#include "core/base/error.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Checks that `request` opens a WebSocket. Errors: upgrade_required if the request does not ask for a
/// WebSocket or asks for another version; invalid_request for a broken handshake.
base::Result<void> check_handshake(const Request& request);

/// The 101 that accepts the handshake, with `takeover` to serve the connection. It names no extension, which
/// declines those that the client offers (RFC 6455 section 9.1). Precondition: check_handshake().
Response accept_handshake(const Request& request, std::unique_ptr<Takeover> takeover);

}  // namespace atl::http
