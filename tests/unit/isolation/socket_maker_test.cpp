// Sockets inside a net namespace that the helper passes, also where it can make none of IPv6.
#include "core/isolation/socket_maker.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "core/plain/preview_limits.hpp"
#include "fixture.hpp"
#include "tests/support/paths.hpp"

namespace socket_maker_test {

using namespace atl;
using base::Errc;
using isolation::SocketMaker;

namespace {

/// A net namespace of a user namespace of its own; empty where the host gives none.
base::UniqueFd new_net_namespace() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    base::UniqueFd done(ends[0]);
    base::UniqueFd made(ends[1]);
    const pid_t holder = ::fork();
    if (holder == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool alone = ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
        if (!alone || ::write(ends[1], "", 1) != 1)
            ::_exit(1);
        for (;;)
            ::pause();
    }
    REQUIRE(holder > 0);
    made.reset();
    char told = 0;
    base::UniqueFd net;
    if (::read(done.get(), &told, 1) == 1) {
        const std::string path = "/proc/" + std::to_string(holder) + "/ns/net";
        net = base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
    return net;
}

/// From now on this thread, and what it starts, gets no socket of `family`.
bool forbid(int family) {
    const auto wanted = static_cast<std::uint32_t>(family);
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof code / sizeof code[0], code};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct Lab {
    /// Starts the helper in a thread that may make no sockets of `forbidden`, if any. The thread lives as
    /// long as the helper, which ends with it.
    explicit Lab(const base::UniqueFd& net, int forbidden = AF_UNSPEC,
                 std::filesystem::path program = test::build_path("bin/atoll-zygote")) {
        thread = std::thread([&, forbidden] {
            if (forbidden != AF_UNSPEC && !forbid(forbidden))
                started.set_value(base::Error(Errc::host_unsupported, "no seccomp"));
            else
                started.set_value(
                    SocketMaker::start(loop.context.get_executor(), loop.timers, program, net, kept));
            over.get_future().wait();
        });
        auto result = started.get_future().get();
        if (result)
            maker = std::move(*result);
    }
    ~Lab() {
        maker.reset();
        over.set_value();
        thread.join();
    }

    bool await_ready() {
        if (maker->is_ready())
            return true;
        bool is_told = false;
        maker->await([&is_told] { is_told = true; });
        return loop.run_until([&is_told] { return is_told; }) && maker->is_ready();
    }

    test::Loop loop;
    std::shared_ptr<std::uint32_t> kept = std::make_shared<std::uint32_t>(0);
    std::promise<base::Result<std::unique_ptr<SocketMaker>>> started;
    std::promise<void> over;
    std::thread thread;
    std::unique_ptr<SocketMaker> maker;
};

int family_of(const base::UniqueFd& fd) {
    int family = 0;
    socklen_t size = sizeof family;
    REQUIRE(::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) == 0);
    return family;
}

}  // namespace

TEST_CASE("socket maker: a host without IPv6 has sockets of IPv4, and more when these are used up") {
    const base::UniqueFd net = new_net_namespace();
    if (!net)
        SKIP("no user namespaces on this host");
    Lab lab(net, AF_INET6);
    REQUIRE(lab.maker);
    REQUIRE(lab.await_ready());
    for (std::size_t i = 0; i < 2 * base::k_kept_inner_sockets; ++i) {
        REQUIRE(lab.await_ready());
        const auto taken = lab.maker->take(AF_INET);
        REQUIRE(taken.has_value());
        CHECK(family_of(*taken) == AF_INET);
        const auto none = lab.maker->take(AF_INET6);
        REQUIRE(none.has_error());
        CHECK(none.error().code() == Errc::host_unsupported);
    }
}

TEST_CASE("socket maker: without IPv4 there is no way in, and nobody waits for one") {
    const base::UniqueFd net = new_net_namespace();
    if (!net)
        SKIP("no user namespaces on this host");
    Lab lab(net, AF_INET);
    REQUIRE(lab.maker);
    REQUIRE(lab.await_ready());
    const auto none = lab.maker->take(AF_INET);
    REQUIRE(none.has_error());
    CHECK(none.error().code() == Errc::host_unsupported);
    CHECK_FALSE(lab.maker->could_not_join());
}

TEST_CASE("socket maker: a helper that the kernel does not let in tells a host apart from a bad moment") {
    const base::UniqueFd no_namespace(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    Lab lab(no_namespace);
    REQUIRE(lab.maker);
    REQUIRE(lab.await_ready());
    CHECK(lab.maker->could_not_join());
    CHECK(lab.maker->take(AF_INET).error().code() == Errc::host_unsupported);
}

TEST_CASE("socket maker: a helper that ends without a word tells nothing about the host") {
    const base::UniqueFd no_namespace(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    Lab lab(no_namespace, AF_UNSPEC, "/bin/true");
    REQUIRE(lab.maker);
    REQUIRE(lab.await_ready());
    CHECK_FALSE(lab.maker->could_not_join());
    CHECK(lab.maker->take(AF_INET).error().code() == Errc::host_unsupported);
}

TEST_CASE("socket maker: elsewhere there are sockets of both families") {
    const base::UniqueFd net = new_net_namespace();
    const base::UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!net || !probe)
        SKIP("no user namespaces on this host, or no IPv6");
    Lab lab(net);
    REQUIRE(lab.maker);
    REQUIRE(lab.await_ready());
    CHECK(family_of(lab.maker->take(AF_INET).value()) == AF_INET);
    CHECK(family_of(lab.maker->take(AF_INET6).value()) == AF_INET6);
}

}  // namespace socket_maker_test
