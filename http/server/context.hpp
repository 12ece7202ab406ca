// A request as its handler sees it, and the way in which the handler waits for the core's callbacks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/task.hpp"
#include "http/access/access.hpp"
#include "http/access/client_limits.hpp"
#include "http/wire/body_budget.hpp"
#include "http/wire/body_source.hpp"
#include "http/wire/json_reader.hpp"
#include "http/wire/message.hpp"
#include "http/wire/text.hpp"
#include "http/wire/wake_event.hpp"

namespace atl::http {

enum class MediaType : std::uint8_t { json, event_stream };

/// The media type that `accept` (RFC 9110 section 12.5.1) prefers: event_stream if its weight there is above
/// 0 and at least that of application/json, else json. A type that is not named has weight 0, whatever a
/// wildcard says.
MediaType preferred_media(std::string_view accept) noexcept;

/// Lives in the session's coroutine until the response has been sent.
class RequestContext {
  public:
    RequestContext(Request& of, std::shared_ptr<WakeEvent> wake, const bool& aborted)
        : request(of), wake_(std::move(wake)), aborted_(aborted) {}
    /// The context of a session's request: it knows when the client leaves.
    RequestContext(Request& of, Connection& connection);
    RequestContext(const RequestContext&) = delete;
    RequestContext& operator=(const RequestContext&) = delete;

    Request& request;
    BodySource* body = nullptr;  // where the route's body is BodyKind::stream, until the response is sent
    BodyBudget::Place* body_place = nullptr;  // of request.body. Null: it needs none
    std::string request_id;
    Principal principal;
    Client client;
    LimitSubject limited;            // who the client is to limits
    ClientLimits* limits = nullptr;  // the server's; outlives every session. Null: none
    std::vector<std::pair<std::string_view, std::string>> params;  // of the path, decoded
    QueryItems query;                                              // only names that the route declares

    /// A parameter of the path by its name in the pattern; the route must have it.
    const std::string& param(std::string_view name) const;
    /// A parameter of the query, or nothing.
    const std::string* query_value(std::string_view name) const noexcept;
    /// An integer from the query. Errors: invalid_field.
    base::Result<std::optional<std::uint64_t>> query_integer(std::string_view name, IntRange range) const;
    /// A place among the conversation's streams. Errors: too_many_streams.
    base::Result<StreamLease> stream_lease(std::string_view conversation_id) const {
        return limits == nullptr ? StreamLease() : limits->stream(limited, conversation_id);
    }
    MediaType accepts() const noexcept { return preferred_media(request.header("Accept")); }

    /// The body as JSON, whose values count against the rates of the client. Errors: unsupported_media_type,
    /// invalid_utf8, invalid_json; body_too_large: it is beyond `budget`.
    base::Result<Json> json_body(base::JsonBudget budget = base::k_client_json) const;
    /// The same, where no body at all means `{}`.
    base::Result<Json> json_body_or_empty() const;
    /// The text of the body, unread, which is then nobody else's: of its place in the budget, see
    /// drop_body(). Errors: unsupported_media_type.
    base::Result<std::string> take_json_text();
    /// Frees request.body and its place in the budget. The session does it after the handler; a handler that
    /// waits for long does it before, or long bodies of other clients wait as well.
    void drop_body();

    /// Calls `start(reply)` and waits for `reply`, a function that takes the Result<T> of a core call. If the
    /// server gives up on the connection first, the result is shutting_down and the late reply is dropped.
    /// `start` must live until the returned task has finished: name it.
    template <class T, class Start>
    base::Task<base::Result<T>> async_reply(Start& start) {
        struct State {
            std::optional<base::Result<T>> value;
            std::shared_ptr<WakeEvent> wake;
            bool waiting = false;
        };
        auto state = std::make_shared<State>();
        state->wake = wake_;
        start([state](base::Result<T> result) {
            state->value.emplace(std::move(result));
            if (state->waiting)
                state->wake->post();
        });
        state->waiting = true;
        while (!state->value && !aborted_)
            co_await wake_->async_wait();
        if (!state->value)
            co_return base::Error(base::Errc::shutting_down);
        co_return std::move(*state->value);
    }

    /// Lets other handlers of the loop run.
    base::Task<> async_give_way() {
        wake_->post();
        co_await wake_->async_wait();
    }

    /// Makes async_until() look again. Callable from anywhere, also when the request is over.
    std::function<void()> waker() const {
        return [wake = wake_] { wake->post(); };
    }
    /// Waits until `is_done()`, which is asked at each wake. Unlike async_reply() it ends early for a client
    /// that leaves, so it is for what nobody needs then. A client that ends only its sending side counts as
    /// one that left, but it can still read the error. A client that left is not noticed while what it sent
    /// behind its request fills the input buffer, since nothing more is read then: the caller needs a bound
    /// of its own. The connection must not be read from meanwhile: not for BodyKind::stream. Errors:
    /// shutting_down; request_timeout: the client left.
    base::Task<base::Result<void>> async_until(const std::function<bool()>& is_done);

  private:
    base::Result<void> check_json_type() const;

    std::shared_ptr<WakeEvent> wake_;
    const bool& aborted_;
    Connection* connection_ = nullptr;
};

}  // namespace atl::http
