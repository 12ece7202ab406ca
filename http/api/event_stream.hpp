// A conversation's events as Server-Sent Events (WHATWG HTML, section 9.2): the events after a cursor, live,
// either all of them or one turn up to its `done`. Every frame with an id is an event of the log, so a client
// resumes from the last id that it has seen; `SEQ-EPOCH` says of which log. If a stream ends for another
// reason than its `done`, its last frame is `stream_closed {logEpoch, code, detail, after}` without an id.
// Every frame's data is an object with `type`. No frame has an `event:` field unless the client asks for it:
// EventSource.onmessage then gets them all, and an agent's event `error` does not look like a broken
// connection.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/conversation/subscription.hpp"
#include "core/conversation/types.hpp"
#include "http/access/client_limits.hpp"
#include "http/server/router.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Where events come from: a Subscription, or a test. The contract is that of conversation::Subscription.
class EventFeed {
  public:
    virtual ~EventFeed() = default;
    virtual base::Result<conversation::Batch> next(std::size_t limit_bytes) = 0;
    virtual void on_wake(StreamWake wake) = 0;
    virtual std::uint64_t cursor() const noexcept = 0;
    /// The epoch of the log; empty: it has none.
    virtual std::string_view epoch() const noexcept { return {}; }
    /// The meaning is that of Response::payer.
    virtual std::optional<base::ShareHolder> payer() const { return std::nullopt; }
};

class SubscriptionFeed final : public EventFeed {
  public:
    /// `lease` is kept as long as the feed.
    explicit SubscriptionFeed(std::unique_ptr<conversation::Subscription> subscription, StreamLease lease)
        : subscription_(std::move(subscription)), lease_(std::move(lease)) {}
    base::Result<conversation::Batch> next(std::size_t limit_bytes) override {
        return subscription_->next(limit_bytes);
    }
    void on_wake(StreamWake wake) override { subscription_->on_wake(std::move(wake)); }
    std::uint64_t cursor() const noexcept override { return subscription_->cursor(); }
    std::string_view epoch() const noexcept override { return subscription_->epoch(); }
    std::optional<base::ShareHolder> payer() const override { return subscription_->owner(); }

  private:
    std::unique_ptr<conversation::Subscription> subscription_;
    StreamLease lease_;
};

/// Ends a stream with an error at once: a browser's page reads no status of a refused one, but it does read
/// the last word of one that was opened.
class RefusedFeed final : public EventFeed {
  public:
    /// `after`: where the client goes on, and of which log.
    RefusedFeed(base::Error error, conversation::Cursor after)
        : error_(std::move(error)), after_(std::move(after)) {}
    base::Result<conversation::Batch> next(std::size_t) override { return error_; }
    void on_wake(StreamWake) override {}
    std::uint64_t cursor() const noexcept override { return after_.seq; }
    std::string_view epoch() const noexcept override { return after_.epoch; }

  private:
    base::Error error_;
    conversation::Cursor after_;
};

inline constexpr std::string_view k_event_stream_type = "text/event-stream";
/// The beginning of a stream that can be resumed: how many milliseconds a browser waits before it reconnects.
inline constexpr std::string_view k_retry_hint = "retry: 1000\n\n";

/// The content of the `event:` field of frames: none, or the type (`?named=1`).
enum class EventNames : std::uint8_t { none, types };

/// The query parameter `named` of routes with an event stream.
inline constexpr QueryParameter k_named_parameter{
    "named", R"({"type":"integer","minimum":0,"maximum":1,"default":0})",
    "1: each frame of an event stream has an `event:` field with its type."};
/// Errors: invalid_field.
base::Result<EventNames> event_names(const RequestContext& context);

/// The query parameter `after` of routes that take a cursor of a conversation's log.
inline constexpr QueryParameter k_log_cursor_parameter{
    "after",
    R"({"oneOf":[{"type":"integer","minimum":0},{"type":"string","pattern":"^[0-9]+-[a-z0-9]{1,32}$"}],"default":0})",
    "Only events with a greater seq. `SEQ-EPOCH` says of which log the seq is: one of another epoch than "
    "`logEpoch`, or beyond the end, is refused with log_replaced. 0 is always valid."};
/// `SEQ` or `SEQ-EPOCH`; nothing for any other text.
std::optional<conversation::Cursor> parse_log_cursor(std::string_view text);
/// The parameter `after`. Errors: invalid_field.
base::Result<conversation::Cursor> log_cursor(const RequestContext& context);

/// Appends `id: SEQ-EPOCH\ndata: {json}\n\n`, with names `event: TYPE` between them. An event's JSON is one
/// line. The id of a log without an epoch is the seq.
void write_sse_event(std::string& out, const conversation::Event& event, std::string_view epoch,
                     EventNames names);
/// Appends `data: {"logEpoch","type":"stream_closed","code","detail","after"}\n\n`, with names
/// `event: stream_closed` before it. What has no epoch has no `logEpoch`.
void write_stream_closed(std::string& out, const base::Error& reason, const conversation::Cursor& after,
                         EventNames names);

class EventStream final : public BodyStream {
  public:
    /// Every event until the conversation is gone. `turn` not 0: only this turn's, until its `done`.
    EventStream(std::unique_ptr<EventFeed> feed, std::uint64_t turn, EventNames names);

    State pull(std::string& out, std::size_t limit_bytes) override;
    void on_wake(StreamWake wake) override { feed_->on_wake(std::move(wake)); }
    void heartbeat(std::string& out) override;
    void end_early(base::Errc reason, std::string& out) override;

  private:
    void close(const base::Error& reason, std::string& out) const;

    std::unique_ptr<EventFeed> feed_;
    std::uint64_t turn_;
    EventNames names_;
    bool begun_ = false;
};

/// A 200 that streams Server-Sent Events.
Response sse_response(std::unique_ptr<BodyStream> stream);
/// The same of a conversation's events.
Response event_stream_response(std::unique_ptr<EventFeed> feed, std::uint64_t turn, EventNames names);

/// From where a client resumes: Last-Event-ID if the request has it, since a browser sends it when it
/// reconnects with the same URL, else `after`. Errors: invalid_request for an id that is no cursor.
base::Result<conversation::Cursor> resume_point(const Request& request, conversation::Cursor after);
/// The same of events that have no epoch.
base::Result<std::uint64_t> resume_point(const Request& request, std::uint64_t after);

}  // namespace atl::http
