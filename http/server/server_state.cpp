#include "http/server/server_state.hpp"

#include <chrono>

#include "core/base/ids.hpp"
#include "http/wire/message.hpp"

namespace atl::http {
namespace {

constexpr std::size_t k_id_prefix_length = 10;

}  // namespace

ServerState::ServerState(const base::Clock& clock_in, base::Timers& timers_in, Settings settings_in)
    : settings(std::move(settings_in)),
      clock(clock_in),
      timers(timers_in),
      own_bodies({"bodies", "bytes", "", settings.body_budget_bytes}, 100),
      bodies(settings.bodies != nullptr ? *settings.bodies : own_bodies),
      refusals(timers),
      id_prefix_(base::new_id().substr(0, k_id_prefix_length) + '-') {}

const std::string& ServerState::date() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    if (second != date_second_) {
        date_second_ = second;
        date_ = http_date(second);
    }
    return date_;
}

std::string ServerState::new_request_id() {
    return id_prefix_ + std::to_string(++last_request_);
}

}  // namespace atl::http
