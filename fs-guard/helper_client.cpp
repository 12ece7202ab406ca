#include "fs-guard/helper_client.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/base/ending_limits.hpp"
#include "core/base/json_parser.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/spawn.hpp"

namespace atl::fs_guard {
namespace {

// A page of a list (k_list_page_bytes and one more item), each byte of it six of JSON at most.
constexpr std::size_t k_max_answer_bytes = 6 * (base::k_list_page_bytes + 64UL * 1024);
// The answer with the turns of a log that is loaded is shorter.
static_assert(96 * base::k_turns_told_apart < k_max_answer_bytes);
constexpr std::size_t k_most_members = 4096;  // in one request
constexpr base::Millis k_first_restart_pause{100};
constexpr int k_max_pause_doublings = 6;
// Some 3 s: then those who wait for an answer hear that there is none.
constexpr int k_patient_failures = 6;

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

/// For a request whose answer carries no data.
std::function<void(base::Result<nlohmann::json>)> without_answer(HelperClient::Done done) {
    return [done = std::move(done)](const base::Result<nlohmann::json>& answer) {
        if (answer)
            done({});
        else
            done(answer.error());
    };
}

TreeSize tree_of(const nlohmann::json& answer) {
    return {answer.value("bytes", std::uint64_t{0}), answer.value("inodes", std::uint64_t{0}),
            answer.value("complete", false), answer.value("tooLarge", false)};
}

void set_nonblocking(const base::UniqueFd& fd) {
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
}

}  // namespace

HelperClient::HelperClient(base::Executor executor, base::Timers& timers, HelperConfig config)
    : executor_(executor), timers_(timers), config_(std::move(config)) {}

HelperClient::~HelperClient() {
    timers_.cancel(restart_timer_);
    timers_.cancel(deadline_);
    base::send_signal(pidfd_, SIGKILL);
    base::reap_later(std::move(pidfd_));
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
    auto spawned = isolation::spawn(config_.program, {}, plan);
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

void HelperClient::remove(const std::string& path, base::Millis slice,
                          std::function<void(base::Result<bool> is_gone)> done) {
    enqueue(Kind::walk, nlohmann::json{{"op", "remove"}, {"path", path}, {"ms", slice.count()}}.dump(),
            [done = std::move(done)](const base::Result<nlohmann::json>& answer) {
                answer ? done(answer->value("gone", true)) : done(answer.error());
            });
}

void HelperClient::sync_log(const std::filesystem::path& database, Done done) {
    enqueue(Kind::task, nlohmann::json{{"op", "sync-log"}, {"path", named(database)}}.dump(),
            without_answer(std::move(done)));
}

void HelperClient::checkpoint(const std::filesystem::path& database, Done done) {
    enqueue(Kind::task, nlohmann::json{{"op", "checkpoint"}, {"path", named(database)}}.dump(),
            without_answer(std::move(done)));
}

void HelperClient::find(const std::filesystem::path& database, const std::string& question,
                        Answered answered) {
    enqueue(Kind::find,
            nlohmann::json{{"op", "find"}, {"path", named(database)}, {"question", question}}.dump(),
            std::move(answered));
}

bool HelperClient::is_lost() const noexcept {
    return !answers_ && failures_ >= k_patient_failures;
}

void HelperClient::close_database(const std::filesystem::path& database, Done done) {
    enqueue(Kind::task, nlohmann::json{{"op", "close"}, {"path", named(database)}}.dump(),
            without_answer(std::move(done)));
}

/// Relative where it can be: the data directory's own name may be no UTF-8.
std::string HelperClient::named(const std::filesystem::path& database) const {
    const auto below = database.lexically_relative(config_.working_dir);
    return below.empty() || *below.begin() == ".." ? database.string() : below.string();
}

void HelperClient::measure(const std::string& path, std::function<void(base::Result<TreeSize>)> done) {
    enqueue(Kind::walk, nlohmann::json{{"op", "measure"}, {"path", path}}.dump(),
            [done = std::move(done)](const base::Result<nlohmann::json>& answer) {
                if (!answer)
                    return done(answer.error());
                done(tree_of(*answer));
            });
}

void HelperClient::inspect(const std::string& path, const Members& members,
                           std::function<void(base::Result<Inspection>)> done) {
    // A request fits the pipe: of more members the rest is out of sight.
    const std::size_t told = std::min(members.all.size(), k_most_members);
    const std::vector<pid_t> all(members.all.begin(),
                                 members.all.begin() + static_cast<std::ptrdiff_t>(told));
    const std::uint64_t left_out = members.all.size() - told;
    enqueue(
        Kind::walk,
        nlohmann::json{{"op", "inspect"}, {"path", path}, {"pid", members.first}, {"members", all}}.dump(),
        [done = std::move(done), left_out](const base::Result<nlohmann::json>& answer) {
            if (!answer)
                return done(answer.error());
            Inspection found;
            found.tree = tree_of(*answer);
            found.held.bytes = answer->value("heldBytes", std::uint64_t{0});
            found.held.inodes = answer->value("heldInodes", std::uint64_t{0});
            found.out_of_sight = answer->value("outOfSight", std::uint64_t{0}) + left_out;
            found.written_bytes = answer->value("written", std::uint64_t{0});
            done(found);
        });
}

void HelperClient::enqueue(Kind kind, std::string body, Answered done) {
    const std::uint64_t id = ++last_id_;
    std::string line = "{\"id\":" + std::to_string(id) + "," + body.substr(1) + "\n";
    queue_.push_back(Request{id, kind, std::move(line), std::move(done)});
    send_next();
}

// The pipe is empty whenever a request is sent, and a line is far below its size: a write is whole or fails.
void HelperClient::send_next() {
    if (on_its_way_ || queue_.empty() || !answers_)
        return;
    const std::string& line = queue_.front().line;
    on_its_way_ = true;
    sent_at_ = std::chrono::steady_clock::now();
    arm_deadline();
    // EPIPE: the end of its answers will say the same.
    if (::write(requests_.get(), line.data(), line.size()) < 0 && errno != EPIPE)
        base::send_signal(pidfd_, SIGKILL);
}

void HelperClient::arm_deadline() {
    const Request& request = queue_.front();
    const bool walks = request.kind == Kind::walk;
    const base::Millis time =
        walks ? config_.deadlines.progress : config_.deadlines.answer * (1 << request.attempts);
    timers_.cancel(deadline_);
    deadline_ = timers_.arm(time, [this, walks] {
        deadline_ = 0;
        ++timeouts_;
        lose_helper(walks ? "the helper made no progress in time" : "the helper gave no answer in time");
    });
}

void HelperClient::await_answers() {
    answers_->wait(base::FdWatch::Event::readable, [this] { read_answers(); });
}

void HelperClient::read_answers() {
    std::array<char, 64UL * 1024> chunk;  // what a pipe holds
    const ssize_t count = ::read(answers_->fd().get(), chunk.data(), chunk.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        return lose_helper("the helper ended");
    if (count > 0)
        input_.append(chunk.data(), static_cast<std::size_t>(count));
    if (input_.size() > k_max_answer_bytes)
        return lose_helper("the helper's answer is too long");
    await_answers();
    for (std::size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
        auto answer = base::parse_json(std::string_view(input_).substr(0, end));
        input_.erase(0, end + 1);
        if (queue_.empty() || !answer || !answer->is_object() ||
            answer->value("id", nlohmann::json()) != queue_.front().id)
            return lose_helper("the helper gave an answer that nobody asked for");
        if (!answer->contains("progress"))
            return take_answer(std::move(*answer));
        arm_deadline();
    }
}

// Last call of its handler: `done` may do anything, also destroy this client.
void HelperClient::take_answer(nlohmann::json answer) {
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    on_its_way_ = false;
    timers_.cancel(std::exchange(deadline_, 0));
    failures_ = 0;
    durations_.add(std::chrono::steady_clock::now() - sent_at_);
    send_next();
    if (answer.value("ok", false)) {
        request.done(std::move(answer));
        return;
    }
    const std::string reason = answer.value("error", "no reason given");
    base::LogLine(base::evt::helper_failed).quoted("err", reason).warn();
    request.done(base::Error(base::Errc::storage_failed, reason));
}

// Last call of its handler, too.
void HelperClient::lose_helper(const char* why) {
    base::LogLine line(base::evt::helper_failed);
    line.field("pid", pid_).field("err", why);
    if (on_its_way_)
        line.field("attempt", queue_.front().attempts + 1);
    line.error();
    ++deaths_;
    end_helper();
    if (!std::exchange(on_its_way_, false) || ++queue_.front().attempts < base::k_max_helper_attempts)
        return;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    request.done(base::Error(base::Errc::storage_failed, "the helper died of this request"));
}

// The next helper starts when this one is gone: two helpers must not walk the same tree.
void HelperClient::end_helper() {
    timers_.cancel(std::exchange(deadline_, 0));
    requests_.reset();
    answers_.reset();
    base::send_signal(pidfd_, SIGKILL);
    pid_ = -1;
    ending_.emplace(executor_, std::move(pidfd_));
    ending_->wait(base::FdWatch::Event::readable, [this] {
        (void)base::reap(ending_->fd());
        ending_.reset();
        restart_later();
    });
}

void HelperClient::restart_later() {
    const auto pause = k_first_restart_pause * (1 << std::min(failures_++, k_max_pause_doublings));
    restart_timer_ = timers_.arm(pause, [this] {
        restart_timer_ = 0;
        if (auto spawned = spawn_helper(); !spawned) {
            base::LogLine(base::evt::helper_failed).quoted("err", spawned.error().detail()).error();
            restart_later();
            if (failures_ >= k_patient_failures)
                refuse_finds(spawned.error().detail());
            return;
        }
        send_next();
    });
}

// Last call of its handler, too. Removals and checkpoints wait on: nobody waits for those.
void HelperClient::refuse_finds(const std::string& why) {
    std::deque<Request> kept;
    std::deque<Request> refused;
    for (Request& request : queue_)
        (request.kind == Kind::find ? refused : kept).push_back(std::move(request));
    queue_ = std::move(kept);
    for (const Request& request : refused)
        request.done(base::Error(base::Errc::storage_failed, "the helper cannot be started: " + why));
}

}  // namespace atl::fs_guard
