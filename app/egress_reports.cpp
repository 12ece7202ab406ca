#include "app/egress_reports.hpp"

#include <utility>

namespace atl::app {

base::Result<std::shared_ptr<http::EgressRecorder>> open_egress_recorder(const Config& config,
                                                                         const base::Clock& clock,
                                                                         base::Timers& timers,
                                                                         conversation::Manager& conversations,
                                                                         const sandbox::Manager& sandboxes) {
    std::unique_ptr<http::EgressLog> log;
    if (!config.egress_log.empty()) {
        auto opened = http::EgressLog::open(config.egress_log);
        if (!opened)
            return opened.error();
        log = std::move(*opened);
    }
    auto tell = [&conversations](const std::string& sandbox_id, const conversation::EgressNotice& notice) {
        conversations.on_egress(sandbox_id, notice);
    };
    auto owner = [&conversations, &sandboxes](const std::string& sandbox_id) {
        http::EgressOwner found;
        if (const auto* const record = conversations.record_of_sandbox(sandbox_id)) {
            found.conversation_id = record->id;
            found.user_id = record->user_id;
        } else if (const auto* const sandbox = sandboxes.find(sandbox_id)) {
            found.user_id = sandbox->user_id;
        }
        return found;
    };
    http::EgressRecorder::Ports ports{clock, timers, std::move(tell), std::move(owner)};
    return std::make_shared<http::EgressRecorder>(std::move(ports), std::move(log));
}

}  // namespace atl::app
