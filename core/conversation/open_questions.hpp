// The questions of a log to people that no event has resolved: a server that ended without a word leaves
// them, and the next one resolves them. Internal to core/conversation and core/store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/conversation/types.hpp"

namespace atl::conversation {

struct OpenQuestions {
    std::vector<std::string> permissions;  // ids of permission_request
    std::vector<std::string> hosts;        // ids of egress_request

    /// Takes notice of an event whose type is between the two below; call it in their order. `json` is the
    /// event's text. An id that cannot wait is ignored, and so is what goes beyond k_max_open_permissions.
    void see(EventType type, std::string_view json);
};

/// The types of the questions and of what resolves them have these numbers and those between.
inline constexpr auto k_first_question_type = EventType::egress_request;
inline constexpr auto k_last_question_type = EventType::permission_resolved;

}  // namespace atl::conversation
