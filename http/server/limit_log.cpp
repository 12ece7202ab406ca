#include "http/server/limit_log.hpp"

#include <chrono>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::http {
namespace {

constexpr RateLimiter::Rate k_lines{std::chrono::seconds{1}, 10};

}  // namespace

LimitLog::LimitLog() : lines_(k_lines, 1) {}

void LimitLog::log(const base::Error& error, const PeerAddress& address) {
    if (lines_.take(0, std::chrono::steady_clock::now()) > RateLimiter::Nanos::zero())
        return;
    base::LogLine(base::evt::limit_reached)
        .field("addr", address_text(address))
        .quoted("err", error.detail())
        .warn();
}

}  // namespace atl::http
