// The values of the core as the JSON of the API. Pure; the order of fields is that of the documentation.
#pragma once

#include "core/conversation/manager.hpp"
#include "core/conversation/types.hpp"
#include "http/wire/json_writer.hpp"

namespace atl::http {

void write_conversation(JsonWriter& json, const conversation::View& view);
void write_sandbox(JsonWriter& json, const conversation::Manager::SandboxView& view);
void write_enforcement(JsonWriter& json, const sandbox::Enforcement& enforcement);

std::string conversation_json(const conversation::View& view);
std::string sandbox_json(const conversation::Manager::SandboxView& view);
std::string sandbox_usage_json(const conversation::Manager::SandboxUsage& report);
std::string log_page_json(const sandbox::LogPage& page);

}  // namespace atl::http
