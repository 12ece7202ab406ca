#include "http/api/exec_stream.hpp"

#include <algorithm>
#include <utility>

#include "core/base/base64.hpp"
#include "core/plain/json_text.hpp"
#include "http/api/exec_answer.hpp"

namespace atl::http {
namespace {

using base::Error;

constexpr std::string_view k_frame_end = "}\n\n";
// Small writes of a program are one frame up to here.
constexpr std::size_t k_exec_piece_bytes = 16UL * 1024;

}  // namespace

ExecRun& ExecStream::start(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations,
                           ExecForm form, const base::Clock& clock, base::Timers& timers) {
    run_ = std::make_unique<ExecRun>(std::move(lease), operations, std::move(form),
                                     static_cast<ExecSink&>(*this), clock, timers);
    return *run_;
}

void ExecStream::take(sandbox::OutputKind kind, std::string_view bytes) {
    Output& output = outputs_[static_cast<std::size_t>(kind)];
    const std::size_t room = max_output_bytes_ - output.taken_bytes;
    output.is_truncated = output.is_truncated || bytes.size() > room;
    bytes = bytes.substr(0, room);
    output.taken_bytes += bytes.size();
    waiting_bytes_ += bytes.size();
    if (bytes.empty())
        return;
    if (!waiting_.empty() && waiting_.back().kind == kind &&
        waiting_.back().bytes.size() + bytes.size() <= k_exec_piece_bytes)
        waiting_.back().bytes.append(bytes);
    else
        waiting_.push_back({kind, std::string(bytes)});
    room_.fit(kept_bytes());
}

BodyStream::State ExecStream::pull(std::string& out, std::size_t limit_bytes) {
    const bool was_full = is_full();
    while (!waiting_.empty() && out.size() < limit_bytes) {
        Piece piece = std::move(waiting_.front());
        waiting_.pop_front();
        waiting_bytes_ -= piece.bytes.size();
        write_piece(out, std::move(piece));
    }
    room_.fit(kept_bytes());
    if (was_full && !is_full())
        run_->resume();
    if (!waiting_.empty())
        return State::more;
    if (!run_->end())
        return State::waiting;
    write_end(out);
    return State::finished;
}

void ExecStream::heartbeat(std::string& out) {
    out += ": heartbeat\n\n";
}

void ExecStream::end_early(base::Errc reason, std::string& out) {
    write_closed(out, Error(reason, reason == base::Errc::token_expired
                                        ? "The time of the credential is over. The program is ended."
                                        : "The server stops. The program is ended."));
}

void ExecStream::begin_frame(std::string& out, std::string_view type) const {
    if (names_ == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out.append("data: {\"type\":\"").append(type).append("\"");
}

void ExecStream::write_piece(std::string& out, Piece piece) {
    std::string& open = outputs_[static_cast<std::size_t>(piece.kind)].open;
    if (!open.empty())
        piece.bytes.insert(0, std::exchange(open, {}));
    const std::size_t whole = piece.bytes.size() - open_character(piece.bytes);
    open = piece.bytes.substr(whole);
    if (whole > 0)
        write_data(out, piece.kind, std::string_view(piece.bytes).substr(0, whole));
}

void ExecStream::write_data(std::string& out, sandbox::OutputKind kind, std::string_view bytes) const {
    begin_frame(out, kind == sandbox::OutputKind::standard ? "stdout" : "stderr");
    if (base::is_utf8(bytes)) {
        out += ",\"text\":";
        base::append_json_string(out, bytes);
    } else {
        out += ",\"base64\":\"";
        base::append_base64(out, bytes);
        out += '"';
    }
    out += k_frame_end;
}

// An incomplete character at the end is sent if the program left it so, but not if the limit cut it.
void ExecStream::write_end(std::string& out) {
    for (const auto kind : {sandbox::OutputKind::standard, sandbox::OutputKind::error}) {
        const Output& output = outputs_[static_cast<std::size_t>(kind)];
        if (!output.open.empty() && !output.is_truncated)
            write_data(out, kind, output.open);
    }
    const base::Result<ExecEnd>& end = *run_->end();
    if (end.has_error())
        write_closed(out, end.error());
    else
        write_exit(out, *end);
}

void ExecStream::write_exit(std::string& out, const ExecEnd& end) const {
    begin_frame(out, "exit");
    out += ',';
    write_exit_members(out, end.exit);
    out.append(",\"durationMs\":").append(std::to_string(end.duration.count()));
    out.append(",\"truncated\":{\"stdout\":").append(outputs_[0].is_truncated ? "true" : "false");
    out.append(",\"stderr\":").append(outputs_[1].is_truncated ? "true" : "false").append("}");
    out += k_frame_end;
}

void ExecStream::write_closed(std::string& out, const Error& error) const {
    begin_frame(out, "stream_closed");
    out += ",\"code\":";
    base::append_json_string(out, base::code_name(error.code()));
    out += ",\"detail\":";
    base::append_json_string(out, error.detail());
    out += k_frame_end;
}

}  // namespace atl::http
