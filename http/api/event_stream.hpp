// A conversation's events as Server-Sent Events (WHATWG HTML, section 9.2): the events after a cursor, live,
// either all of them or one turn up to its `done`. Every frame with an id is an event of the log, so a client
// resumes from the last id that it has seen. If a stream ends for another reason than its `done`, its last
// frame is `stream_closed {code, detail, after}` without an id. Every frame's data is an object with `type`.
// No frame has an `event:` field unless the client asks for it: EventSource.onmessage then gets them all, and
// an agent's event `error` does not look like a broken connection.
#pragma once

#include <functional>
#include <memory>
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

  private:
    std::unique_ptr<conversation::Subscription> subscription_;
    StreamLease lease_;
};

inline constexpr std::string_view k_event_stream_type = "text/event-stream";

/// Whether frames have an `event:` field with the type: `?named=1`.
enum class EventNames : std::uint8_t { none, types };

/// What a route with such a stream has among its query parameters.
inline constexpr QueryParameter k_named_parameter{
    "named", R"({"type":"integer","minimum":0,"maximum":1,"default":0})",
    "1: each frame of an event stream has an `event:` field with its type."};
/// Errors: invalid_field.
base::Result<EventNames> event_names(const RequestContext& context);

/// Appends `id: N\ndata: {json}\n\n`, with names `event: TYPE` between them. An event's JSON is one line.
void write_sse_event(std::string& out, const conversation::Event& event, EventNames names);
/// Appends `data: {"type":"stream_closed","code","detail","after"}\n\n`, with names `event: stream_closed`
/// before it.
void write_stream_closed(std::string& out, const base::Error& reason, std::uint64_t after, EventNames names);

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

/// A 200 that streams.
Response event_stream_response(std::unique_ptr<EventFeed> feed, std::uint64_t turn, EventNames names);

/// The seq from which a client resumes: Last-Event-ID if the request has it, since a browser sends it when it
/// reconnects with the same URL, else `after`. Errors: invalid_request for an id that is no number.
base::Result<std::uint64_t> resume_point(const Request& request, std::uint64_t after);

}  // namespace atl::http
