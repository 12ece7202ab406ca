// Logs that a limit was reached, a few lines a second at most, whoever asks: who is refused does not fill the
// log.
#pragma once

#include "core/base/error.hpp"
#include "http/access/client_address.hpp"
#include "http/access/rate_limiter.hpp"

namespace atl::http {

class LimitLog {
  public:
    LimitLog();
    void log(const base::Error& error, const PeerAddress& address);

  private:
    RateLimiter lines_;
};

}  // namespace atl::http
