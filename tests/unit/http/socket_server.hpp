// A WebSocket route whose events and actions a test scripts, and a server with it.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/api/websocket_session.hpp"
#include "http/websocket/handshake.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"
#include "tests/unit/http/test_server.hpp"

namespace atl::test {

/// The events and errors that a test gives to a WebSocket; used on the loop only.
struct Script {
    std::vector<conversation::EventPtr> events;
    std::optional<base::Error> failure;  // after the events
    bool gone = false;
    bool stalled = false;
    std::list<http::StreamWake> wakes;
    std::size_t most_pulled = 0;
};

class ScriptedFeed final : public http::EventFeed {
  public:
    ScriptedFeed(Script& script, std::uint64_t after)
        : script_(script), wake_(script.wakes.emplace(script.wakes.end())), cursor_(after) {}
    ~ScriptedFeed() override { script_.wakes.erase(wake_); }
    base::Result<conversation::Batch> next(std::size_t limit_bytes) override {
        conversation::Batch batch;
        std::size_t bytes = 0;
        while (cursor_ < script_.events.size() && bytes < limit_bytes) {
            batch.events.push_back(script_.events[cursor_++]);
            bytes += batch.events.back()->json.size();
        }
        script_.most_pulled = std::max(script_.most_pulled, bytes);
        if (batch.events.empty() && script_.failure)
            return *script_.failure;
        batch.gone = batch.events.empty() && script_.gone;
        batch.stalled = batch.events.empty() && script_.stalled;
        return batch;
    }
    void on_wake(http::StreamWake wake) override { *wake_ = std::move(wake); }
    std::uint64_t cursor() const noexcept override { return cursor_; }

  private:
    Script& script_;
    std::list<http::StreamWake>::iterator wake_;
    std::uint64_t cursor_;
};

/// The head of an opening handshake, with one field changed or, if `value` is empty, left out. A field that
/// is not usual is added.
inline std::string handshake(const std::string& name = "", const std::string& value = "") {
    std::string out = "GET /ws HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\n";
    const auto add = [&](const std::string& field, const std::string& used) {
        if (!used.empty())
            out.append(field).append(": ").append(used).append("\r\n");
    };
    bool usual_name = false;
    for (const auto& [field, usual] : k_websocket_headers) {
        usual_name = usual_name || field == name;
        add(field, field == name ? value : usual);
    }
    if (!usual_name)
        add(name, value);
    return out + "\r\n";
}

/// The same for a page that has a token and no key, with more fields if there are any.
inline std::string token_handshake(const std::string& target, const std::string& more_fields = "") {
    std::string out = "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more_fields;
    for (const auto& [field, value] : k_websocket_headers)
        out.append(field).append(": ").append(value).append("\r\n");
    return out + "\r\n";
}

/// The routes, and what a test knows of it and does with it; used on the loop only.
class SocketRoutes {
  public:
    /// They refer to this object.
    std::vector<http::Route> routes() {
        std::vector<http::Route> all;
        all.push_back({http::Method::get, "/ws", "ws", "",
                       [this](auto& context) { return async_open(*this, context); }});
        all.back().query = {{"after", "{}", ""}};
        // The same, and streams of events, for holders of a token.
        all.push_back({http::Method::get, "/things/{id}/ws", "thingWs", "",
                       [this](auto& context) { return async_open(*this, context); },
                       http::Auth::token_or_key});
        all.back().opens = http::Opens::websocket;
        all.push_back({http::Method::get, "/things/{id}/events", "thingEvents", "",
                       [this](auto& context) { return async_stream(*this, context, 0); },
                       http::Auth::token_or_key});
        all.push_back({http::Method::get, "/things/{id}/turn", "thingTurn", "",
                       [this](auto& context) { return async_stream(*this, context, 1); },
                       http::Auth::token_or_key});
        all.push_back({http::Method::get, "/things/{id}/shell", "thingShell", "",
                       [this](auto& context) { return async_open(*this, context); },
                       http::Auth::token_or_key});
        all.back().opens = http::Opens::websocket;
        all.back().token_scope = http::Scope::terminal;
        for (auto route = all.begin() + 1; route != all.end(); ++route)
            route->query = {{"after", "{}", ""}, http::k_named_parameter, http::k_token_parameter};
        return all;
    }
    void add_event(std::string text) {
        script.events.push_back(std::make_shared<conversation::Event>(conversation::Event{
            script.events.size() + 1, conversation::EventType::text_delta, 1, std::move(text)}));
    }
    void add_events(std::size_t count = 1, std::size_t bytes = 0) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto seq = script.events.size() + 1;
            add_event(Json{{"seq", seq}, {"pad", std::string(bytes, 'p')}}.dump());
        }
    }
    void wake_all() {
        for (const auto& wake : script.wakes)
            wake();
    }

    Script script;
    std::vector<std::string> contents;
    std::vector<std::string> keys;
    std::size_t interrupts = 0;
    std::vector<std::string> permissions;  // answers, as ID=OPTION
    std::optional<base::Error> refusal;    // of messages and interrupts
    std::optional<int> frames_left;        // that are admitted; nothing: all
    std::size_t frame_nodes = 0;           // that frames were charged for
    bool hold_replies = false;
    http::WebSocketActions::Reply held;
    conversation::TurnTicket ticket{7, 41, false};  // of what is accepted
    std::vector<conversation::MessageReply> whens;

  private:
    static base::Task<base::Result<http::Response>> async_open(SocketRoutes& self,
                                                               http::RequestContext& context) {
        if (const auto valid = http::check_handshake(context.request); valid.has_error())
            co_return valid.error();
        const auto after = context.query_integer("after", {0, 1000});
        auto feed = std::make_unique<ScriptedFeed>(self.script, after->value_or(0));
        http::WebSocketActions actions;
        actions.message = [&self](std::string content, std::string key, conversation::MessageReply when,
                                  http::WebSocketActions::Reply reply) {
            self.contents.push_back(std::move(content));
            self.keys.push_back(std::move(key));
            self.whens.push_back(when);
            if (self.hold_replies)
                self.held = std::move(reply);
            else
                reply(self.answer());
        };
        actions.interrupt = [&self](http::WebSocketActions::Reply reply) {
            ++self.interrupts;
            if (self.hold_replies)
                self.held = std::move(reply);
            else
                reply(self.answer());
        };
        actions.permission = [&self](std::string permission_id, std::string option_id,
                                     const http::WebSocketActions::Reply& reply) {
            self.permissions.push_back(std::move(permission_id) + "=" + std::move(option_id));
            reply(self.answer());
        };
        actions.admit_frame = [&self](std::size_t nodes) -> base::Result<void> {
            self.frame_nodes += nodes;
            if (nodes == 0 && self.frames_left && --*self.frames_left < 0)
                return base::Error(base::Errc::too_many_requests, "Wait.", std::chrono::seconds(1));
            return {};
        };
        auto session = std::make_unique<http::WebSocketSession>(std::move(feed), std::move(actions), 100'000,
                                                                context.principal.expires_at);
        co_return http::accept_handshake(context.request, std::move(session));
    }
    static base::Task<base::Result<http::Response>> async_stream(SocketRoutes& self,
                                                                 http::RequestContext& context,
                                                                 std::uint64_t turn) {
        const auto after = context.query_integer("after", {0, 1000});
        const auto names = http::event_names(context);
        if (names.has_error())
            co_return names.error();
        auto feed = std::make_unique<ScriptedFeed>(self.script, after->value_or(0));
        co_return http::event_stream_response(std::move(feed), turn, *names);
    }
    base::Result<conversation::TurnTicket> answer() const {
        return refusal ? base::Result<conversation::TurnTicket>(*refusal)
                       : base::Result<conversation::TurnTicket>(ticket);
    }
};

class SocketServer final : public ServerThread, public SocketRoutes {
  public:
    explicit SocketServer(TestSettings settings = {}) {
        start(std::move(settings), http::Router(routes()), "127.0.0.1:0");
    }
    ~SocketServer() { finish(); }

    WebSocketClient open(const std::string& target = "/ws") { return {client(), target}; }
    void change(const std::function<void()>& what) {
        on_loop([&] {
            what();
            wake_all();
        });
    }
    void publish(std::size_t count = 1, std::size_t bytes = 0) {
        change([&] { add_events(count, bytes); });
    }
};

}  // namespace atl::test
