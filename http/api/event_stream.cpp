#include "http/api/event_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::string_view k_stream_closed = "stream_closed";

std::string_view advice_for(Errc reason) noexcept {
    if (reason == Errc::token_expired)
        return "The token's time is over. Get a new one, and go on after the last event that you saw.";
    return "Reconnect and go on after the last event that you saw.";
}

}  // namespace

void write_sse_event(std::string& out, const conversation::Event& event, std::string_view epoch,
                     EventNames names) {
    const auto type = to_string(event.type);
    constexpr std::size_t k_frame_bytes = 64;
    if (out.capacity() - out.size() < event.json.size() + type.size() + k_frame_bytes)
        out.reserve(2 * out.capacity() + event.json.size() + type.size() + k_frame_bytes);
    fmt::format_to(std::back_inserter(out), "id: {}{}{}\n", event.seq, epoch.empty() ? "" : "-", epoch);
    if (names == EventNames::types)
        out.append("event: ").append(type).append("\n");
    out.append("data: ").append(event.json).append("\n\n");
}

void write_stream_closed(std::string& out, const Error& reason, const conversation::Cursor& after,
                         EventNames names) {
    if (names == EventNames::types)
        out.append("event: ").append(k_stream_closed).append("\n");
    out += "data: ";
    base::JsonWriter json(out);
    json.begin_object();
    if (!after.epoch.empty())
        json.key("logEpoch").string(after.epoch);
    json.key("type").string(k_stream_closed);
    json.key("code").string(base::code_name(reason.code()));
    json.key("detail").string(reason.detail());
    json.key("after").number(after.seq);
    json.end_object();
    out += "\n\n";
}

EventStream::EventStream(std::unique_ptr<EventFeed> feed, std::uint64_t turn, EventNames names)
    : feed_(std::move(feed)), turn_(turn), names_(names) {}

BodyStream::State EventStream::pull(std::string& out, std::size_t limit_bytes) {
    if (!begun_ && turn_ == 0)
        out += k_retry_hint;
    begun_ = true;
    std::size_t scanned_bytes = 0;
    while (scanned_bytes < limit_bytes) {
        const auto batch = feed_->next(limit_bytes - scanned_bytes);
        if (batch.has_error()) {
            close(batch.error(), out);
            return State::finished;
        }
        for (const auto& event : batch->events) {
            scanned_bytes += event->cost_bytes();
            if (turn_ != 0 && event->turn != turn_)
                continue;
            write_sse_event(out, *event, feed_->epoch(), names_);
            if (turn_ != 0 && event->type == conversation::EventType::done)
                return State::finished;
        }
        if (batch->gone) {
            close(Error(Errc::conversation_ended, "The conversation was removed."), out);
            return State::finished;
        }
        if (batch->stalled && turn_ != 0) {
            close(
                Error(
                    Errc::storage_failed,
                    "The turn has begun, and the database takes no writes: its events can be read after this "
                    "one when it does again."),
                out);
            return State::finished;
        }
        if (batch->events.empty())
            return State::waiting;
    }
    return State::more;
}

void EventStream::heartbeat(std::string& out) {
    out += ": heartbeat\n\n";
}

void EventStream::end_early(Errc reason, std::string& out) {
    close(Error(reason, std::string(advice_for(reason))), out);
}

void EventStream::close(const Error& reason, std::string& out) const {
    const conversation::Cursor after{feed_->cursor(), std::string(feed_->epoch())};
    write_stream_closed(out, reason, after, names_);
}

Response sse_response(std::unique_ptr<BodyStream> stream) {
    Response response;
    response.content_type = k_event_stream_type;
    // nginx buffers responses unless told otherwise; events are meant to arrive one by one.
    response.headers.emplace_back("X-Accel-Buffering", "no");
    response.stream = std::move(stream);
    return response;
}

Response event_stream_response(std::unique_ptr<EventFeed> feed, std::uint64_t turn, EventNames names) {
    auto payer = feed->payer();
    Response response = sse_response(std::make_unique<EventStream>(std::move(feed), turn, names));
    response.payer = std::move(payer);
    return response;
}

std::optional<conversation::Cursor> parse_log_cursor(std::string_view text) {
    const std::size_t end = text.find('-');
    const auto seq = parse_decimal(text.substr(0, end));
    if (!seq || *seq > INT64_MAX)
        return std::nullopt;
    if (end == std::string_view::npos)
        return conversation::Cursor{*seq, {}};
    const std::string_view epoch = text.substr(end + 1);
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (epoch.empty() || epoch.size() > base::k_max_cursor_epoch_bytes ||
        !std::all_of(epoch.begin(), epoch.end(), is_letter))
        return std::nullopt;
    return conversation::Cursor{*seq, std::string(epoch)};
}

base::Result<conversation::Cursor> resume_point(const Request& request, conversation::Cursor after) {
    const auto last_id = request.header("Last-Event-ID");
    if (last_id.empty())
        return after;
    auto cursor = parse_log_cursor(last_id);
    if (!cursor)
        return Error(Errc::invalid_request, "Last-Event-ID must be the id of an event, SEQ-EPOCH or SEQ.");
    return std::move(*cursor);
}

base::Result<std::uint64_t> resume_point(const Request& request, std::uint64_t after) {
    const auto last_id = request.header("Last-Event-ID");
    if (last_id.empty())
        return after;
    const auto seq = parse_decimal(last_id);
    if (!seq || *seq > INT64_MAX)
        return Error(Errc::invalid_request, "Last-Event-ID must be the id of an event, a decimal number.");
    return *seq;
}

}  // namespace atl::http
