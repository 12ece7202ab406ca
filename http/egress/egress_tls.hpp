// TLS towards an upstream that the server verifies itself: the stream is handed on once the handshake is
// done. Not here: the rules of TLS (http/wire/tls_context.hpp).
#pragma once

#include <memory>

#include "core/base/clock.hpp"
#include "http/egress/egress_parts.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

/// `timers` must outlive what it gives, which has `context`, one of TlsContext::make_client().
EgressSecure make_egress_tls(base::Timers& timers, std::shared_ptr<const TlsContext> context);

}  // namespace atl::http
