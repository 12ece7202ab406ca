// The data of the events that the server itself writes into a log, as the text of JSON objects. What is not
// UTF-8 in a text is replaced. Internal to core/conversation.
#pragma once

#include <string>
#include <string_view>

#include "core/conversation/actions.hpp"
#include "core/conversation/permissions.hpp"

namespace atl::conversation {

std::string session_data(const Record& record);
/// With the content as its last member: start_content() finds it there.
std::string start_data(const Message& message);
std::string ready_data(std::uint32_t generation);
std::string resumed_data(std::uint32_t generation, PauseMode mode);
std::string paused_data(const action::LogSandboxPaused& paused);
std::string exit_data(const sandbox::Exit& exit);
std::string warning_data(std::string_view resource, std::uint64_t used, std::uint64_t limit);
/// The data of port_closed.
std::string port_data(std::uint16_t port);
/// The data of port_opened; an empty `url` is null.
std::string port_data(std::uint16_t port, const std::string& url);
std::string files_data(const FileChange& change);
/// `url`: empty for none.
std::string preview_data(std::string_view url);
std::string tool_data(const ToolProgress& progress);
/// The data of egress_denied or egress_closed, as type_of() says.
std::string egress_data(const EgressNotice& notice);
inline EventType type_of(const EgressNotice& notice) noexcept {
    return notice.reason.empty() ? EventType::egress_closed : EventType::egress_denied;
}
/// The members of egress_request.
std::string question_data(const EgressQuestion& question);
/// The members of egress_resolved.
std::string decision_data(std::string_view id, std::string_view decision);
std::string permission_data(const PermissionDecision& decision);
std::string error_data(std::string_view code, std::string_view message);

}  // namespace atl::conversation
