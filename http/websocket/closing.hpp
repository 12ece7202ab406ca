// How the server ends a WebSocket: the close codes of its own and the reasons that tell a client how to go
// on; and the WebSocket that is opened only to be closed, for a browser's page, which reads a close frame but
// no status of a refused handshake. Not here: frames (codec.hpp), when an open WebSocket is closed
// (http/api/frame_session.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "http/websocket/codec.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Codes for applications (RFC 6455 section 7.4.2). The reason of every close frame that the server begins is
/// close_reason(): a client resumes from `after`.
inline constexpr auto k_close_token_bad = static_cast<CloseCode>(4401);  // expired, or not a token
// The token is for something else, or the page of an origin that is not allowed.
inline constexpr auto k_close_forbidden = static_cast<CloseCode>(4403);
inline constexpr auto k_close_conversation_ended = static_cast<CloseCode>(4404);
inline constexpr auto k_close_cursor_void = static_cast<CloseCode>(4410);  // expired, or of another log

/// `{"logEpoch"?,"code":WORD,"after":SEQ,"detail"?}`. A `detail` that does not fit into a close frame beside
/// the rest is left out. `log_epoch`: of the log that `after` is a seq of; empty: it has none.
std::string close_reason(std::string_view word, std::uint64_t after, std::string_view detail = {},
                         std::string_view log_epoch = {});

/// The 101 that accepts the handshake, in one write with the close frame that ends the WebSocket. It agrees
/// to no extension and obeys no frame. The connection ends with the client's close frame, and at `cut_at`
/// without one. Precondition: check_handshake().
Response close_at_handshake(const Request& request, CloseCode code, std::string_view reason,
                            base::SteadyTime cut_at);

}  // namespace atl::http
