#include "bridge/request.hpp"

#include <utility>

#include "bridge/reply_line.hpp"

namespace atl::bridge {

Request::Request(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                 base::Millis deadline, base::Errc refused, Done done)
    : LineReader(base::k_max_reply_line_bytes),
      context_(std::move(context)),
      refused_(refused),
      done_(std::move(done)) {
    deadline_ = context_->timers.arm(deadline, [this] {
        finish(base::Error(base::Errc::deadline_exceeded, "the guest did not answer in time"));
    });
    stream_ = Stream::open(context_, path, std::move(command), *this);
}

Request::~Request() {
    context_->timers.cancel(deadline_);
    stream_->close();
}

void Request::on_line(std::string_view line) {
    const std::optional<ReplyLine> reply = parse_reply_line(line);
    if (!reply)
        return finish(base::Error(base::Errc::bridge_failed, "the guest's answer is not a reply"));
    if (!reply->ok)
        return finish(base::Error(refused_, reply->error));
    finish(base::Result<void>());
}

void Request::on_end(Stream::End, std::string_view detail) {
    finish(base::Error(base::Errc::bridge_failed, std::string(detail)));
}

void Request::finish(base::Result<void> result) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    const Done done = std::exchange(done_, nullptr);
    done(std::move(result));
}

}  // namespace atl::bridge
