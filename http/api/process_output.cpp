#include "http/api/process_output.hpp"

#include <utility>

#include "core/base/base64.hpp"
#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "core/plain/utf8.hpp"
#include "http/api/exec_answer.hpp"
#include "http/api/process_form.hpp"
#include "http/api/process_lookup.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using sandbox::OutputKind;

// Small writes of a process are one frame up to here.
constexpr std::size_t k_output_piece_bytes = 16UL * 1024;

std::string_view stream_name(OutputKind kind) {
    return kind == OutputKind::standard ? "stdout" : "stderr";
}

/// The member `text_name` where the bytes are UTF-8, else `base64_name`.
void write_bytes(base::JsonWriter& json, std::string_view text_name, std::string_view base64_name,
                 std::string_view bytes) {
    if (base::is_utf8(bytes)) {
        json.key(text_name).string(bytes);
        return;
    }
    std::string encoded;
    base::append_base64(encoded, bytes);
    json.key(base64_name).string(encoded);
}

}  // namespace

std::string output_page_json(const OutputPage& page) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("after").number(page.after);
    json.key("next").number(page.next());
    json.key("dropped").number(page.dropped);
    write_bytes(json, "stdout", "stdoutBase64", page.output[0]);
    write_bytes(json, "stderr", "stderrBase64", page.output[1]);
    if (page.exit) {
        json.key("exit").begin_object();
        write_exit(json, *page.exit);
        json.end_object();
    }
    json.end_object();
    return out;
}

// Both are asked at once: what the list says is there comes over the other connection, and more perhaps.
OutputQuestion::OutputQuestion(sandbox::Operations& operations, const std::string& id, std::uint64_t after,
                               base::Timers& timers, Reply reply)
    : timers_(timers), reply_(std::move(reply)) {
    deadline_ = timers_.arm(base::k_control_reply_deadline, [this] {
        deadline_ = 0;
        answer(Error(Errc::deadline_exceeded, "the guest did not answer in time"));
    });
    list_ = operations.list_processes(id, [this](const auto& found) { on_listed(found); });
    run_ = operations.attach(id, after, *this);
}

OutputQuestion::~OutputQuestion() {
    timers_.cancel(deadline_);
}

void OutputQuestion::on_listed(const base::Result<std::vector<sandbox::ProcessInfo>>& found) {
    if (found.has_error())
        return answer(found.error());
    if (found->empty())
        return answer(no_process());
    info_ = found->front();
    settle();
}

void OutputQuestion::on_position(std::uint64_t from, sandbox::StreamKind) {
    page_.after = from;
    is_placed_ = true;
    settle();
}

void OutputQuestion::on_output(OutputKind kind, std::string_view bytes) {
    const std::size_t taken = page_.output[0].size() + page_.output[1].size();
    bytes = bytes.substr(0, k_output_page_bytes - taken);
    page_.output[static_cast<std::size_t>(kind)].append(bytes);
    last_bytes_ = (kind == last_ ? last_bytes_ : 0) + bytes.size();
    last_ = kind;
    if (taken + bytes.size() == k_output_page_bytes)
        return finish();
    settle();
}

// A page has its gap at its beginning: one in the middle ends it, and begins the next one.
void OutputQuestion::on_dropped(std::uint64_t bytes) {
    if (page_.next() > page_.after + page_.dropped)
        return finish();
    page_.dropped += bytes;
    settle();
}

void OutputQuestion::on_exit(const sandbox::RunExit& exit) {
    page_.exit = exit;
    finish();
}

// The exit of one that has ended comes behind its output.
void OutputQuestion::settle() {
    if (is_placed_ && info_ && !info_->exit && page_.next() >= info_->end_byte)
        finish();
}

void OutputQuestion::finish() {
    std::string& last = page_.output[static_cast<std::size_t>(last_)];
    const std::size_t open = page_.exit ? 0 : open_character(last);
    if (open <= last_bytes_)
        last.resize(last.size() - open);
    answer(std::move(page_));
}

void OutputQuestion::answer(base::Result<OutputPage> result) {
    if (!reply_)
        return;
    timers_.cancel(std::exchange(deadline_, 0));
    run_.reset();
    std::exchange(reply_, nullptr)(std::move(result));
}

ProcessStream::ProcessStream(std::unique_ptr<conversation::Lease> lease, StreamLease place, EventNames names,
                             base::Timers& timers)
    : lease_(std::move(lease)), place_(std::move(place)), names_(names), timers_(timers) {}

ProcessStream::~ProcessStream() {
    timers_.cancel(cause_);
}

void ProcessStream::attach(sandbox::Operations& operations, const std::string& id, std::uint64_t after) {
    lease_->on_end([this](const Error& why) { finish(why); });
    run_ = operations.attach(id, after, *this);
}

std::optional<Error> ProcessStream::refusal() const {
    if (is_placed_)
        return std::nullopt;
    return end_->error();
}

void ProcessStream::changed() const {
    if (changed_)
        changed_();
}

void ProcessStream::on_position(std::uint64_t from, sandbox::StreamKind kind) {
    is_placed_ = true;
    offset_ = from;
    kind_ = kind;
    changed();
}

void ProcessStream::on_output(OutputKind kind, std::string_view bytes) {
    waiting_bytes_ += bytes.size();
    if (!waiting_.empty() && waiting_.back().kind == kind &&
        waiting_.back().bytes.size() + bytes.size() <= k_output_piece_bytes)
        waiting_.back().bytes.append(bytes);
    else
        waiting_.push_back({kind, std::string(bytes), 0});
    room_.fit(kept_bytes());
    changed();
}

void ProcessStream::on_dropped(std::uint64_t bytes) {
    waiting_.push_back({OutputKind::standard, {}, bytes});
    changed();
}

void ProcessStream::on_failed(const Error& error) {
    run_.reset();
    if (error.code() != Errc::bridge_failed)
        return finish(error);
    // The end of the lease says why, if that is what it was.
    cause_ = timers_.arm(base::k_end_cause_wait, [this, error] {
        cause_ = 0;
        finish(error);
    });
}

void ProcessStream::finish(base::Result<sandbox::RunExit> end) {
    timers_.cancel(std::exchange(cause_, 0));
    run_.reset();
    lease_.reset();
    if (end_)
        return;
    end_ = std::move(end);
    changed();
}

BodyStream::State ProcessStream::pull(std::string& out, std::size_t limit_bytes) {
    if (!std::exchange(has_begun_, true)) {
        out += k_retry_hint;
        write_event(out, "started", started_frame(pid_, offset_, kind_));
    }
    const bool was_full = is_full();
    bool is_held_back = false;
    while (!waiting_.empty() && !is_held_back && out.size() < limit_bytes)
        is_held_back = !write_first(out);
    room_.fit(kept_bytes());
    if (was_full && !is_full() && run_)
        run_->resume();
    if (is_held_back)
        return State::waiting;
    if (!waiting_.empty())
        return State::more;
    if (!end_)
        return State::waiting;
    if (end_->has_error())
        write_closed(out, end_->error());
    else
        write_event(out, "exit", exit_frame(**end_, offset_));
    return State::finished;
}

/// Writes the first piece that waits. False: its last bytes are left, since they begin a character whose rest
/// may still come.
bool ProcessStream::write_first(std::string& out) {
    Piece& first = waiting_.front();
    if (first.dropped > 0) {
        offset_ += first.dropped;
        write_event(out, "dropped", dropped_frame(std::exchange(first.dropped, 0)));
    }
    const bool is_last = waiting_.size() == 1;
    const bool goes_on = is_last ? !end_ : waiting_[1].kind == first.kind && waiting_[1].dropped == 0;
    const std::size_t open = goes_on ? open_character(first.bytes) : 0;
    const std::string whole = first.bytes.substr(0, first.bytes.size() - open);
    waiting_bytes_ -= whole.size();
    offset_ += whole.size();
    if (!whole.empty())
        write_output(out, first.kind, whole);
    first.bytes.erase(0, whole.size());
    if (is_last && open > 0)
        return false;
    const std::string rest = std::move(first.bytes);
    waiting_.pop_front();
    if (open > 0)
        waiting_.front().bytes.insert(0, rest);
    return true;
}

void ProcessStream::write_output(std::string& out, OutputKind kind, std::string_view bytes) const {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object().key("type").string(stream_name(kind));
    write_bytes(json, "text", "base64", bytes);
    json.end_object();
    write_event(out, stream_name(kind), text);
}

/// The id is the byte behind the frame, as far as output is written.
void ProcessStream::write_event(std::string& out, std::string_view type, std::string_view json) const {
    out.append("id: ").append(std::to_string(offset_)).append("\n");
    if (names_ == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out.append("data: ").append(json).append("\n\n");
}

void ProcessStream::write_closed(std::string& out, const Error& why) const {
    const conversation::Cursor after{offset_, {}};
    write_stream_closed(out, why, after, names_);
}

void ProcessStream::heartbeat(std::string& out) {
    out += ": heartbeat\n\n";
}

void ProcessStream::end_early(Errc reason, std::string& out) {
    write_closed(out, Error(reason, reason == Errc::token_expired
                                        ? "The token's time is over. Get a new one, and follow the process "
                                          "from `after` on."
                                        : "The server stops, and the process with it."));
}

}  // namespace atl::http
