// The data of the events that the server itself writes into a log, as the text of JSON objects. What is not
// UTF-8 in a text is replaced. Internal to core/conversation.
#pragma once

#include <string>
#include <string_view>

#include "core/conversation/actions.hpp"

namespace atl::conversation {

std::string session_data(const Record& record);
std::string ready_data(std::uint32_t generation);
std::string resumed_data(std::uint32_t generation, PauseMode mode);
std::string paused_data(const action::LogSandboxPaused& paused);
std::string exit_data(const sandbox::Exit& exit);
std::string warning_data(std::string_view resource, std::uint64_t used, std::uint64_t limit);
std::string error_data(std::string_view code, std::string_view message);

}  // namespace atl::conversation
