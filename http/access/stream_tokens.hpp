// Tokens that open one conversation's stream to a browser, whose EventSource and WebSocket cannot send a key:
// signed, for one conversation, for a while, for reading or for chatting. A token is its own record:
//     v1.CONVERSATION.SCOPE.EXPIRY.SIGNATURE     EXPIRY in seconds since 1970, SIGNATURE in hexadecimal
// The server stores no token, so only a new signing key can revoke one before its expiry.
// Not here: reading a token from a request (session.cpp).
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "http/access/access.hpp"

namespace atl::http {

class StreamTokens final : public TokenVerifier {
  public:
    /// `signing_key`: secret, 32 bytes or more, else it throws. `clock` must outlive this.
    StreamTokens(std::string signing_key, const base::Clock& clock);

    struct Issued {
        std::string token;
        base::WallTime expires_at;
    };
    /// Precondition: `conversation_id` is an id, `scope` is read or chat.
    Issued issue(std::string_view conversation_id, Scope scope, std::chrono::seconds ttl) const;

    /// The principal of the token's bearer. Errors: token_expired if the token was good for this
    /// conversation, else unauthorized.
    base::Result<Principal> verify(std::string_view token, std::string_view conversation_id) const override;

  private:
    std::string sign(std::string_view claims) const;

    std::string signing_key_;
    const base::Clock& clock_;
};

}  // namespace atl::http
