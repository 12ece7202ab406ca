// The request of the server to its zygote: the program to exec and the plan to run before, in one message of
// a SOCK_SEQPACKET socket with the descriptors beside it (unix(7), SCM_RIGHTS). Strings end in a NUL, numbers
// are written as text. Both ends are ours and of one build: there is no version.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/isolation/child_plan.hpp"

namespace atl::isolation {

inline constexpr std::size_t k_max_zygote_message_bytes = 64UL * 1024;
inline constexpr std::size_t k_max_zygote_fds = 32;

struct ZygoteRequest {
    std::string program;
    std::vector<std::string> args;  // after argv[0]
    ChildPlan plan;                 // without group_fd: a zygote is in its groups
};

/// The message's bytes. plan.fds and then plan.mount_namespace, if there is one, travel beside them.
std::string encode(const ZygoteRequest& request);

/// Nothing if encode() cannot have made the message, or if the number of `fds` is not the number that it
/// names.
std::optional<ZygoteRequest> decode(std::string_view message, const std::vector<int>& fds);

}  // namespace atl::isolation
