#include "http/api/process_feeder.hpp"

#include <utility>

namespace atl::http {

using base::Errc;
using base::Error;

ProcessFeeder::ProcessFeeder(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations,
                             const std::string& id, base::Timers& timers)
    : lease_(std::move(lease)),
      timers_(timers),
      cause_(*lease_, timers, [this](const Error& why) { end(why); }) {
    run_ = operations.feed(id, *this);
}

ProcessFeeder::~ProcessFeeder() {
    timers_.cancel(deadline_);
}

void ProcessFeeder::ask(std::string_view piece, Reply reply) {
    piece_ = piece;
    reply_ = std::move(reply);
    deadline_ = timers_.arm(base::k_process_input_deadline, [this] {
        deadline_ = 0;
        end(Error(Errc::deadline_exceeded, "The process does not read its input."));
    });
    go_on();
}

void ProcessFeeder::go_on() {
    if (!reply_ || (!started_ && end_.has_value()))
        return;
    if (end_.has_error())
        return answer(end_);
    if (!run_)
        return;
    if (!piece_.empty())
        piece_.remove_prefix(run_->write(piece_));
    if (piece_.empty() && run_->waiting_input_bytes() == 0)
        answer({});
}

void ProcessFeeder::answer(base::Result<void> result) {
    timers_.cancel(std::exchange(deadline_, 0));
    std::exchange(reply_, nullptr)(std::move(result));
}

void ProcessFeeder::on_started(pid_t) {
    started_ = true;
    go_on();
}

void ProcessFeeder::on_exit(const sandbox::RunExit&) {
    end(Error(Errc::process_ended, "The process has ended."));
}

void ProcessFeeder::on_failed(const Error& error) {
    run_.reset();
    cause_.met(error);
}

void ProcessFeeder::end(Error why) {
    if (end_.has_value())
        end_ = std::move(why);
    run_.reset();
    if (woken_)
        woken_();
    go_on();
}

std::optional<Error> ProcessFeeder::cut_off() const {
    if (end_.has_value() || end_.error().code() == Errc::process_ended)
        return std::nullopt;
    return end_.error();
}

}  // namespace atl::http
