#include "core/conversation/event_words.hpp"

#include <nlohmann/json.hpp>

namespace atl::conversation {
namespace {

std::string text_of(const nlohmann::json& data) {
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string session_data(const Record& record) {
    return text_of({{"agent", record.agent}, {"sandboxId", record.sandbox_id}});
}

std::string ready_data(std::uint32_t generation) {
    return text_of({{"generation", generation}});
}

std::string resumed_data(std::uint32_t generation, PauseMode mode) {
    return text_of({{"generation", generation}, {"mode", to_string(mode)}});
}

std::string paused_data(const action::LogSandboxPaused& paused) {
    return text_of(
        {{"reason", to_string(paused.reason)}, {"mode", to_string(paused.mode)}, {"detail", paused.detail}});
}

std::string exit_data(const sandbox::Exit& exit) {
    nlohmann::json data{{"class", to_string(exit.exit_class)}, {"code", exit.code}, {"detail", exit.detail}};
    if (exit.limit_bytes)
        data["limitBytes"] = *exit.limit_bytes;
    if (exit.peak_bytes)
        data["peakBytes"] = *exit.peak_bytes;
    return text_of(data);
}

std::string warning_data(std::string_view resource, std::uint64_t used, std::uint64_t limit) {
    return text_of({{"resource", resource}, {"used", used}, {"limit", limit}});
}

std::string error_data(std::string_view code, std::string_view message) {
    return text_of({{"code", code}, {"message", message}});
}

}  // namespace atl::conversation
