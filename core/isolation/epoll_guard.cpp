#include "core/isolation/epoll_guard.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/fd_watch.hpp"
#include "core/isolation/spawn.hpp"

namespace atl::isolation {
namespace {

constexpr base::Millis k_check_period{200};
// A count of 5.5 million registrations takes 3 s.
constexpr unsigned k_count_seconds = 5;
// One read of a set cannot be interrupted: a count may end that much later than it should.
constexpr base::Millis k_count_deadline{2 * k_count_seconds * 1000};
constexpr std::size_t k_max_count_bytes = 64;
// A sandbox that holds less than one part in this many of the table is no offender.
constexpr std::uint64_t k_offender_share = 16;
constexpr int k_sigkill = SIGKILL;

std::uint64_t table_size() {
    std::ifstream in("/proc/sys/fs/epoll/max_user_watches");
    std::uint64_t size = 0;
    in >> size;
    return size;
}

void log_failure(const std::string& why) {
    base::LogLine(base::evt::epoll_exhausted).quoted("err", why).error();
}

}  // namespace

struct EpollGuard::Count {
    Count(const base::Executor& executor, base::UniqueFd from) : output(executor, std::move(from)) {}
    // Kills a counter that still runs; init reaps it once the server has ended.
    ~Count() { base::send_signal(counter, SIGKILL); }
    FdWatch output;
    base::UniqueFd counter;  // a pidfd
    base::TimerId deadline = 0;
    bool has_told = false;
};

EpollGuard::EpollGuard(base::Executor executor, base::Timers& timers, std::filesystem::path zygote,
                       EpollGuardPorts ports)
    : executor_(executor), timers_(timers), zygote_(std::move(zygote)), ports_(std::move(ports)) {
    check();
}

std::unique_ptr<EpollGuard> EpollGuard::where_needed(UidMode mode, base::Executor executor,
                                                     base::Timers& timers, std::filesystem::path zygote,
                                                     EpollGuardPorts ports) {
    if (mode == UidMode::private_uid)
        return nullptr;
    return std::make_unique<EpollGuard>(executor, timers, std::move(zygote), std::move(ports));
}

EpollGuard::~EpollGuard() {
    timers_.cancel(timer_);
    if (count_)
        timers_.cancel(count_->deadline);
}

void EpollGuard::check() {
    timer_ = timers_.arm(k_check_period, [this] { check(); });
    if (count_ && count_->has_told && base::reap(count_->counter))
        count_.reset();
    const bool is_full = !reserve_.refill();
    if (is_full && !was_full_)
        base::LogLine(base::evt::epoll_exhausted)
            .quoted("err", "the server's user has no epoll registrations left (fs.epoll.max_user_watches)")
            .field("reserve", static_cast<std::int64_t>(reserve_.held()))
            .error();
    was_full_ = is_full;
    if (is_full && !count_)
        start_count();
}

void EpollGuard::start_count() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
        return log_failure(base::errno_text("pipe", errno));
    base::UniqueFd output(ends[0]);
    const base::UniqueFd input(ends[1]);
    try {
        count_ = std::make_unique<Count>(executor_, std::move(output));
    } catch (const std::exception& error) {
        // The reserve is used up. The next check tries again.
        return log_failure(error.what());
    }
    if (auto spawned = spawn_counter(input); spawned) {
        count_->counter = std::move(spawned->pidfd);
    } else {
        count_.reset();
        return log_failure(spawned.error().detail());
    }
    count_->deadline = timers_.arm(k_count_deadline, [this] {
        log_failure("counting epoll registrations takes too long");
        base::send_signal(count_->counter, SIGKILL);
    });
    count_->output.wait(FdWatch::Event::readable, [this] { take_count(); });
}

base::Result<Spawned> EpollGuard::spawn_counter(const base::UniqueFd& output) {
    std::vector<std::string> args{"epoll-count", std::to_string(k_count_seconds),
                                  std::to_string(table_size() / k_offender_share)};
    for (const auto& [id, pid] : ports_.processes())
        args.push_back(std::to_string(pid));
    const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ChildPlan plan;
    plan.fds = {null.get(), output.get(), STDERR_FILENO};
    return spawn(zygote_, args, plan);
}

// Reads the count: at most one line, written at once (pipe(7)), or the end of the process without a line.
void EpollGuard::take_count() {
    std::array<char, k_max_count_bytes> text;
    const ssize_t size = ::read(count_->output.fd().get(), text.data(), text.size());
    timers_.cancel(count_->deadline);
    count_->has_told = true;
    judge({text.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
}

void EpollGuard::judge(const std::string& text) {
    const auto offender = epoll_offender(text, table_size());
    const auto processes = ports_.processes();
    const auto found = std::find_if(processes.begin(), processes.end(), [&](const auto& process) {
        return offender && process.second == offender->pid;
    });
    if (found == processes.end())
        return log_failure("no sandbox is seen to hold many of the epoll registrations");
    base::LogLine(base::evt::epoll_exhausted)
        .field("sbx", found->first)
        .field("registrations", static_cast<std::int64_t>(offender->registrations))
        .error();
    sandbox::Exit exit;
    exit.exit_class = sandbox::ExitClass::oom;
    exit.code = k_sigkill;
    exit.detail = "its processes held " + std::to_string(offender->registrations) +
                  " epoll registrations, and the server's user had none left";
    ports_.kill(found->first, std::move(exit));
}

std::optional<EpollOffender> epoll_offender(const std::string& text, std::uint64_t table_size) {
    std::istringstream in(text);
    EpollOffender most;
    const bool is_told = static_cast<bool>(in >> most.pid >> most.registrations);
    return is_told && most.registrations > table_size / k_offender_share ? std::optional(most) : std::nullopt;
}

}  // namespace atl::isolation
