// Commands whose children, which are `sleep 2001`, hide from a signal to the process group of the command.
#pragma once

namespace atl::test::hidden_children {

inline constexpr const char* k_all[] = {
    "timeout 3000 sleep 2001",
    "set -m; sleep 2001 & wait",
    "setsid sleep 2001 & wait",
    "setsid sh -c 'set -m; trap \"\" TERM INT; sleep 2001 & wait; sleep 2001' & wait",
    "timeout 3000 sh -c 'while :; do sleep 0.01; done; sleep 2001' & wait",
};

}  // namespace atl::test::hidden_children
