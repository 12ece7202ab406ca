#include "core/conversation/conversation.hpp"

#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::conversation {
namespace {

// What an event costs in the log beyond its data.
constexpr std::size_t k_envelope_bytes = 96;
// Room that a truncated turn keeps for telling how it ended.
constexpr std::size_t k_closing_bytes = 64 * 1024;

}  // namespace

std::string error_data(std::string_view code, std::string_view message) {
    const nlohmann::json data = {{"code", code}, {"message", message}};
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Conversation::append_of_turn(EventType type, std::string_view data) {
    const EventPtr event = log->append(type, turn.record.turn, data);
    turn.logged_bytes += event->json.size();
    turn.last_was_error = type == EventType::error;
}

bool Conversation::admit(EventType type, std::size_t bytes) {
    const bool closing = type == EventType::turn_complete || type == EventType::error;
    const std::size_t bound = bounds.turn_bytes + (closing ? k_closing_bytes : 0);
    if ((!turn.truncated || closing) && turn.logged_bytes + bytes + k_envelope_bytes <= bound)
        return true;
    turn.truncated = true;
    turn.dropped_bytes += bytes;
    return false;
}

void Conversation::on_event(const sandbox::AgentEvent& event) {
    if (!machine.turn_running())
        return;
    const auto type = agent_event_type(event.name);
    if (!type) {
        on_bad_line("an event of an unknown name");
        return;
    }
    if (*type != EventType::done) {
        if (admit(*type, event.data.size()))
            append_of_turn(*type, event.data);
        return;
    }
    if (turn.dropped_bytes > 0)
        append_of_turn(EventType::output_truncated,
                       "{\"droppedBytes\":" + std::to_string(turn.dropped_bytes) + "}");
    if (const auto limit = events.limit_at_end(record.id))
        append_of_turn(EventType::error, error_data(error_code_of(limit->exit_class), limit->detail));
    append_of_turn(EventType::done, event.data.size() <= k_closing_bytes ? event.data : "{}");
    events.turn_done(record.id);
}

void Conversation::on_bad_line(std::string_view what) {
    if (!machine.turn_running() || turn.complaints++ >= base::k_max_protocol_complaints)
        return;
    base::LogLine(base::evt::agent_protocol).field("conv", record.id).quoted("err", what).warn();
    const std::string data = error_data("agent_protocol", what);
    if (admit(EventType::error, data.size())) {
        append_of_turn(EventType::error, data);
        // A refused line does not tell why a turn ended.
        turn.last_was_error = false;
    }
}

void Conversation::on_end(sandbox::QueryEnd end, std::string_view detail) {
    if (machine.turn_running() && end != sandbox::QueryEnd::done)
        events.query_ended(record.id, end, detail);
}

}  // namespace atl::conversation
