#include "core/isolation/seccomp.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "core/isolation/argument_filter.hpp"
#include "core/isolation/seccomp_calls.hpp"

namespace atl::isolation {
namespace {

constexpr std::uint64_t k_low_half = 0xffff'ffff;
constexpr std::uint32_t k_type_mask =
    0xf;  // of the type argument of socket(2), without SOCK_CLOEXEC and the like
constexpr std::uint32_t k_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

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

base::Error filter_unsupported(const char* what, int error_number) {
    return base::Error(base::Errc::host_unsupported, base::errno_text(what, error_number));
}

base::Result<base::UniqueFd> sealed(base::UniqueFd memory) {
    if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return filter_unsupported("sealing a filter", errno);
    return memory;
}

base::Result<base::UniqueFd> Filter::export_to_memory(const char* name) {
    if (error_ < 0)
        return filter_unsupported("libseccomp refused a rule", -error_);
    base::UniqueFd memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory)
        return filter_unsupported("memfd_create", errno);
    if (const int error = ::seccomp_export_bpf(context_.get(), memory.get()); error < 0)
        return filter_unsupported("libseccomp could not export a filter", -error);
    return sealed(std::move(memory));
}

base::Result<base::UniqueFd> to_memory(const ArgumentFilter& filter, const char* name) {
    const auto program = filter.program();
    const std::size_t bytes = program.size() * sizeof program.front();
    base::UniqueFd memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory || ::pwrite(memory.get(), program.data(), bytes, 0) != static_cast<ssize_t>(bytes))
        return filter_unsupported("memfd_create", errno);
    return sealed(std::move(memory));
}

scmp_arg_cmp low_half_is(unsigned argument, std::uint64_t value) {
    return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, k_low_half, value};
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

void refuse_sockets(ArgumentFilter& filter, long call) {
    filter.refuse(call, EPERM, {is_none_of(0, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})});
    filter.refuse(call, EPERM,
                  {is_any_of(0, {AF_UNIX}),
                   {1, Match::none_of, {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}, k_type_mask}});
    filter.refuse(call, EPERM, {is_any_of(0, {AF_NETLINK}), is_none_of(2, {NETLINK_ROUTE})});
    const Condition is_internet = is_any_of(0, {AF_INET, AF_INET6});
    filter.refuse(call, EPERM, {is_internet, {1, Match::none_of, {SOCK_STREAM, SOCK_DGRAM}, k_type_mask}});
    // Protocols are allowed by name, since the kernel loads the module of any other protocol on request
    // (protocols(5)). MPTCP and SMC have numbers beyond the eight bits of an IP header. 0 is the type's own
    // protocol.
    filter.refuse(call, EPERM,
                  {is_internet, is_none_of(2, {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6})});
}

// Each filter is compiled to machine code, and all filters of the host share one budget (sysctl
// net.core.bpf_jit_limit), which is charged to no cgroup. Once it is used up, no program that needs a filter
// starts.
void refuse_filters(ArgumentFilter& filter) {
    filter.refuse(
        SYS_setsockopt, EPERM,
        {is_any_of(1, {SOL_SOCKET}), is_any_of(2, {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF,
                                                   SO_ATTACH_REUSEPORT_EBPF})});
    // The answer of a kernel without seccomp filters: programs that would sandbox themselves go on without a
    // filter.
    filter.refuse(SYS_seccomp, EINVAL, {is_any_of(0, {SECCOMP_SET_MODE_FILTER})});
    filter.refuse(SYS_prctl, EINVAL, {is_any_of(0, {PR_SET_SECCOMP}), is_any_of(1, {SECCOMP_MODE_FILTER})});
}

// The kernel charges the memory of these options to no cgroup: up to net.core.optmem_max, 128 KiB, a socket.
void refuse_kept_options(ArgumentFilter& filter) {
    // linux/in6.h; libc has no names for all of them.
    constexpr std::uint32_t k_pktoptions = 6;
    constexpr std::uint32_t k_flow_labels = 32;
    // Modules on top of TCP, which the kernel would load; keys for signatures.
    constexpr std::uint32_t k_tcp_ao_first = 38;
    constexpr std::uint32_t k_tcp_ao_last = 40;
    filter.refuse(
        SYS_setsockopt, EPERM,
        {is_any_of(1, {IPPROTO_TCP}), is_any_of(2, {TCP_ULP, TCP_MD5SIG, TCP_MD5SIG_EXT, k_tcp_ao_first,
                                                    k_tcp_ao_first + 1, k_tcp_ao_last})});
    // With it the kernel takes what comes for packets of IPsec, and decrypts them in place.
    filter.refuse(SYS_setsockopt, EPERM, {is_any_of(1, {IPPROTO_UDP}), is_any_of(2, {UDP_ENCAP})});
    filter.refuse(SYS_setsockopt, EPERM, {is_any_of(1, {SOL_SOCKET}), is_any_of(2, {SO_ZEROCOPY})});
    filter.refuse(SYS_setsockopt, EPERM,
                  {is_any_of(1, {IPPROTO_IPV6}),
                   is_any_of(2, {k_pktoptions, k_flow_labels, IPV6_IPSEC_POLICY, IPV6_XFRM_POLICY,
                                 IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS})});
    // The answer of a host whose interfaces have no multicast. The bound of IPv4 (igmp_max_memberships) is
    // one of each socket. Each membership is left one by one under the lock of all net namespaces (rtnetlink)
    // when its process exits: tens of thousands delay the creates of all others by seconds.
    filter.refuse(SYS_setsockopt, ENODEV,
                  {is_any_of(1, {IPPROTO_IP}),
                   is_any_of(2, {IP_ADD_MEMBERSHIP, IP_ADD_SOURCE_MEMBERSHIP, MCAST_JOIN_GROUP,
                                 MCAST_JOIN_SOURCE_GROUP, MCAST_MSFILTER})});
    filter.refuse(SYS_setsockopt, ENODEV,
                  {is_any_of(1, {IPPROTO_IPV6}),
                   is_any_of(2, {IPV6_JOIN_GROUP, IPV6_JOIN_ANYCAST, MCAST_JOIN_GROUP, MCAST_BLOCK_SOURCE,
                                 MCAST_JOIN_SOURCE_GROUP, MCAST_MSFILTER})});
}

void refuse_limits(ArgumentFilter& filter) {
    // Limits of another process: the guest has the same uid as the processes inside, so they could starve it
    // of descriptors or memory, or have it killed for its CPU time. Reading limits, and setting the own
    // limits as pid 0, stays allowed.
    filter.refuse_with_pointer(SYS_prlimit64, EPERM, 2, {is_none_of(0, {0})});
    // The limit of core dumps stays 1 (child_setup.cpp). Success without effect: programs that guard secrets
    // take an error for fatal.
    filter.refuse_with_pointer(SYS_prlimit64, 0, 2, {is_any_of(1, {RLIMIT_CORE})});
    filter.refuse(SYS_setrlimit, 0, {is_any_of(0, {RLIMIT_CORE})});
}

base::Result<base::UniqueFd> compile_arguments() {
    ArgumentFilter filter;
    filter.refuse(SYS_clone, EPERM, {has_any_bit(0, k_namespaces)});
    // TIOCSTI types into a shared terminal, TIOCLINUX does the same on a console (ioctl_tty(2)); TIOCSETD
    // makes the kernel load the module of a line discipline.
    filter.refuse(SYS_ioctl, EPERM, {is_any_of(1, {TIOCSTI, TIOCLINUX, TIOCSETD})});
    refuse_limits(filter);
    // The host's pool of huge pages is one for all, and charged to the memory of no cgroup
    // (admin-guide/mm/hugetlbpage). Programs that would like them work without.
    filter.refuse(SYS_memfd_create, EPERM, {has_any_bit(1, MFD_HUGETLB)});
    filter.refuse(SYS_mmap, EPERM, {has_any_bit(3, MAP_HUGETLB)});
    // RLIMIT_FSIZE does not apply to blocks beyond a file's end (fallocate(2), FALLOC_FL_KEEP_SIZE); programs
    // work without them. Punching holes needs the flag, too, and stays allowed.
    filter.refuse(SYS_fallocate, EOPNOTSUPP,
                  {has_exactly(1, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE)});
    // RWF_NOWAIT tells whether a page of a file is in memory, and so which files others on this host read
    // (readv(2)).
    filter.refuse(SYS_preadv2, EOPNOTSUPP, {has_any_bit(5, RWF_NOWAIT)});
    for (const long call : {SYS_socket, SYS_socketpair})
        refuse_sockets(filter, call);
    refuse_kept_options(filter);
    // The kernel charges the buffer of a netlink socket to no cgroup (SECURITY.md): each socket keeps the
    // default size. The call succeeds without effect, since programs that ask for more work without it.
    filter.refuse(SYS_setsockopt, 0, {is_any_of(1, {SOL_SOCKET}), is_any_of(2, {SO_RCVBUF})});
    refuse_filters(filter);
    return to_memory(filter, "atoll-seccomp-arguments");
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
