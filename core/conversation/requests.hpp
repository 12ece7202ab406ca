// The requests to the manager of conversations, and their answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/conversation/list_filter.hpp"
#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

template <class T>
using Reply = std::function<void(base::Result<T>)>;

/// When the reply to a message is given.
enum class MessageReply : std::uint8_t {
    committed,  // the turn will be there whatever happens now
    at_once,    // for a caller that tells nobody of the turn before its first event, which comes after a
                // commit; possibly from inside the call
};

/// A page of a list; `next` is empty at the end.
template <class T>
struct Page {
    std::vector<T> items;
    std::string next;
};

/// The order of a list, by when a conversation was created.
enum class ListOrder : std::uint8_t { oldest_first, newest_first };

struct ListQuery {
    ListFilter filter;
    std::size_t limit = base::k_default_page_items;
    std::string cursor;  // as a page's `next` of the same order gave it
    ListOrder order = ListOrder::oldest_first;
};

/// A sandbox without a conversation.
struct SandboxRequest : sandbox::FieldChanges {
    std::optional<std::string> user_id;
    std::string made_by;  // the request's key; empty: the server's own
    std::string metadata = "{}";
    sandbox::Environment env;
    sandbox::Limits limits;
    sandbox::NetworkSettings network;
    sandbox::PreviewSettings preview;
    ToolSettings tools;
};

/// The changes of a sandbox without a conversation; a member that is not named stays.
struct SandboxPatch : sandbox::FieldChanges {
    std::optional<sandbox::LimitChanges> limits;
    std::optional<sandbox::NetworkSettings> network;
    sandbox::PreviewChanges preview;
    ToolChanges tools;
};

struct SandboxQuery {
    std::optional<std::string> user_id;  // the user's own, and those of the user's conversations
    std::size_t limit = base::k_default_page_items;
    std::string cursor;  // as a page's `next` gave it
};

/// A sandbox as the API shows it; `conversation_id` is empty without one.
struct SandboxView {
    sandbox::Record record;
    sandbox::Status status = sandbox::Status::pending;
    PauseReason reason = PauseReason::none;  // why one without a conversation has ended, where it is known
    PortUrls open_ports;
    sandbox::Enforcement enforcement;
};

/// A sandbox as its preview needs it.
struct PreviewView {
    std::string conversation_id;  // empty: it has none
    std::uint32_t generation = 0;
    sandbox::Status status = sandbox::Status::pending;
    bool has_ended = false;  // for good: only its record is left, or it is being removed
    sandbox::NetworkMode network = sandbox::NetworkMode::none;  // that of the living generation
    sandbox::PreviewSettings settings;
    std::uint32_t max_sockets = 0;
    base::ShareHolder owner{};  // of the living sandbox
};

/// The amount that an erasure of a user removed.
struct ErasedUser {
    std::size_t conversations = 0;
    std::size_t sandboxes = 0;  // without a conversation
};

/// The present use of a sandbox; an unknown value is empty.
struct SandboxUsage {
    SandboxView view;
    base::WallTime at{};
    std::uint32_t memory_limit_mb = 0;  // of the living generation, else the next one's
    sandbox::Usage usage;
    std::optional<sandbox::DiskUsage> disk;
};

}  // namespace atl::conversation
