#include "fs-guard/helper_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/spawn.hpp"

namespace atl::fs_guard {
namespace {

constexpr std::size_t k_max_answer_bytes = 64UL * 1024;
constexpr int k_max_attempts = 3;
constexpr base::Millis k_first_restart_pause{100};
constexpr int k_max_pause_doublings = 6;
// A killed helper may have to finish one system call.
constexpr int k_end_wait_ms = 500;

struct Ends {
    base::UniqueFd read_end;
    base::UniqueFd write_end;
};

base::Result<Ends> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return base::Error(base::Errc::host_unsupported, base::errno_text("pipe", errno));
    return Ends{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

/// For a request whose answer says no more than that it is done.
std::function<void(base::Result<nlohmann::json>)> without_answer(HelperClient::Done done) {
    return [done = std::move(done)](const base::Result<nlohmann::json>& answer) {
        if (answer)
            done({});
        else
            done(answer.error());
    };
}

void set_nonblocking(const base::UniqueFd& fd) {
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
}

}  // namespace

HelperClient::HelperClient(base::Executor executor, base::Timers& timers, HelperConfig config)
    : executor_(executor), timers_(timers), config_(std::move(config)) {}

HelperClient::~HelperClient() {
    timers_.cancel(restart_timer_);
    end_helper();
}

base::Result<std::unique_ptr<HelperClient>> HelperClient::start(base::Executor executor, base::Timers& timers,
                                                                HelperConfig config) {
    std::unique_ptr<HelperClient> client(new HelperClient(executor, timers, std::move(config)));
    if (auto spawned = client->spawn_helper(); !spawned)
        return spawned.error();
    return client;
}

base::Result<void> HelperClient::spawn_helper() {
    auto requests = make_pipe();
    if (!requests)
        return requests.error();
    auto answers = make_pipe();
    if (!answers)
        return answers.error();
    isolation::ChildPlan plan;
    plan.fds = {requests->read_end.get(), answers->write_end.get(), STDERR_FILENO};
    plan.cwd = config_.working_dir;
    plan.priority = config_.priority;
    auto spawned = isolation::spawn(executor_, config_.program, {}, plan);
    if (!spawned)
        return base::Error(base::Errc::host_unsupported, spawned.error().detail());
    set_nonblocking(requests->write_end);
    set_nonblocking(answers->read_end);
    pid_ = spawned->pid;
    pidfd_ = std::move(spawned->pidfd);
    requests_ = std::move(requests->write_end);
    answers_.emplace(executor_, std::move(answers->read_end));
    input_.clear();
    await_answers();
    return {};
}

void HelperClient::remove(const std::string& path, Done done) {
    enqueue(nlohmann::json{{"op", "remove"}, {"path", path}}.dump(), without_answer(std::move(done)));
}

void HelperClient::sync_log(const std::filesystem::path& database, Done done) {
    enqueue(nlohmann::json{{"op", "sync-log"}, {"path", named(database)}}.dump(),
            without_answer(std::move(done)));
}

void HelperClient::checkpoint(const std::filesystem::path& database, Done done) {
    enqueue(nlohmann::json{{"op", "checkpoint"}, {"path", named(database)}}.dump(),
            without_answer(std::move(done)));
}

/// Relative where it can be: the data directory's own name may be no UTF-8.
std::string HelperClient::named(const std::filesystem::path& database) const {
    const auto below = database.lexically_relative(config_.working_dir);
    return below.empty() || *below.begin() == ".." ? database.string() : below.string();
}

void HelperClient::measure(const std::string& path, std::function<void(base::Result<TreeSize>)> done) {
    enqueue(nlohmann::json{{"op", "measure"}, {"path", path}}.dump(),
            [done = std::move(done)](const base::Result<nlohmann::json>& answer) {
                if (!answer)
                    return done(answer.error());
                done(TreeSize{answer->value("bytes", std::uint64_t{0}),
                              answer->value("inodes", std::uint64_t{0}), answer->value("complete", false)});
            });
}

void HelperClient::enqueue(std::string body, Answered done) {
    const std::uint64_t id = ++last_id_;
    std::string line = "{\"id\":" + std::to_string(id) + "," + body.substr(1) + "\n";
    queue_.push_back(Request{id, std::move(line), std::move(done)});
    send_next();
}

// The pipe is empty whenever a request is sent, and a line is far below its size: a write is whole or fails.
void HelperClient::send_next() {
    if (on_its_way_ || queue_.empty() || !answers_)
        return;
    const std::string& line = queue_.front().line;
    on_its_way_ = true;
    sent_at_ = std::chrono::steady_clock::now();
    // EPIPE: the end of its answers will say the same.
    if (::write(requests_.get(), line.data(), line.size()) < 0 && errno != EPIPE)
        base::send_signal(pidfd_, SIGKILL);
}

void HelperClient::await_answers() {
    answers_->wait(isolation::FdWatch::Event::readable, [this] { read_answers(); });
}

void HelperClient::read_answers() {
    std::array<char, 4096> chunk;
    const ssize_t count = ::read(answers_->fd().get(), chunk.data(), chunk.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        lose_helper("the helper ended");
        return;
    }
    if (count > 0)
        input_.append(chunk.data(), static_cast<std::size_t>(count));
    if (input_.size() > k_max_answer_bytes) {
        lose_helper("the helper's answer is too long");
        return;
    }
    await_answers();
    const std::size_t end = input_.find('\n');
    if (end == std::string::npos)
        return;
    const std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    take_answer(line);
}

// Last call of its handler: `done` may do anything, also destroy this client.
void HelperClient::take_answer(const std::string& line) {
    const auto answer = nlohmann::json::parse(line, nullptr, false);
    if (queue_.empty() || !answer.is_object() || answer.value("id", nlohmann::json()) != queue_.front().id) {
        lose_helper("the helper gave an answer that nobody asked for");
        return;
    }
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    on_its_way_ = false;
    failures_ = 0;
    durations_.add(std::chrono::steady_clock::now() - sent_at_);
    send_next();
    if (answer.value("ok", false)) {
        request.done(answer);
        return;
    }
    const std::string reason = answer.value("error", "no reason given");
    base::LogLine(base::evt::helper_failed).quoted("err", reason).warn();
    request.done(base::Error(base::Errc::storage_failed, reason));
}

void HelperClient::lose_helper(const char* why) {
    base::LogLine(base::evt::helper_failed).field("pid", pid_).field("err", why).error();
    ++deaths_;
    end_helper();
    restart_later();
    if (!std::exchange(on_its_way_, false) || ++queue_.front().attempts < k_max_attempts)
        return;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    request.done(base::Error(base::Errc::storage_failed, "the helper died of this request"));
}

void HelperClient::restart_later() {
    const auto pause = k_first_restart_pause * (1 << std::min(failures_++, k_max_pause_doublings));
    restart_timer_ = timers_.arm(pause, [this] {
        restart_timer_ = 0;
        if (auto spawned = spawn_helper(); !spawned) {
            base::LogLine(base::evt::helper_failed).quoted("err", spawned.error().detail()).error();
            restart_later();
            return;
        }
        send_next();
    });
}

void HelperClient::end_helper() noexcept {
    requests_.reset();
    answers_.reset();
    if (!pidfd_)
        return;
    base::send_signal(pidfd_, SIGKILL);
    pollfd gone{pidfd_.get(), POLLIN, 0};
    ::poll(&gone, 1, k_end_wait_ms);
    (void)base::reap(pidfd_);
    pidfd_.reset();
    pid_ = -1;
}

}  // namespace atl::fs_guard
