#include "http/api/tool_progress.hpp"

#include <utility>

#include "core/plain/operation_limits.hpp"
#include "core/plain/utf8.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {
namespace {

// The length limit of a guest's progress message.
constexpr std::size_t k_message_bytes = 200;

}  // namespace

std::string progress_message(std::string_view json) {
    const auto parsed = parse_json(json);
    if (parsed.has_error() || !parsed->is_object())
        return {};
    const auto found = parsed->find("message");
    if (found == parsed->end() || !found->is_string())
        return {};
    return base::excerpt(found->get<std::string>(), k_message_bytes);
}

ToolProgressLog::ToolProgressLog(conversation::Manager& conversations, std::string sandbox_id,
                                 std::string tool, std::string tool_call_id)
    : conversations_(conversations),
      sandbox_id_(std::move(sandbox_id)),
      progress_{std::move(tool_call_id), std::move(tool), "running", {}} {}

ToolProgressLog::~ToolProgressLog() {
    on_end(k_failed);
}

void ToolProgressLog::on_progress(std::string_view json) {
    const base::SteadyTime now = conversations_.clock().steady_now();
    if (is_told_ && now - told_at_ < base::k_tool_progress_interval)
        return;
    std::string message = progress_message(json);
    if (message.empty())
        return;
    is_told_ = true;
    told_at_ = now;
    progress_.message = std::move(message);
    conversations_.tool_progress(sandbox_id_, progress_);
}

void ToolProgressLog::on_end(std::string_view status) {
    if (!std::exchange(is_told_, false))
        return;
    progress_.status = status;
    progress_.message.clear();
    conversations_.tool_progress(sandbox_id_, progress_);
}

}  // namespace atl::http
