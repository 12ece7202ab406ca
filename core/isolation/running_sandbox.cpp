#include "core/isolation/running_sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <string_view>

#include "core/isolation/socket_counts.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::isolation {
namespace {

constexpr std::size_t k_max_status_bytes = 4096;
// bwrap names its child within a few milliseconds of its start and ends as fast after it, or it is stuck.
constexpr base::Millis k_bwrap_deadline{1000};
constexpr int k_signal_status_base = 128;
constexpr int k_highest_signal = 64;
// ENOTSUPP of the kernel, which libc has no name for: a filter could not be compiled to machine code.
constexpr const char* k_no_memory_for_filters = "524";

/// The number after `"key": ` in bwrap's own JSON lines; the sandbox cannot write to that pipe.
std::optional<int> number_after(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos)
        return std::nullopt;
    std::string_view rest = text.substr(at + key.size());
    rest.remove_prefix(std::min(rest.find_first_of("-0123456789"), rest.size()));
    int value = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    // A number at the very end may still be growing.
    if (parsed.ec != std::errc() || parsed.ptr == rest.data() + rest.size())
        return std::nullopt;
    return value;
}

/// The parent of `pid`, from /proc/pid/stat (proc(5)); negative if it is gone.
pid_t parent_of(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(in, text);
    // pid (name) state ppid: the name may hold anything, so start behind its last parenthesis.
    const std::size_t end = text.rfind(')');
    int parent = -1;
    if (end != std::string::npos && end + 4 < text.size())
        std::from_chars(text.data() + end + 4, text.data() + text.size(), parent);
    return parent;
}

void forget_closed(std::deque<base::SteadyTime>& closed) {
    const auto oldest = std::chrono::steady_clock::now() - base::k_closed_socket_stays;
    while (!closed.empty() && closed.front() < oldest)
        closed.pop_front();
}

/// Counts one more as long as the result lives, and notes when it ended.
std::shared_ptr<const void> counted(const std::shared_ptr<std::uint32_t>& count,
                                    const std::shared_ptr<std::deque<base::SteadyTime>>& closed) {
    ++*count;
    return {count.get(), [count, closed](const void*) {
                --*count;
                forget_closed(*closed);
                closed->push_back(std::chrono::steady_clock::now());
            }};
}

bool has_exited(const base::UniqueFd& pidfd) {
    pollfd entry{pidfd.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

RunningSandbox::RunningSandbox(const base::Executor& executor, base::Timers& timers, Started started,
                               std::function<void(sandbox::Exit)> on_exit)
    : executor_(executor),
      timers_(timers),
      on_exit_(std::move(on_exit)),
      bwrap_pid_(started.bwrap.pid),
      bwrap_(executor, std::move(started.bwrap.pidfd)),
      log_(executor, timers, std::move(started.log)),
      socket_(std::move(started.socket)),
      failures_(std::move(started.failures)),
      network_(started.network),
      socket_program_(std::move(started.socket_program)) {
    status_.emplace(executor, std::move(started.status));
}

RunningSandbox::~RunningSandbox() {
    timers_.cancel(kill_timer_);
}

void RunningSandbox::watch() {
    bwrap_.wait(base::FdWatch::Event::readable, [this] { on_bwrap_gone(); });
    await_status();
}

void RunningSandbox::await_status() {
    status_->wait(base::FdWatch::Event::readable, [this] { read_status(); });
}

void RunningSandbox::read_status() {
    std::array<char, 1024> chunk;
    const ssize_t count = ::read(status_->fd().get(), chunk.data(), chunk.size());
    if (count > 0 && status_text_.size() < k_max_status_bytes) {
        status_text_.append(chunk.data(), static_cast<std::size_t>(count));
        parse_status();
        await_status();
        return;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        await_status();
        return;
    }
    status_.reset();
    end_if_gone();
}

void RunningSandbox::parse_status() {
    if (!init_) {
        if (const auto pid = number_after(status_text_, "\"child-pid\":"))
            adopt_init(*pid);
    }
    if (const auto status = number_after(status_text_, "\"exit-code\":"))
        guest_status_ = *status;
}

// The pid may be reused once bwrap has reaped its child. So the pidfd is taken first, and then its process is
// checked to be a child of bwrap. bwrap has one child, so the pidfd cannot mean another process.
void RunningSandbox::adopt_init(pid_t pid) {
    auto pidfd = base::open_pidfd(pid);
    if (!pidfd || parent_of(pid) != bwrap_pid_ || has_exited(*pidfd))
        return;
    init_pid_ = pid;
    init_.emplace(executor_, std::move(*pidfd));
    init_->wait(base::FdWatch::Event::readable, [this] { on_init_gone(); });
    if (on_listening_)
        make_listener_later();
    if (terminate_wanted_)
        terminate();
    if (kill_wanted_)
        kill();
}

void RunningSandbox::on_bwrap_gone() {
    auto how = base::reap(bwrap_.fd());
    bwrap_exit_ = how ? *how : base::ChildExit{base::ChildExit::How::signalled, SIGKILL};
    end_if_gone();
}

// If bwrap was killed first, process 1 is an orphan. The server reaps it if the server is process 1 of a
// container; otherwise another process does, and the call fails.
void RunningSandbox::on_init_gone() {
    init_gone_ = true;
    socket_maker_.reset();
    (void)base::reap(init_->fd());
    end_if_gone();
}

void RunningSandbox::end_if_gone() {
    // Process 1 ends after every other process of its namespace (pid_namespaces(7)).
    if (ended_ || !bwrap_exit_ || status_ || (init_ && !init_gone_))
        return;
    const auto self = shared_from_this();  // the callback may drop the last reference
    ended_ = true;
    sockstat_.reset();
    timers_.cancel(kill_timer_);
    log_.drain();
    if (auto tell = std::exchange(on_exit_, nullptr))
        tell(describe_exit());
}

/// bwrap's last words when the kernel has no memory for the filters. Nothing else wrote before them.
bool RunningSandbox::filters_refused() const {
    const std::string& log = log_.tail();
    return log.starts_with("bwrap: ") && log.find("PR_SET_SECCOMP") != std::string::npos &&
           log.find(k_no_memory_for_filters) != std::string::npos;
}

// The log tail holds bwrap's reason: no program of the sandbox ran, so only bwrap wrote.
sandbox::Exit RunningSandbox::failed_setup() const {
    sandbox::Exit exit{sandbox::ExitClass::setup_failed, bwrap_exit_->code,
                       "bubblewrap ended before the guest ran"};
    const bool refused = filters_refused();
    if (refused)
        exit.detail =
            "the kernel refused the system call filters: this host's memory for compiled BPF "
            "programs is used up (sysctl net.core.bpf_jit_limit)";
    ++(refused ? failures_->filters_refused : failures_->other);
    return exit;
}

sandbox::Exit RunningSandbox::describe_exit() const {
    using sandbox::ExitClass;
    const bool by_signal = bwrap_exit_->how == base::ChildExit::How::signalled;
    // Its first process ends before bwrap does: the broken bridge may have had bwrap killed in between.
    if (!guest_status_ && (!by_signal || init_pid_ <= 0 || filters_refused()))
        return failed_setup();
    const int code = by_signal ? bwrap_exit_->code : *guest_status_;
    if (by_signal)
        return {ExitClass::signalled, code, "bubblewrap was ended by signal " + std::to_string(code)};
    const int signal_number = code - k_signal_status_base;
    if (signal_number > 0 && signal_number <= k_highest_signal)
        return {ExitClass::signalled, signal_number,
                "the guest was ended by signal " + std::to_string(signal_number)};
    return {ExitClass::exited, code, "the guest exited with status " + std::to_string(code)};
}

/// A file of process 1's net namespace. The pidfd is checked after the open: process 1 still lives, so its
/// pid was not reused.
base::UniqueFd RunningSandbox::open_net(const char* name) const {
    if (!init_ || init_gone_ || !sandbox::has_own_net(network_))
        return {};
    const std::string path = "/proc/" + std::to_string(init_pid_) + "/net/" + name;
    base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return has_exited(init_->fd()) ? base::UniqueFd() : std::move(file);
}

// The file stays open: opening it takes five times as long as reading it.
std::optional<std::uint32_t> RunningSandbox::sockets() {
    if (!sockstat_)
        sockstat_ = open_net("sockstat");
    const auto used = sockstat_ ? sockets_used(sockstat_.get()) : std::nullopt;
    return used ? std::optional(*used - std::min(*used, *our_sockets_)) : std::nullopt;
}

std::uint32_t RunningSandbox::closed_lately() const {
    forget_closed(*closed_);
    return static_cast<std::uint32_t>(closed_->size());
}

base::Result<sandbox::InnerSocket> RunningSandbox::connect(std::uint16_t port) {
    if (!init_ || init_gone_)
        return base::Error(base::Errc::sandbox_gone);
    if (!sandbox::has_own_net(network_))
        return base::Error(base::Errc::host_unsupported, "The network of this sandbox is the host's.");
    auto fd = connect_inside(maker(), port);
    if (fd.has_error())
        return fd.error();
    return sandbox::InnerSocket{std::move(*fd), counted(our_sockets_, closed_)};
}

/// Good for a call: it refers to this.
MakeInnerSocket RunningSandbox::maker() {
    return [this](int family) -> base::Result<base::UniqueFd> {
        return socket_maker_ ? socket_maker_->take(family) : socket_inside(init_->fd(), family);
    };
}

void RunningSandbox::listen(std::uint16_t port, Listening done) {
    listen_port_ = port;
    on_listening_ = std::move(done);
    if (on_listening_ && init_)
        make_listener_later();
}

void RunningSandbox::make_listener_later() {
    boost::asio::post(executor_, [weak = weak_from_this()] {
        if (const auto self = weak.lock())
            self->make_listener();
    });
}

/// True if no sandbox of this host can have a listener, rather than this one, or none for the moment.
bool RunningSandbox::host_forbids(const base::Error& error) const {
    if (error.code() != base::Errc::host_unsupported || has_exited(init_->fd()))
        return false;
    return socket_maker_ ? socket_maker_->could_not_join() : !lacks_helper_;
}

// Once process 1 is known, and again when the helper has sockets.
void RunningSandbox::make_listener() {
    if (!on_listening_ || !init_ || init_gone_)
        return;
    if (!can_connect())
        return await_connect([weak = weak_from_this()] {
            if (const auto self = weak.lock())
                self->make_listener();
        });
    auto fd = listen_inside(maker(), listen_port_);
    failures_->no_listeners = fd.has_error() && (failures_->no_listeners || host_forbids(fd.error()));
    const auto tell = std::exchange(on_listening_, nullptr);
    if (fd.has_error())
        return tell(fd.error());
    const auto count = [counter = our_sockets_, closed = closed_] { return counted(counter, closed); };
    tell(sandbox::InnerListener{{std::move(*fd), count()}, count});
}

bool RunningSandbox::can_connect() const {
    if (socket_program_.empty() || !init_ || init_gone_ || !sandbox::has_own_net(network_))
        return true;  // connect() says how it is
    return socket_maker_ && socket_maker_->is_ready();
}

void RunningSandbox::await_connect(std::function<void()> ready) {
    if (!can_connect() && !socket_maker_) {
        const std::string path = "/proc/" + std::to_string(init_pid_) + "/ns/net";
        const base::UniqueFd net(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        auto made = net && !has_exited(init_->fd())
                        ? SocketMaker::start(executor_, timers_, socket_program_, net, our_sockets_)
                        : base::Error(base::Errc::sandbox_gone);
        if (made)
            socket_maker_ = std::move(*made);
        else {
            socket_program_.clear();  // connect() is refused
            lacks_helper_ = true;
        }
    }
    if (can_connect())
        return boost::asio::post(executor_, std::move(ready));
    socket_maker_->await(std::move(ready));
}

std::optional<std::uint32_t> RunningSandbox::netlink_sockets() {
    const base::UniqueFd file = open_net("protocols");
    return file ? sockets_of_protocol(file.get(), "NETLINK") : std::nullopt;
}

void RunningSandbox::terminate() {
    terminate_wanted_ = true;
    if (init_)
        base::send_signal(init_->fd(), SIGTERM);
}

// Kills process 1 alone: bwrap then reaps it and ends by itself. If bwrap were killed, too, process 1 would
// be left to the host's init as a zombie. If bwrap were killed during its set-up, its child would go on
// without it.
void RunningSandbox::kill() {
    kill_wanted_ = true;
    socket_maker_.reset();
    if (init_)
        base::send_signal(init_->fd(), SIGKILL);
    if (!bwrap_exit_ && kill_timer_ == 0)
        kill_timer_ = timers_.arm(k_bwrap_deadline, [this] { base::send_signal(bwrap_.fd(), SIGKILL); });
}

void Orphans::adopt(const std::shared_ptr<RunningSandbox>& running) {
    kept_.insert(running);
    running->replace_exit_handler([orphans = weak_from_this(), key = running.get()](const sandbox::Exit&) {
        if (const auto self = orphans.lock())
            std::erase_if(self->kept_, [key](const auto& kept) { return kept.get() == key; });
    });
    running->kill();
}

}  // namespace atl::isolation
