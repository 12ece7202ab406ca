// Calls that change files, answered as their client wants it: once, or as Server-Sent Events with their
// progress (`Accept: text/event-stream`). Not here: what calls there are, and what their replies mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/api/file_call.hpp"

namespace atl::http {

struct ChangeCall {
    std::string_view op;  // as frames name it; of static storage
    OnDisconnect on_disconnect = OnDisconnect::finish;
    /// The answer, from the guest's reply. Errors: bridge_failed.
    base::Result<Response> (*answer)(std::string_view reply) = nullptr;
    BodySource* input = nullptr;                  // of the request; null: the call takes none
    std::optional<std::uint64_t> growth_bytes{};  // as async_call() has them
};

/// Begins the call and answers the request with it. A stream begins with the first progress: what fails
/// before is an answer of its own. Errors: those of async_file_call(), of GuestCall::async_send() and of the
/// parameter `named`.
base::Task<base::Result<Response>> async_change_files(Api& api, RequestContext& context,
                                                      const FileMembers& members, const ChangeCall& change);

}  // namespace atl::http
