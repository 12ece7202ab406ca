// Routes of a conversation's messages and events.
#include <algorithm>

#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "http/api/api.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/forms.hpp"
#include "http/api/transcript.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using base::Task;
using conversation::Manager;
using conversation::TurnTicket;
using SubscriptionPtr = std::unique_ptr<conversation::Subscription>;

// A page ends here even if it may have more items.
constexpr std::size_t k_page_bytes = 512UL * 1024;

Task<Result<SubscriptionPtr>> async_subscribe(Api& api, RequestContext& context, const std::string& id,
                                              const conversation::Cursor& after) {
    auto start = [&](Manager::Reply<SubscriptionPtr> reply) {
        api.conversations.subscribe(id, after, std::move(reply));
    };
    co_return co_await context.async_reply<SubscriptionPtr>(start);
}

/// `turn`: as of EventStream.
Task<Result<Response>> async_open_stream(Api& api, RequestContext& context, const std::string& id,
                                         const conversation::Cursor& after, std::uint64_t turn,
                                         EventNames names, StreamLease lease) {
    auto subscription = co_await async_subscribe(api, context, id, after);
    std::unique_ptr<EventFeed> feed;
    if (subscription.has_value()) {
        (*subscription)->follow();
        feed = std::make_unique<SubscriptionFeed>(std::move(*subscription), std::move(lease));
    } else if (subscription.error().code() == Errc::log_replaced) {
        feed = std::make_unique<RefusedFeed>(subscription.error(), api.conversations.log_beginning());
    } else {
        co_return subscription.error();
    }
    co_return event_stream_response(std::move(feed), turn, names);
}

Response ticket_response(const TurnTicket& ticket) {
    std::string out;
    base::JsonWriter json(out);
    json.begin_object();
    json.key("turn").string(conversation::turn_name(ticket.turn));
    json.key("after").number(ticket.after);
    json.end_object();
    return json_response(std::move(out), 202);
}

Task<Result<Response>> async_post_message(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto key = read_idempotency_key(context.request);
    if (key.has_error())
        co_return key.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    auto content = read_message_form(*body);
    if (content.has_error())
        co_return content.error();
    // A stream tells nothing before the turn's first event. There is no turn without a place for it.
    const bool streams = context.accepts() == MediaType::event_stream;
    auto lease = streams ? context.stream_lease(*id) : Result<StreamLease>(StreamLease{});
    if (lease.has_error())
        co_return lease.error();
    const auto when = streams ? Manager::MessageReply::at_once : Manager::MessageReply::committed;
    conversation::Message message{std::move(*content), std::move(*key), sender_name(context.principal)};
    auto start = [&](Manager::Reply<TurnTicket> reply) {
        api.conversations.message(*id, std::move(message), when, std::move(reply));
    };
    const auto ticket = co_await context.async_reply<TurnTicket>(start);
    if (ticket.has_error())
        co_return ticket.error();
    if (streams) {
        lease->reader = api.subscribers.enter(SubscriberKind::turn);
        const conversation::Cursor after{ticket->after, {}};
        co_return co_await async_open_stream(api, context, *id, after, ticket->turn, *names,
                                             std::move(*lease));
    }
    co_return ticket_response(*ticket);
}

// So that `limit` events at the most are read, and no more at once than for a stream.
std::size_t next_read_bytes(std::size_t limit, std::size_t page_bytes_left) noexcept {
    return std::min({page_bytes_left, base::k_replay_batch_bytes, limit * base::k_least_event_cost_bytes});
}

// Appends up to `limit` events after the subscription's cursor; gives the seq of the last one, or `after`.
Task<Result<std::uint64_t>> async_write_events(RequestContext& context, base::JsonWriter& json,
                                               conversation::Subscription& events, std::size_t limit,
                                               std::uint64_t after) {
    auto wake = [&events](Manager::Reply<void> reply) {
        events.on_wake([reply = std::move(reply)] { reply({}); });
    };
    std::size_t bytes = 0;
    while (limit > 0 && bytes < k_page_bytes) {
        if (bytes > 0)
            co_await context.async_give_way();
        const auto batch = events.next(next_read_bytes(limit, k_page_bytes - bytes));
        if (batch.has_error())
            co_return batch.error();
        if (batch->reading) {
            const auto woken = co_await context.async_reply<void>(wake);
            if (woken.has_error())
                co_return woken.error();
            continue;
        }
        for (const auto& event : batch->events) {
            if (limit == 0)
                break;
            --limit;
            json.raw(event->json);
            bytes += event->json.size();
            after = event->seq;
        }
        if (batch->events.empty() || batch->gone)
            break;
    }
    co_return after;
}

Task<Result<Response>> async_events_page(Api& api, RequestContext& context, const std::string& id,
                                         const conversation::Cursor& after, std::size_t limit) {
    const auto subscription = co_await async_subscribe(api, context, id, after);
    if (subscription.has_error())
        co_return subscription.error();
    std::string out;
    base::JsonWriter json(out);
    json.begin_object().key("logEpoch").string((*subscription)->epoch()).key("events").begin_array();
    const auto next = co_await async_write_events(context, json, **subscription, limit, after.seq);
    if (next.has_error())
        co_return next.error();
    json.end_array().key("next").number(*next).end_object();
    co_return json_response(std::move(out));
}

Task<Result<Response>> async_get_events(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    auto after = log_cursor(context);
    if (after.has_error())
        co_return after.error();
    const auto limit = context.query_integer("limit", k_page_range);
    if (limit.has_error())
        co_return limit.error();
    const auto names = event_names(context);
    if (names.has_error())
        co_return names.error();
    if (context.accepts() == MediaType::event_stream) {
        const auto from = resume_point(context.request, std::move(*after));
        if (from.has_error())
            co_return from.error();
        auto lease = context.stream_lease(*id);
        if (lease.has_error())
            co_return lease.error();
        lease->reader = api.subscribers.enter(SubscriberKind::sse);
        co_return co_await async_open_stream(api, context, *id, *from, 0, *names, std::move(*lease));
    }
    co_return co_await async_events_page(api, context, *id, *after,
                                         limit->value_or(base::k_default_page_items));
}

Task<Result<Response>> async_get_transcript(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const std::string* const format = context.query_value("format");
    if (format != nullptr && *format != "markdown" && *format != "jsonl")
        co_return Error(Errc::invalid_field, "The query parameter `format` must be markdown or jsonl.");
    auto lease = context.stream_lease(*id);
    if (lease.has_error())
        co_return lease.error();
    auto look = [&](Manager::Reply<conversation::View> reply) {
        api.conversations.get(*id, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::View>(look);
    if (view.has_error())
        co_return view.error();
    const conversation::Cursor beginning;
    auto subscription = co_await async_subscribe(api, context, *id, beginning);
    if (subscription.has_error())
        co_return subscription.error();
    co_return transcript_response(
        std::make_unique<SubscriptionFeed>(std::move(*subscription), std::move(*lease)), *view,
        format != nullptr && *format == "jsonl" ? TranscriptFormat::jsonl : TranscriptFormat::markdown);
}

Task<Result<Response>> async_answer_permission(Api& api, RequestContext& context) {
    const auto id = id_param(context);
    if (id.has_error())
        co_return id.error();
    const auto body = context.json_body();
    if (body.has_error())
        co_return body.error();
    const auto option = read_permission_form(*body);
    if (option.has_error())
        co_return option.error();
    auto start = [&](Manager::Reply<conversation::View> reply) {
        api.conversations.answer_permission(*id, context.param("permissionId"), *option, std::move(reply));
    };
    const auto view = co_await context.async_reply<conversation::View>(start);
    if (view.has_error())
        co_return view.error();
    Response done;
    done.status = 204;
    co_return done;
}

Route permission_route(Api& api) {
    Route made;
    made.method = Method::post;
    made.pattern = "/v1/conversations/{id}/permissions/{permissionId}";
    made.name = "answerPermission";
    made.summary = "Answers a permission_request of the open turn; permission_resolved tells the decision.";
    made.handler = bind_handler(api, async_answer_permission);
    made.body = BodyKind::json;
    made.request_schema = "AnswerPermission";
    made.auth = Auth::token_or_key;
    made.token_scope = Scope::chat;
    made.query = {k_token_parameter};
    made.responses = {{204, "The agent is told.", ""}};
    made.errors = {Errc::not_found, Errc::invalid_field, Errc::storage_failed};
    return made;
}

Route transcript_route(Api& api) {
    Route made;
    made.method = Method::get;
    made.pattern = "/v1/conversations/{id}/transcript";
    made.name = "getTranscript";
    made.summary = "The questions, answers and tools of the log so far, as a text to keep.";
    made.handler = bind_handler(api, async_get_transcript);
    made.auth = Auth::token_or_key;
    made.query = {{"format", R"({"enum":["markdown","jsonl"],"default":"markdown"})",
                   "Markdown to read, or one JSON object a line: {role, turn, at, ...}."},
                  k_token_parameter};
    made.responses = {{200, "The transcript.", "Transcript", "text/markdown; charset=utf-8"},
                      {200, "The transcript.", "Transcript", "application/jsonl"}};
    made.errors = {Errc::not_found, Errc::invalid_field, Errc::storage_failed, Errc::too_many_streams};
    return made;
}

}  // namespace

std::vector<Route> turn_routes(Api& api) {
    std::vector<Route> routes(2);
    Route& post = routes[0];
    post.method = Method::post;
    post.pattern = "/v1/conversations/{id}/messages";
    post.name = "postMessage";
    post.summary = "Starts a turn. With `Accept: text/event-stream` its events follow until `done`.";
    post.handler = bind_handler(api, async_post_message);
    post.body = BodyKind::json;
    post.request_schema = "PostMessage";
    post.headers = {k_idempotency_parameter};
    post.auth = Auth::token_or_key;
    post.token_scope = Scope::chat;
    post.query = {k_named_parameter, k_token_parameter};
    post.responses = {{200, "The turn's events.", "EventStream", k_event_stream_type},
                      {202, "The turn has started; its events come after `after`.", "TurnTicket"}};
    post.errors = {Errc::not_found,
                   Errc::turn_in_progress,
                   Errc::conversation_ended,
                   Errc::seq_expired,
                   Errc::invalid_field,
                   Errc::idempotency_key_reused,
                   Errc::conversation_starting,
                   Errc::sandbox_failed,
                   Errc::agent_failed,
                   Errc::user_share,
                   Errc::capacity,
                   Errc::storage_failed,
                   Errc::shutting_down,
                   Errc::too_many_streams};

    Route& events = routes[1];
    events.method = Method::get;
    events.pattern = "/v1/conversations/{id}/events";
    events.name = "getEvents";
    events.summary = "A page of the log; with `Accept: text/event-stream` the log from there on, live.";
    events.handler = bind_handler(api, async_get_events);
    events.auth = Auth::token_or_key;
    events.headers = {
        {"Last-Event-ID", "Of an event stream: the id of the last event that was seen; wins over `after`."}};
    events.query = {
        k_log_cursor_parameter,
        {"limit", R"({"type":"integer","minimum":1,"maximum":10000,"default":100})", "Events in a page."},
        k_named_parameter,
        k_token_parameter};
    events.responses = {{200, "Events.", "EventPage"},
                        {200, "The events, live.", "EventStream", k_event_stream_type}};
    events.errors = {Errc::not_found,    Errc::invalid_field,  Errc::seq_expired,
                     Errc::log_replaced, Errc::storage_failed, Errc::too_many_streams};
    routes.push_back(transcript_route(api));
    routes.push_back(permission_route(api));
    return routes;
}

}  // namespace atl::http
