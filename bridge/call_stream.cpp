#include "bridge/call_stream.hpp"

#include <algorithm>
#include <utility>

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "bridge/reply_line.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::bridge {
namespace {

constexpr std::size_t k_max_keepalive_depth = 16;

/// A line that is no reply.
struct KeepaliveVisitor : ObjectVisitor {
    bool ready = false;
    std::string_view progress;  // a view of the line

    bool on_bool(const std::string& key, bool value) {
        if (key == "ready")
            ready = value;
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key == "progress")
            progress = span;
        return true;
    }
};

std::string encode_call(const sandbox::CallSpec& spec) {
    std::string line = "{\"cmd\":";
    base::append_json_string(line, spec.command);
    if (!spec.members.empty())
        line.append(",").append(spec.members);
    line += "}\n";
    return line;
}

}  // namespace

CallStream::CallStream(std::shared_ptr<StreamContext> context, const std::string& path,
                       std::shared_ptr<IdleStream> idle, const sandbox::CallSpec& spec,
                       sandbox::CallObserver& observer)
    : context_(std::move(context)),
      idle_(std::move(idle)),
      observer_(observer),
      lines_(base::k_max_reply_line_bytes),
      silence_(spec.silence) {
    wait_for_keepalive();
    wait_for_reply();
    stream_ = idle_->begin(context_, path, encode_call(spec), *this);
}

CallStream::~CallStream() {
    stop_waiting();
    if (stream_)
        stream_->close();
}

void CallStream::stop_waiting() {
    context_->timers.cancel(std::exchange(deadline_, 0));
    context_->timers.cancel(std::exchange(reply_deadline_, 0));
}

/// However often the guest says that it is at work.
void CallStream::wait_for_reply() {
    context_->timers.cancel(reply_deadline_);
    reply_deadline_ = context_->timers.arm(base::k_call_reply_deadline, [this] {
        reply_deadline_ = 0;
        fail(base::Error(base::Errc::deadline_exceeded, "the guest did not come to an end in time"));
    });
}

void CallStream::wait_for_keepalive() {
    context_->timers.cancel(std::exchange(deadline_, 0));
    if (replied_ && silence_ == sandbox::CallSpec::Silence::allowed)
        return;
    deadline_ = context_->timers.arm(base::k_call_keepalive_deadline, [this] { on_deadline(); });
}

/// Nobody waits for the guest while it waits for the client.
void CallStream::on_deadline() {
    const bool input_due = input_ == Input::wanted && !wants_room_;
    if (input_due || pace() != Stream::Pace::full)
        return wait_for_keepalive();
    fail(base::Error(base::Errc::deadline_exceeded, "the guest did not answer in time"));
}

std::size_t CallStream::write(std::string_view bytes) {
    // These bytes are dropped: the reply of the guest decides how the call goes on.
    if (input_ == Input::ended || !is_open())
        return bytes.size();
    if (input_ == Input::unasked)
        return 0;
    const std::size_t room = stream_->room();
    const std::size_t taken =
        room <= k_frame_header_bytes
            ? 0
            : std::min({bytes.size(), room - k_frame_header_bytes, base::k_max_frame_bytes});
    wants_room_ = wants_room_ || taken < bytes.size();
    if (taken == 0)
        return 0;
    const auto header = frame_header(FrameType::input, taken);
    stream_->write({header.data(), header.size()}, bytes.substr(0, taken));
    return taken;
}

void CallStream::end_input() {
    if (std::exchange(input_, Input::ended) == Input::ended || !is_open())
        return;
    const auto header = frame_header(FrameType::input_end, 0);
    stream_->write({header.data(), header.size()});
    wait_for_keepalive();
    wait_for_reply();
}

void CallStream::resume() {
    if (!is_open())
        return;
    wait_for_keepalive();
    stream_->resume();
}

Stream::Taken CallStream::on_bytes(Stream& stream, std::string_view bytes) {
    if (replied_)
        return read_frames(stream, bytes);
    const Stream::Taken lines = read_lines(stream, bytes);
    // A usual answer comes as a whole, so its frames are read at once. This object may be gone.
    if (!stream.has_reader() || !replied_ || lines.bytes == bytes.size() || pace() != Stream::Pace::full)
        return lines;
    Stream::Taken frames = read_frames(stream, bytes.substr(lines.bytes));
    frames.bytes += lines.bytes;
    return frames;
}

Stream::Taken CallStream::read_lines(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    std::string_view left = bytes;
    for (std::size_t lines = 0; lines < k_lines_per_handler && !left.empty(); ++lines) {
        const LineCutter::Cut cut = lines_.next(left);
        if (cut.found == LineCutter::Found::part)
            return {bytes.size() - left.size(), Rest::needs_more, nullptr};
        if (cut.found == LineCutter::Found::too_long)
            return {0, Rest::needs_more, "the guest's answer is too long"};
        stream.charge(base::k_paced_line_bytes);
        const char* const refusal = handle_line(cut.line);
        if (refusal != nullptr || !stream.has_reader())
            return {0, Rest::needs_more, refusal};  // this may be gone
        left.remove_prefix(cut.line.size() + 1);
        if (replied_ || pace() == Stream::Pace::hold)
            break;
    }
    return {bytes.size() - left.size(), left.empty() ? Rest::needs_more : Rest::go_on, nullptr};
}

/// Returns what is wrong with the line, or null.
const char* CallStream::handle_line(std::string_view line) {
    if (const std::optional<ReplyLine> reply = parse_reply_line(line)) {
        if (!reply->ok) {
            fail(base::Error(errc_of(reply->code), reply->error));
            return nullptr;
        }
        replied_ = true;
        context_->timers.cancel(std::exchange(reply_deadline_, 0));
        wait_for_keepalive();
        observer_.on_reply(line);
        return nullptr;
    }
    KeepaliveVisitor keepalive;
    if (scan_object(line, k_max_keepalive_depth, keepalive) != Scan::complete)
        return "the guest's answer is not of the form of a call";
    ++keepalives_;
    // While it takes input, what counts is that it does.
    if (input_ != Input::wanted)
        wait_for_keepalive();
    if (keepalive.ready) {
        if (std::exchange(input_, Input::wanted) != Input::unasked)
            return "the guest asked for input again";
        context_->timers.cancel(std::exchange(reply_deadline_, 0));
        observer_.on_ready();
    } else if (!keepalive.progress.empty()) {
        observer_.on_progress(keepalive.progress);
    }
    return nullptr;
}

Stream::Taken CallStream::read_frames(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    const std::size_t size = bytes.size();
    Frame frame;
    wait_for_keepalive();
    for (std::size_t frames = 0; frames < k_frames_per_handler; ++frames) {
        const FrameDecoder::Found found = decoder_.next(bytes, frame);
        if (found == FrameDecoder::Found::need_more)
            return {size, Rest::needs_more, nullptr};
        if (found == FrameDecoder::Found::frame && frame.type == FrameType::exit) {
            on_exit(stream);
            return {size - bytes.size(), Rest::needs_more, nullptr};  // this may be gone
        }
        if (found == FrameDecoder::Found::refused || frame.type != FrameType::output)
            return {0, Rest::needs_more, "the guest broke the protocol of a call"};
        stream.charge(base::k_paced_line_bytes);
        observer_.on_bytes(frame.bytes);
        if (!stream.has_reader())
            return {size, Rest::needs_more, nullptr};  // this may be gone
        if (!bytes.empty() && pace() != Stream::Pace::full)
            break;
    }
    return {size - bytes.size(), bytes.empty() ? Rest::needs_more : Rest::go_on, nullptr};
}

/// The next call may go by this connection, unless input of this one may still be on its way. What the guest
/// has said behind the exit closes it.
void CallStream::on_exit(Stream& stream) {
    stop_waiting();
    const auto left = std::exchange(stream_, nullptr);
    const auto idle = idle_;
    const bool is_good = input_ == Input::unasked;
    is_good ? stream.release() : stream.close();
    observer_.on_end();
    if (is_good)
        idle->keep(left);
}

void CallStream::on_writable() {
    if (!std::exchange(wants_room_, false))
        return;
    wait_for_keepalive();
    observer_.on_writable();
}

Stream::Pace CallStream::pace() const {
    if (observer_.is_full())
        return Stream::Pace::hold;
    return !replied_ && keepalives_ > base::k_call_fast_keepalives ? Stream::Pace::slow : Stream::Pace::full;
}

void CallStream::on_end(Stream::End, std::string_view detail) {
    stop_waiting();
    observer_.on_failed(base::Error(base::Errc::bridge_failed, std::string(detail)));
}

void CallStream::fail(base::Error error) {
    stop_waiting();
    if (stream_)
        stream_->close();
    observer_.on_failed(error);
}

}  // namespace atl::bridge
