// The forms of request bodies: JSON to the request types of the core. Checks only the form (types, ranges,
// unknown names); the core decides what is allowed. Errors: invalid_field, unknown_field, naming the field.
// schemas.cpp publishes the same ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/limits.hpp"
#include "core/conversation/manager.hpp"
#include "core/conversation/types.hpp"
#include "http/access/access.hpp"
#include "http/wire/json_reader.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

inline constexpr IntRange k_seconds_range{0, base::k_max_named_time.count()};
inline constexpr IntRange k_page_range{1, base::k_max_page_items};
inline constexpr IntRange k_seq_range{0, INT64_MAX};
inline constexpr std::size_t k_max_agent_name_bytes = 64;
inline constexpr std::size_t k_max_frame_type_bytes = 32;

inline constexpr IntRange k_token_ttl_range{1, base::k_max_token_ttl.count()};

struct TokenForm {
    std::chrono::seconds ttl = base::k_default_token_ttl;
    Scope scope = Scope::read;
};

/// The member `env`: an object of strings. sandbox::check_env() says which names it may have.
sandbox::Environment read_env(ObjectReader& reader);
/// The Idempotency-Key of a request; empty if it has none. Errors: invalid_request.
base::Result<std::string> read_idempotency_key(const Request& request);
/// `ceilings` are those of the request's key: a limit above its ceiling is refused (limit_not_allowed). A
/// limit that the body does not name gets its value in `defaults`, or its ceiling if that is lower; what it
/// does not name of its preview is as in `preview`.
base::Result<conversation::CreateRequest> read_create_form(const Json& body,
                                                           const sandbox::LimitChanges& ceilings = {},
                                                           const sandbox::Limits& defaults = {},
                                                           const sandbox::PreviewSettings& preview = {});
base::Result<conversation::PatchRequest> read_patch_form(const Json& body,
                                                         const sandbox::LimitChanges& ceilings = {});
base::Result<conversation::Manager::SandboxRequest> read_sandbox_form(
    const Json& body, const sandbox::LimitChanges& ceilings = {}, const sandbox::Limits& defaults = {},
    const sandbox::PreviewSettings& preview = {});
base::Result<conversation::SandboxPatch> read_sandbox_patch_form(const Json& body,
                                                                 const sandbox::LimitChanges& ceilings = {});
/// The subject of a token. A conversation's may be of any scope, `read` by default; a sandbox's is for its
/// files, its terminal or its preview, and must name one; an execution's reads or chats.
enum class TokenOf : std::uint8_t { conversation, sandbox, execution };
base::Result<TokenForm> read_token_form(const Json& body, TokenOf of);
base::Result<conversation::PauseMode> read_pause_form(const Json& body);
/// The text of `{content: string | [{type:"text", text}]}`; several parts are joined by line ends.
base::Result<std::string> read_message_form(const Json& body);
/// The request in a client's WebSocket frame: `{type:"message", content, idempotencyKey?, id?}`, content as
/// above, `{type:"interrupt", id?}`, or `{type:"permission", permissionId, id?}` with the members of a
/// PermissionForm.
struct ClientFrame {
    enum class Kind : std::uint8_t { message, interrupt, permission };
    Kind kind = Kind::interrupt;
    std::string content;
    std::string idempotency_key;
    std::string permission_id;
    std::string option_id;  // of a permission; empty: cancelled
    std::string id;         // as the text of JSON; empty: none
};
/// The `optionId` of `{optionId}`, or an empty text for `{outcome:"cancelled"}`.
base::Result<std::string> read_permission_form(const Json& body);
base::Result<ClientFrame> read_client_frame(const Json& body);
/// The text of the frame's `id`, also of a frame that is wrong otherwise. Nothing if it has none, or an id
/// that is neither a string of 1 to k_max_frame_id_bytes bytes nor an integer up to k_max_frame_id of either
/// sign.
std::optional<std::string> frame_id(const Json& body);

}  // namespace atl::http
