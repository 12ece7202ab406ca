// The values of the core as the JSON of the API. Pure; the order of fields is that of the documentation.
#pragma once

#include "core/base/json_writer.hpp"
#include "core/conversation/manager.hpp"
#include "core/conversation/types.hpp"

namespace atl::http {

void write_conversation(base::JsonWriter& json, const conversation::View& view);
void write_sandbox(base::JsonWriter& json, const conversation::Manager::SandboxView& view);
void write_enforcement(base::JsonWriter& json, const sandbox::Enforcement& enforcement);

std::string conversation_json(const conversation::View& view);
std::string sandbox_json(const conversation::Manager::SandboxView& view);
std::string sandbox_usage_json(const conversation::Manager::SandboxUsage& report);
std::string log_page_json(const sandbox::LogPage& page);

}  // namespace atl::http
