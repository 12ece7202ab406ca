// atoll-checker: reads requests on stdin, answers each on stdout, in order, and ends with stdin or with the
// server. Strangers wrote the requests, so before the first byte it gives up all system calls but those of
// reading, writing and memory, and memory beyond a bound. See README.md.
#include <malloc.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

#include "bridge/checker/fields.hpp"
#include "bridge/checker/worker.hpp"

namespace {

using atl::bridge::checker::k_length_bytes;
using atl::bridge::checker::k_message_bytes;

// The document of 4 MiB of JSON takes up to 150 MB; schemas that are kept, as much again.
constexpr rlim_t k_memory_bytes = 768UL * 1024 * 1024;
// Memory behind a request of this size is given back.
constexpr std::size_t k_large_bytes = 128UL * 1024;

// Sanitizers need more system calls, and terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_is_confined = false;
#else
constexpr bool k_is_confined = true;
#endif

bool allow(scmp_filter_ctx filter, const char* call) {
    const int number = ::seccomp_syscall_resolve_name(call);
    return number < 0 || ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0) == 0;
}

/// Memory that no code runs from.
bool allow_memory(scmp_filter_ctx filter, const char* call) {
    const scmp_arg_cmp not_executable{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0};
    const int number = ::seccomp_syscall_resolve_name(call);
    return number < 0 || ::seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 1, &not_executable) == 0;
}

/// False: it is not confined.
bool confine() {
    const rlimit memory{k_memory_bytes, k_memory_bytes};
    if (::setrlimit(RLIMIT_AS, &memory) != 0)
        return false;
    const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == nullptr || ::seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0)
        return false;
    for (const char* const call :
         {"read", "write", "brk", "munmap", "mremap", "madvise", "futex", "exit", "exit_group",
          "rt_sigreturn", "rt_sigprocmask", "restart_syscall", "clock_gettime", "getpid", "gettid", "tgkill"})
        if (!allow(filter, call))
            return false;
    const bool is_loaded =
        allow_memory(filter, "mmap") && allow_memory(filter, "mprotect") && ::seccomp_load(filter) == 0;
    ::seccomp_release(filter);
    return is_loaded;
}

/// False at the end of stdin.
bool read_all(char* to, std::size_t size) {
    while (size > 0) {
        const ssize_t count = ::read(STDIN_FILENO, to, size);
        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        if (count > 0) {
            to += count;
            size -= static_cast<std::size_t>(count);
        }
    }
    return true;
}

bool write_all(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno != EINTR)
            return false;
        if (count > 0)
            bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

}  // namespace

int main() {
    // It is for the server (signal(7)), and may be sent to all processes of its unit.
    std::signal(SIGHUP, SIG_IGN);
    if (k_is_confined && !confine()) {
        static constexpr char k_text[] = "atoll-checker: this host offers no seccomp filter\n";
        (void)!::write(STDERR_FILENO, k_text, sizeof k_text - 1);
        return 1;
    }
    atl::bridge::checker::Worker worker;
    char head[k_length_bytes];
    while (read_all(head, sizeof head)) {
        const std::size_t size = atl::bridge::checker::length_at({head, sizeof head});
        if (size > k_message_bytes)
            return 1;
        std::string request(size, '\0');
        if (!read_all(request.data(), size))
            return 0;
        const std::string answer = worker.answer(request);
        std::string length;
        atl::bridge::checker::append_length(length, answer.size());
        if (!write_all(length) || !write_all(answer))
            return 0;
        if (size > k_large_bytes) {
            request = {};
            ::malloc_trim(0);
        }
    }
    return 0;
}
