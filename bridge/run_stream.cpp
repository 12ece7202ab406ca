#include "bridge/run_stream.hpp"

#include <algorithm>
#include <utility>

#include "bridge/protocol.hpp"
#include "bridge/reply_line.hpp"

namespace atl::bridge {
namespace {

/// `more`: members, each behind a comma.
std::string encode_attach(const std::string& id, const std::string& more) {
    std::string line = "{\"cmd\":\"attach\",\"id\":";
    base::append_json_string(line, id);
    return line + more + "}\n";
}

}  // namespace

void append_program(std::string& line, const sandbox::RunSpec& spec) {
    if (spec.command) {
        line += ",\"command\":";
        base::append_json_string(line, *spec.command);
    } else {
        line += ",\"argv\":[";
        for (const std::string& argument : spec.argv) {
            if (line.back() != '[')
                line += ',';
            base::append_json_string(line, argument);
        }
        line += ']';
    }
    if (!spec.directory.empty()) {
        line += ",\"cwd\":";
        base::append_json_string(line, spec.directory);
    }
    if (!spec.env.empty()) {
        line += ",\"env\":{";
        for (const auto& [name, value] : spec.env) {
            if (line.back() != '{')
                line += ',';
            base::append_json_string(line, name);
            line += ':';
            base::append_json_string(line, value);
        }
        line += '}';
    }
    if (spec.timeout.count() > 0)
        line += ",\"timeoutMs\":" + std::to_string(spec.timeout.count());
    if (spec.stdin_kind == sandbox::RunSpec::Stdin::pipe)
        line += ",\"stdin\":true";
}

std::string encode_exec(const sandbox::RunSpec& spec) {
    std::string line = "{\"cmd\":\"exec\"";
    append_program(line, spec);
    line += "}\n";
    return line;
}

RunStream::RunStream(std::shared_ptr<StreamContext> context, const std::string& path,
                     const sandbox::RunSpec& spec, sandbox::RunObserver& observer)
    : RunStream(std::move(context), path, encode_exec(spec), Use::exec, observer) {
    input_ended_ = spec.stdin_kind == sandbox::RunSpec::Stdin::none;
}

RunStream::RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
                     std::uint64_t after, sandbox::RunObserver& observer)
    : RunStream(std::move(context), path, encode_attach(id, ",\"after\":" + std::to_string(after)),
                Use::attach, observer) {}

RunStream::RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
                     sandbox::RunObserver& observer)
    : RunStream(std::move(context), path, encode_attach(id, ",\"input\":true"), Use::attach, observer) {}

RunStream::RunStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                     Use use, sandbox::RunObserver& observer)
    : context_(std::move(context)), observer_(observer), use_(use), reply_(base::k_max_reply_line_bytes) {
    const auto deadline = use == Use::exec ? k_exec_reply_deadline : base::k_control_reply_deadline;
    deadline_ = context_->timers.arm(deadline, [this] {
        fail(base::Error(base::Errc::deadline_exceeded, "the guest did not answer in time"));
    });
    stream_ = Stream::open(context_, path, std::move(command), *this);
}

RunStream::~RunStream() {
    context_->timers.cancel(deadline_);
    stream_->close();
}

std::size_t RunStream::write(std::string_view bytes) {
    if (input_ended_ || !stream_->has_reader())
        return bytes.size();
    const std::size_t taken = started_ ? std::min(bytes.size(), granted_bytes_) : 0;
    wants_room_ = wants_room_ || taken < bytes.size();
    if (taken == 0)
        return 0;
    granted_bytes_ -= taken;
    std::string frame;
    frame.reserve(k_frame_header_bytes + taken);
    append_frame(frame, FrameType::input, bytes.substr(0, taken));
    stream_->write(frame);
    return taken;
}

void RunStream::close_input() {
    if (std::exchange(input_ended_, true))
        return;
    const auto header = frame_header(FrameType::input_end, 0);
    stream_->write({header.data(), header.size()});
}

void RunStream::signal(int number) {
    // A guest that does not read its stream gets no more of them.
    if (started_ && number >= 1 && number <= 64 && stream_->room() != 0)
        stream_->write(encode_signal(static_cast<std::uint8_t>(number)));
}

void RunStream::resize(const sandbox::TerminalSize& size) {
    if (has_terminal_ && stream_->room() != 0)
        stream_->write(encode_resize(size.columns, size.rows));
}

Stream::Taken RunStream::on_bytes(Stream& stream, std::string_view bytes) {
    return started_ ? read_frames(stream, bytes) : read_reply(stream, bytes);
}

Stream::Taken RunStream::read_reply(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    const LineCutter::Cut cut = reply_.next(bytes);
    if (cut.found == LineCutter::Found::part)
        return {};
    const std::optional<ReplyLine> reply =
        cut.found == LineCutter::Found::line ? parse_reply_line(cut.line) : std::nullopt;
    if (!reply || (reply->ok && (reply->pid == 0 || reply->pid > k_most_pids)))
        return {0, Rest::needs_more, "the guest's answer is not a reply"};
    if (!reply->ok) {
        fail(base::Error(errc_of(reply->code), reply->error));
        return {};
    }
    context_->timers.cancel(std::exchange(deadline_, 0));
    started_ = true;
    has_terminal_ = reply->terminal;
    const std::size_t used = cut.line.size() + 1;
    observer_.on_started(static_cast<pid_t>(reply->pid));
    if (stream.has_reader() && use_ == Use::attach)
        observer_.on_position(reply->from,
                              reply->terminal ? sandbox::StreamKind::terminal : sandbox::StreamKind::pipes);
    // Frames that came along are shown next.
    return {used, stream.has_reader() && used < bytes.size() ? Rest::go_on : Rest::needs_more, nullptr};
}

Stream::Taken RunStream::read_frames(Stream& stream, std::string_view bytes) {
    using Rest = Stream::Taken::Rest;
    const std::size_t size = bytes.size();
    Frame frame;
    for (std::size_t frames = 0; frames < k_frames_per_handler; ++frames) {
        const FrameDecoder::Found found = decoder_.next(bytes, frame);
        if (found == FrameDecoder::Found::refused)
            return {0, Rest::needs_more, "the guest broke the protocol of exec"};
        if (found == FrameDecoder::Found::need_more)
            return {size, Rest::needs_more, nullptr};
        stream.charge(base::k_paced_line_bytes);
        const char* refusal = handle(stream, frame);
        if (refusal != nullptr || !stream.has_reader())
            return {size, Rest::needs_more, refusal};  // this may be gone
        if (!bytes.empty() && pace() != Stream::Pace::full)
            break;
    }
    return {size - bytes.size(), bytes.empty() ? Rest::needs_more : Rest::go_on, nullptr};
}

/// Returns what is wrong with the frame, or null.
const char* RunStream::handle(Stream& stream, const Frame& frame) {
    switch (frame.type) {
        case FrameType::output:
            observer_.on_output(sandbox::OutputKind::standard, frame.bytes);
            return nullptr;
        case FrameType::error:
            observer_.on_output(sandbox::OutputKind::error, frame.bytes);
            return nullptr;
        case FrameType::grant:
            if (frame.number > base::k_input_window_bytes - granted_bytes_)
                return "the guest granted more than it was sent";
            granted_bytes_ += frame.number;
            if (std::exchange(wants_room_, false) || granted_bytes_ == base::k_input_window_bytes)
                observer_.on_input_room();
            return nullptr;
        case FrameType::dropped:
            if (use_ == Use::exec)
                return "the guest broke the protocol of exec";
            observer_.on_dropped(frame.number);
            return nullptr;
        case FrameType::exit:
            stream.close();
            observer_.on_exit({frame.exit.code, frame.exit.signal, frame.exit.timed_out});
            return nullptr;
        default:
            return "the guest broke the protocol of exec";
    }
}

Stream::Pace RunStream::pace() const {
    return started_ && observer_.is_full() ? Stream::Pace::hold : Stream::Pace::full;
}

void RunStream::on_end(Stream::End, std::string_view detail) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    observer_.on_failed(base::Error(base::Errc::bridge_failed, std::string(detail)));
}

void RunStream::fail(base::Error error) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    observer_.on_failed(error);
}

}  // namespace atl::bridge
