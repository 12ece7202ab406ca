#include "core/isolation/seccomp.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>

#include "core/isolation/seccomp_calls.hpp"

namespace atl::isolation {
namespace {

constexpr std::uint64_t k_low_half = 0xffff'ffff;
constexpr unsigned k_type_mask = 0xf;  // of the type argument of socket(2), without SOCK_CLOEXEC and the like
constexpr int k_families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
// Families and types below these are refused one by one, higher ones by each of their upper bits.
constexpr int k_small_families = 32;
constexpr int k_small_types = 16;

struct ReleaseFilter {
    void operator()(void* context) const { ::seccomp_release(context); }
};

/// A filter in the making. After the first failure nothing more is added; error() is then negative.
class Filter {
  public:
    explicit Filter(std::uint32_t otherwise) : context_(::seccomp_init(otherwise)) {
        if (!context_) {
            error_ = -ENOMEM;
            return;
        }
        set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }

    void add(std::uint32_t action, const char* call, std::initializer_list<scmp_arg_cmp> when = {}) {
        const int number = ::seccomp_syscall_resolve_name(call);
        if (number < 0 || error_ < 0)
            return;
        error_ = ::seccomp_rule_add_array(context_.get(), action, number, static_cast<unsigned>(when.size()),
                                          when.size() == 0 ? nullptr : when.begin());
    }
    void set(scmp_filter_attr attribute, std::uint32_t value) {
        if (error_ >= 0)
            error_ = ::seccomp_attr_set(context_.get(), attribute, value);
    }
    base::Result<base::UniqueFd> export_to_memory(const char* name);

  private:
    std::unique_ptr<void, ReleaseFilter> context_;
    int error_ = 0;
};

base::Error unsupported(const char* what, int error_number) {
    return base::Error(base::Errc::host_unsupported, base::errno_text(what, error_number));
}

base::Result<base::UniqueFd> Filter::export_to_memory(const char* name) {
    if (error_ < 0)
        return unsupported("libseccomp refused a rule", -error_);
    base::UniqueFd memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory)
        return unsupported("memfd_create", errno);
    if (const int error = ::seccomp_export_bpf(context_.get(), memory.get()); error < 0)
        return unsupported("libseccomp could not export a filter", -error);
    if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return unsupported("sealing a filter", errno);
    return memory;
}

scmp_arg_cmp low_half_is(unsigned argument, std::uint64_t value) {
    return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, k_low_half, value};
}

scmp_arg_cmp is_not_zero(unsigned argument) {
    return scmp_arg_cmp{argument, SCMP_CMP_NE, 0, 0};
}

scmp_arg_cmp bit_is_set(unsigned argument, unsigned bit) {
    const std::uint64_t mask = std::uint64_t{1} << bit;
    return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, mask, mask};
}

base::Result<base::UniqueFd> compile_calls() {
    Filter filter(SCMP_ACT_ERRNO(ENOSYS));
    for (const char* call : k_allowed_calls)
        filter.add(SCMP_ACT_ALLOW, call);
    for (const char* call : k_refused_calls)
        filter.add(SCMP_ACT_ERRNO(EPERM), call);
    // clone3 passes its flags in memory, which no filter can read: it stays ENOSYS and libc takes clone.
    constexpr std::uint32_t k_personalities[] = {PER_LINUX, PER_LINUX32, ADDR_NO_RANDOMIZE, UNAME26,
                                                 0xffff'ffff};
    for (const std::uint32_t value : k_personalities)
        filter.add(SCMP_ACT_ALLOW, "personality", {low_half_is(0, value)});
    return filter.export_to_memory("atoll-seccomp-calls");
}

void refuse_families(Filter& filter, const char* call) {
    for (int family = 0; family < k_small_families; ++family) {
        if (std::find(std::begin(k_families), std::end(k_families), family) == std::end(k_families))
            filter.add(SCMP_ACT_ERRNO(EPERM), call, {low_half_is(0, static_cast<unsigned>(family))});
    }
    for (unsigned bit = 5; bit < 32; ++bit)
        filter.add(SCMP_ACT_ERRNO(EPERM), call, {bit_is_set(0, bit)});
}

// Of the Internet families only streams and datagrams; of netlink only NETLINK_ROUTE.
void refuse_types(Filter& filter, const char* call) {
    for (const int family : {AF_INET, AF_INET6, AF_UNIX}) {
        for (int type = 0; type < k_small_types; ++type) {
            const bool wanted =
                type == SOCK_STREAM || type == SOCK_DGRAM || (family == AF_UNIX && type == SOCK_SEQPACKET);
            if (!wanted)
                filter.add(SCMP_ACT_ERRNO(EPERM), call,
                           {low_half_is(0, static_cast<unsigned>(family)),
                            {1, SCMP_CMP_MASKED_EQ, k_type_mask, static_cast<unsigned>(type)}});
        }
    }
    for (unsigned bit = 0; bit < 32; ++bit)
        filter.add(SCMP_ACT_ERRNO(EPERM), call, {low_half_is(0, AF_NETLINK), bit_is_set(2, bit)});
}

// Protocols whose modules the kernel would load for anyone who asks (protocols(5)).
void refuse_protocols(Filter& filter, const char* call) {
    constexpr unsigned k_protocols[] = {IPPROTO_DCCP, IPPROTO_SCTP, IPPROTO_UDPLITE, 115 /* L2TP */};
    for (const unsigned family : {AF_INET, AF_INET6}) {
        for (const unsigned protocol : k_protocols)
            filter.add(SCMP_ACT_ERRNO(EPERM), call, {low_half_is(0, family), low_half_is(2, protocol)});
    }
}

base::Result<base::UniqueFd> compile_arguments() {
    Filter filter(SCMP_ACT_ALLOW);
    constexpr unsigned k_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    for (unsigned bit = 0; bit < 32; ++bit) {
        if ((k_namespaces >> bit & 1U) != 0)
            filter.add(SCMP_ACT_ERRNO(EPERM), "clone", {bit_is_set(0, bit)});
    }
    // Typing into a terminal that others share, and the console's version of it (ioctl_tty(2)).
    for (const unsigned request : {unsigned{TIOCSTI}, unsigned{TIOCLINUX}})
        filter.add(SCMP_ACT_ERRNO(EPERM), "ioctl", {low_half_is(1, request)});
    // Limits of another process: the guest has the uid of those inside, and could be starved of descriptors
    // or memory, or be killed for its CPU time. Reading them, and setting one's own as pid 0, stays allowed.
    filter.add(SCMP_ACT_ERRNO(EPERM), "prlimit64", {is_not_zero(0), is_not_zero(2)});
    // Blocks beyond a file's end are not held to RLIMIT_FSIZE (fallocate(2), FALLOC_FL_KEEP_SIZE); programs
    // go on without. Punching holes needs the flag, too.
    filter.add(SCMP_ACT_ERRNO(EOPNOTSUPP), "fallocate",
               {scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                             FALLOC_FL_KEEP_SIZE}});
    for (const char* call : {"socket", "socketpair"}) {
        refuse_families(filter, call);
        refuse_types(filter, call);
        refuse_protocols(filter, call);
    }
    return filter.export_to_memory("atoll-seccomp-arguments");
}

base::UniqueFd reopen(const base::UniqueFd& memory) {
    const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
    return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

base::Result<SeccompFilters> SeccompFilters::compile() {
    auto calls = compile_calls();
    if (!calls)
        return calls.error();
    auto arguments = compile_arguments();
    if (!arguments)
        return arguments.error();
    return SeccompFilters(std::move(*calls), std::move(*arguments));
}

base::UniqueFd SeccompFilters::open_calls() const {
    return reopen(calls_);
}
base::UniqueFd SeccompFilters::open_arguments() const {
    return reopen(arguments_);
}

}  // namespace atl::isolation
