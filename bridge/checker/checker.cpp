#include "bridge/checker/checker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "bridge/checker/fields.hpp"
#include "bridge/checker/worker.hpp"
#include "core/base/json_parser.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/base/pidfd.hpp"
#include "core/isolation/spawn.hpp"

namespace atl::bridge::checker {

using base::Errc;
using base::Error;
using base::Result;

namespace {

struct PipeEnds {
    base::UniqueFd read_end;
    base::UniqueFd write_end;
};

Result<PipeEnds> make_checker_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return Error(Errc::host_unsupported, base::errno_text("pipe", errno));
    return PipeEnds{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

/// Accepts only these error codes from the process.
Errc code_of_refusal(std::string_view name) {
    for (const Errc code : {Errc::invalid_json, Errc::invalid_utf8})
        if (name == base::code_name(code))
            return code;
    return Errc::invalid_field;
}

/// The first field of an answer that must have one: `what`.
Result<std::string> first_field(const Result<std::vector<std::string_view>>& answer, const char* what) {
    if (!answer)
        return answer.error();
    if (answer->empty())
        return Error(Errc::internal, std::string("the process that checks gave an answer without ") + what);
    return std::string(answer->front());
}

void make_nonblocking(const base::UniqueFd& fd) {
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
}

/// Written anew, since they go into events and answers as they are.
Result<std::string> read_warnings(const Result<std::vector<std::string_view>>& answer) {
    constexpr std::size_t k_warnings_bytes = 64UL * 1024;
    auto text = first_field(answer, "warnings");
    if (!text || text->empty())
        return text;
    const Error malformed(Errc::internal, "the process that checks gave malformed warnings");
    if (text->size() > k_warnings_bytes)
        return malformed;
    const auto json = base::parse_json(*text);
    if (!json || !json->is_array())
        return malformed;
    return json->dump();
}

}  // namespace

class Checker::Ticket final : public execution::OffloadedJob {
  public:
    Ticket(std::shared_ptr<Checker*> checker, std::uint64_t key) : checker_(std::move(checker)), key_(key) {}
    ~Ticket() override {
        if (*checker_ != nullptr)
            (*checker_)->drop(key_);
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

  private:
    std::shared_ptr<Checker*> checker_;
    const std::uint64_t key_;
};

Checker::Checker(base::Executor executor, base::Timers& timers, CheckerConfig config)
    : executor_(std::move(executor)),
      timers_(timers),
      config_(std::move(config)),
      waiting_({"checks", "bytes", "Tools, and answers to calls, that were checked give their room back.",
                config_.waiting_bytes, base::k_checker_user_floor_bytes, std::chrono::seconds(1)},
               config_.user_share_percent),
      queue_({.running = 1,
              .running_per_user = 1,
              .waiting_per_user = std::numeric_limits<std::size_t>::max(),
              .retry_after = std::chrono::seconds(1)}) {}

Checker::~Checker() {
    close();
}

void Checker::close() {
    closed_ = true;
    *self_ = nullptr;
    requests_.clear();
    timers_.cancel(std::exchange(deadline_, 0));
    end_process();
}

Checker::Work Checker::verify(const std::string& user, std::span<const execution::ToolSpec> specs,
                              Done<std::string> done) {
    std::string fields;
    append_field(fields, "verify");
    for (const auto& spec : specs) {
        append_field(fields, spec.name);
        append_field(fields, spec.schema_json);
    }
    auto answered = [done = std::move(done)](const Result<Fields>& answer) { done(read_warnings(answer)); };
    return enqueue(user, Sender::client, std::move(fields), {}, std::move(answered));
}

Checker::Work Checker::declare(const std::string& user, std::span<const execution::ToolSpec> specs,
                               Done<std::string> done) {
    std::string fields;
    append_field(fields, "declare");
    for (const auto& spec : specs) {
        append_field(fields, spec.name);
        append_field(fields, spec.schema_json);
        append_field(fields, spec.description);
    }
    auto answered = [done = std::move(done)](const Result<Fields>& answer) {
        done(first_field(answer, "declarations"));
    };
    return enqueue(user, Sender::client, std::move(fields), {}, std::move(answered));
}

Checker::Work Checker::check(const std::string& user, const std::string& tool, const std::string& schema_json,
                             const std::string& args_json, Done<void> done) {
    std::string fields;
    append_field(fields, "check");
    append_field(fields, tool);
    append_field(fields, schema_json);
    append_length(fields, args_json.size());
    return enqueue(user, Sender::run, std::move(fields), args_json,
                   [done = std::move(done)](const Result<Fields>& answer) {
                       done(answer ? Result<void>() : Result<void>(answer.error()));
                   });
}

Checker::Work Checker::split(const std::string& user, std::string_view key, std::string json,
                             Done<execution::SplitJson> done) {
    std::string fields;
    append_field(fields, "split");
    append_field(fields, key);
    append_length(fields, json.size());
    auto answered = [done = std::move(done)](const Result<Fields>& answer) {
        auto rest = first_field(answer, "JSON");
        if (!rest)
            return done(rest.error());
        execution::SplitJson parts;
        parts.rest = std::move(*rest);
        parts.values.assign(answer->begin() + 1, answer->end());
        done(std::move(parts));
    };
    return enqueue(user, Sender::client, std::move(fields), std::move(json), std::move(answered));
}

Checker::Work Checker::read_value(const std::string& user, std::string json, Done<std::string> done) {
    std::string fields;
    append_field(fields, "value");
    append_length(fields, json.size());
    auto answered = [done = std::move(done)](const Result<Fields>& answer) {
        done(first_field(answer, "a value"));
    };
    return enqueue(user, Sender::run, std::move(fields), std::move(json), std::move(answered));
}

std::unique_ptr<execution::OffloadedJob> Checker::read(const std::string& user, std::string json,
                                                       std::uint64_t max_value_bytes,
                                                       runner::FrameReading::Callback told) {
    std::string fields;
    append_field(fields, "frame");
    append_field(fields, std::to_string(max_value_bytes));
    append_length(fields, json.size());
    auto answered = [told = std::move(told)](const Result<Fields>& answer) {
        if (!answer)
            return told(answer.error());
        auto frame = frame_of(*answer);
        if (!frame)
            return told(Error(Errc::internal, "the process that checks gave an answer without a frame"));
        told(std::move(*frame));
    };
    return enqueue(user, Sender::run, std::move(fields), std::move(json), std::move(answered));
}

/// For another piece of work of a client. Errors: too_many_executions, user_share, capacity.
Result<base::Share> Checker::take_room(const std::string& user, std::size_t size) {
    const auto count = std::ranges::count_if(requests_, [&](const auto& each) {
        return each.second.sender == Sender::client && each.second.user == user;
    });
    if (std::cmp_greater(count, config_.waiting_per_user))
        return Error(Errc::too_many_executions, "too many tools and answers to calls wait to be checked",
                     std::chrono::seconds(1));
    return waiting_.take(base::ShareHolder::named(user), size);
}

Checker::Work Checker::enqueue(const std::string& user, Sender sender, std::string fields, std::string body,
                               Answered answered) {
    const std::uint64_t key = ++last_key_;
    const std::size_t size = fields.size() + body.size();
    auto entered = closed_ ? Result<void>(Error(Errc::shutting_down)) : Result<void>();
    if (entered && size > k_message_bytes)
        entered = Error(Errc::internal, "more than the process that checks takes at once");
    base::Share share;
    if (entered && sender == Sender::client) {
        if (auto taken = take_room(user, size))
            share = std::move(*taken);
        else
            entered = taken.error();
    }
    if (entered)
        entered = queue_.enter(base::ShareHolder::named(user), key);
    std::string head;
    append_length(head, size);
    head += fields;
    if (!closed_)
        requests_.emplace(key, Request{user, sender, std::move(head), std::move(body), std::move(answered),
                                       std::move(share)});
    // Refused and sent from the loop alike: no callback comes from inside.
    timers_.defer([self = self_, key, entered = std::move(entered)] {
        if (*self == nullptr)
            return;
        if (entered)
            return (*self)->send_next();
        if (auto refused = (*self)->requests_.extract(key); !refused.empty() && refused.mapped().answered)
            refused.mapped().answered(entered.error());
    });
    return std::make_unique<Ticket>(self_, key);
}

// Work that the process has already is done to its end: the next work waits for that anyway.
void Checker::drop(std::uint64_t key) {
    const auto found = requests_.find(key);
    if (found == requests_.end())
        return;
    found->second.answered = nullptr;
    if (key == current_)
        return;
    requests_.erase(found);
    queue_.leave(key);
}

void Checker::send_next() {
    if (current_ != 0)
        return;
    const auto next = queue_.next();
    if (!next)
        return;
    current_ = *next;
    sent_at_ = std::chrono::steady_clock::now();
    watch_time(std::min(config_.processor_time, config_.deadline));
    send();
}

/// Looks after `delay`: a busy host, or a process that is stopped, uses up no processor time.
void Checker::watch_time(base::Millis delay) {
    deadline_ = timers_.arm(delay, [this] {
        deadline_ = 0;
        constexpr base::Millis k_least{10};
        const auto passed =
            std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - sent_at_);
        const auto left =
            std::min(config_.processor_time - (used_time() - used_before_), config_.deadline - passed);
        if (left > base::Millis{0})
            return watch_time(std::max(left, k_least));
        ++timeouts_;
        lose_process(Errc::deadline_exceeded, "it took too long");
    });
}

/// The processor time of the process, which is ours and not reaped.
base::Millis Checker::used_time() const {
    clockid_t clock{};
    timespec used{};
    if (pid_ < 0 || ::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
        return base::Millis{0};
    return std::chrono::duration_cast<base::Millis>(std::chrono::seconds(used.tv_sec) +
                                                    std::chrono::nanoseconds(used.tv_nsec));
}

void Checker::send() {
    sent_bytes_ = 0;
    if (pid_ < 0) {
        if (const auto started = start_process(); !started) {
            base::LogLine(base::evt::helper_failed).quoted("err", started.error().detail()).error();
            return finish(Error(Errc::internal, "the process that checks could not be started"));
        }
    }
    used_before_ = used_time();
    write_some();
}

void Checker::send_again() {
    if (!requests_.at(current_).answered)
        return finish(Error(Errc::internal, "nobody waits for it any more"));
    send();
}

Result<void> Checker::start_process() {
    auto requests = make_checker_pipe();
    if (!requests)
        return requests.error();
    auto answers = make_checker_pipe();
    if (!answers)
        return answers.error();
    isolation::ChildPlan plan;
    plan.fds = {requests->read_end.get(), answers->write_end.get(), STDERR_FILENO};
    plan.priority = isolation::Priority::low;
    auto spawned = isolation::spawn(config_.program, {}, plan);
    if (!spawned)
        return spawned.error();
    make_nonblocking(requests->write_end);
    make_nonblocking(answers->read_end);
    pid_ = spawned->pid;
    pidfd_ = std::move(spawned->pidfd);
    input_.emplace(executor_, std::move(requests->write_end));
    output_.emplace(executor_, std::move(answers->read_end));
    answer_.clear();
    await_answer();
    return {};
}

// Each handler makes one write: a pipe takes 64 KiB.
void Checker::write_some() {
    const Request& request = requests_.at(current_);
    const std::size_t of_head = std::min(sent_bytes_, request.head.size());
    const std::size_t of_body = sent_bytes_ - of_head;
    iovec parts[] = {{const_cast<char*>(request.head.data()) + of_head, request.head.size() - of_head},
                     {const_cast<char*>(request.body.data()) + of_body, request.body.size() - of_body}};
    const ssize_t sent = ::writev(input_->fd().get(), parts, 2);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return lose_process(Errc::internal, "it died");
    sent_bytes_ += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    if (sent_bytes_ < request.head.size() + request.body.size())
        input_->wait(base::FdWatch::Event::writable, [this] { write_some(); });
}

void Checker::await_answer() {
    output_->wait(base::FdWatch::Event::readable, [this] { read_some(); });
}

void Checker::read_some() {
    std::array<char, 64UL * 1024> chunk;
    const ssize_t count = ::read(output_->fd().get(), chunk.data(), chunk.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        return lose_process(Errc::internal, "it died");
    if (count > 0)
        answer_.append(chunk.data(), static_cast<std::size_t>(count));
    const bool has_length = answer_.size() >= k_length_bytes;
    const std::size_t length = has_length ? length_at(answer_) : 0;
    const bool is_unasked = !answer_.empty() && (current_ == 0 || sent_bytes_ == 0);
    if (is_unasked || length > k_message_bytes || answer_.size() > k_length_bytes + length + chunk.size())
        return lose_process(Errc::internal, "it said what nobody had asked for");
    await_answer();
    if (has_length && answer_.size() >= k_length_bytes + length)
        take_answer(std::exchange(answer_, {}));
}

// Last call of its handler: who is answered may do anything.
void Checker::take_answer(std::string_view message) {
    const Request& request = requests_.at(current_);
    const bool is_sent = sent_bytes_ == request.head.size() + request.body.size();
    const bool is_whole = message.size() == k_length_bytes + length_at(message);
    auto fields = split_fields(message.substr(k_length_bytes));
    if (!is_sent || !is_whole || !fields || fields->empty())
        return lose_process(Errc::internal, "it gave no answer that can be read");
    durations_.add(std::chrono::steady_clock::now() - sent_at_);
    const std::string_view word = fields->front();
    fields->erase(fields->begin());
    if (word == "ok")
        return finish(std::move(*fields));
    const std::string text = fields->empty() ? "" : std::string(fields->front());
    if (word == "no")
        return finish(Error(code_of_refusal(fields->size() > 1 ? (*fields)[1] : ""), text));
    base::LogLine(base::evt::helper_failed).quoted("err", text).error();
    finish(Error(Errc::internal, "the process that checks could not do it"));
}

void Checker::lose_process(Errc code, const char* why) {
    base::LogLine(base::evt::helper_failed).field("pid", pid_).quoted("err", why).error();
    ++deaths_;
    end_process();
    if (current_ == 0)
        return;
    Request& request = requests_.at(current_);
    // The cause may be earlier work, so this is sent again, once and within its deadline: other work waits.
    if (code != Errc::deadline_exceeded && request.answered && !std::exchange(request.is_second, true))
        return timers_.defer([self = self_, key = current_] {
            if (*self != nullptr && (*self)->current_ == key)
                (*self)->send_again();
        });
    finish(Error(code, std::string("the process that checks did not answer: ") + why));
}

void Checker::end_process() {
    input_.reset();
    output_.reset();
    if (pid_ < 0)
        return;
    base::send_signal(pidfd_, SIGKILL);
    base::reap_later(std::move(pidfd_));
    pid_ = -1;
}

// Last call of its handler, too.
void Checker::finish(const Result<Fields>& answer) {
    timers_.cancel(std::exchange(deadline_, 0));
    const auto request = requests_.extract(std::exchange(current_, 0));
    queue_.leave(request.key());
    timers_.defer([self = self_] {
        if (*self != nullptr)
            (*self)->send_next();
    });
    if (request.mapped().answered)
        request.mapped().answered(answer);
}

}  // namespace atl::bridge::checker
