// The memory of the server holds keys and values of secrets: no core dump may have them.
#pragma once

namespace atl::app {

/// From here on a crash leaves no core dump, neither as a file nor at a program of kernel.core_pattern: the
/// soft limit of RLIMIT_CORE is 1 (core(5)), or 0 where the hard limit is. As root of the host the process
/// is undumpable, too (PR_SET_DUMPABLE in prctl(2)), so no other user can read its memory; in a user
/// namespace that would take its own /proc/self from it. Makes OpenSSL's secure heap
/// (core/secrets/secure_text.hpp). What cannot be had is logged. Once, before keys are read.
void keep_memory_private();

}  // namespace atl::app
