#include "bridge/dial_stream.hpp"

#include <algorithm>
#include <utility>

#include "bridge/protocol.hpp"
#include "bridge/reply_line.hpp"

namespace atl::bridge {

DialStream::DialStream(std::shared_ptr<StreamContext> context, const std::string& path, std::uint16_t port,
                       sandbox::DialObserver& observer)
    : context_(std::move(context)), observer_(observer), reply_(base::k_max_reply_line_bytes) {
    deadline_ = context_->timers.arm(base::k_control_reply_deadline, [this] {
        fail(base::Error(base::Errc::deadline_exceeded, "the guest did not answer in time"));
    });
    stream_ =
        Stream::open(context_, path, "{\"cmd\":\"dial\",\"port\":" + std::to_string(port) + "}\n", *this);
}

DialStream::~DialStream() {
    context_->timers.cancel(deadline_);
    stream_->close();
}

std::size_t DialStream::write(std::string_view bytes) {
    if (!stream_->has_reader())
        return bytes.size();
    const std::size_t taken = open_ ? std::min(bytes.size(), stream_->room()) : 0;
    wants_room_ = wants_room_ || taken < bytes.size();
    if (taken != 0)
        stream_->write(bytes.substr(0, taken));
    return taken;
}

Stream::Taken DialStream::on_bytes(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    if (open_) {
        observer_.on_bytes(bytes);
        return {bytes.size(), Rest::needs_more, nullptr};
    }
    const LineCutter::Cut cut = reply_.next(bytes);
    if (cut.found == LineCutter::Found::part)
        return {};
    const std::optional<ReplyLine> reply =
        cut.found == LineCutter::Found::line ? parse_reply_line(cut.line) : std::nullopt;
    if (!reply)
        return {0, Rest::needs_more, "the guest's answer to dial is not a reply"};
    if (!reply->ok) {
        fail(base::Error(errc_of(reply->code), reply->error));
        return {};
    }
    context_->timers.cancel(std::exchange(deadline_, 0));
    open_ = true;
    const std::size_t used = cut.line.size() + 1;
    observer_.on_open();
    return {used, stream.has_reader() && used < bytes.size() ? Rest::go_on : Rest::needs_more, nullptr};
}

Stream::AtEof DialStream::on_eof() {
    if (!open_)
        return Stream::AtEof::end;
    read_ended_ = true;
    const auto stream = stream_;
    observer_.on_eof();
    return stream->has_reader() ? Stream::AtEof::keep_writing : Stream::AtEof::end;
}

void DialStream::on_writable() {
    if (std::exchange(wants_room_, false))
        observer_.on_writable();
}

void DialStream::on_end(Stream::End end, std::string_view detail) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    if (read_ended_ && end == Stream::End::closed)
        return observer_.on_end(base::Result<void>());
    observer_.on_end(base::Error(base::Errc::bridge_failed, std::string(detail)));
}

Stream::Pace DialStream::pace() const {
    return open_ && observer_.is_full() ? Stream::Pace::hold : Stream::Pace::full;
}

void DialStream::fail(base::Error error) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    observer_.on_end(error);
}

}  // namespace atl::bridge
