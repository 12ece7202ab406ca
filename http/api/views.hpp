// The values of the core as the JSON of the API. Pure; the order of fields is that of the documentation.
#pragma once

#include <functional>
#include <string>

#include "core/base/json_writer.hpp"
#include "core/conversation/manager.hpp"
#include "core/conversation/types.hpp"

namespace atl::http {

/// The address of a sandbox's preview, whose first port this is; it ends in "/". Empty: there are none.
using PublicUrl = std::function<std::string(const std::string& sandbox_id, std::uint16_t first_port)>;
/// The same of one sandbox; empty: it has none, as one with the host's network, which has no ports of its
/// own.
std::string preview_url(const PublicUrl& url, const std::string& sandbox_id, sandbox::NetworkMode network,
                        const sandbox::PreviewSettings& preview);

/// The content of a conversation's open turn: left out of its JSON, or written.
enum class TurnContent : std::uint8_t { left_out, written };
/// With TurnContent::written an open turn has its `start`.
void write_conversation(base::JsonWriter& json, const conversation::View& view, TurnContent content,
                        const PublicUrl& url);
void write_sandbox(base::JsonWriter& json, const conversation::Manager::SandboxView& view,
                   const PublicUrl& url);
void write_enforcement(base::JsonWriter& json, const sandbox::Enforcement& enforcement);

/// With the content of the open turn.
std::string conversation_json(const conversation::View& view, const PublicUrl& url);
std::string sandbox_json(const conversation::Manager::SandboxView& view, const PublicUrl& url);
std::string sandbox_usage_json(const conversation::Manager::SandboxUsage& report);
std::string log_page_json(const sandbox::LogPage& page);

}  // namespace atl::http
