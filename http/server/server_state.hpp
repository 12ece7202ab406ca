// State that all sessions of a server share. The Server owns it; sessions only refer to it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "http/server/refusal_log.hpp"
#include "http/server/settings.hpp"
#include "http/wire/body_budget.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

class ServerState {
  public:
    static constexpr std::size_t k_statuses = 600;

    ServerState(const base::Clock& clock, base::Timers& timers, Settings settings);

    const Settings settings;
    const base::Clock& clock;
    base::Timers& timers;
    base::Budget own_bodies;    // where Settings name none
    mutable BodyBudget bodies;  // who reads a message takes a place
    mutable RefusalLog refusals;
    bool stopping = false;
    std::array<std::uint64_t, k_statuses> responses{};  // of all services, by status, since the start
    std::shared_ptr<const TlsContext> tls;              // of new TCP connections; null: they are plain

    /// The Date field of now, made once a second.
    const std::string& date();
    /// Unique over all starts of the server, cheap to make.
    std::string new_request_id();
    void count_response(unsigned status) noexcept { ++responses[status < k_statuses ? status : 0]; }

  private:
    std::string date_;
    std::int64_t date_second_ = -1;
    std::string id_prefix_;
    std::uint64_t last_request_ = 0;
};

}  // namespace atl::http
