// The trivial routing table of tests, and the stream of one of its routes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/json_writer.hpp"
#include "http/server/router.hpp"

namespace atl::test {

/// A stream that a test feeds.
class FedStream final : public http::BodyStream {
  public:
    struct Feed {
        std::deque<std::string> payloads;
        bool finished = false;
        bool destroyed = false;
        http::StreamWake wake;
    };
    explicit FedStream(Feed& feed) : feed_(feed) { feed_.destroyed = false; }
    ~FedStream() override {
        feed_.destroyed = true;
        feed_.wake = nullptr;
    }
    State pull(std::string& out, std::size_t limit_bytes) override {
        while (!feed_.payloads.empty() && out.size() < limit_bytes) {
            out += feed_.payloads.front();
            feed_.payloads.pop_front();
        }
        if (!feed_.payloads.empty())
            return State::more;
        return feed_.finished ? State::finished : State::waiting;
    }
    void on_wake(http::StreamWake wake) override { feed_.wake = std::move(wake); }
    void heartbeat(std::string& out) override { out += ": heartbeat\n\n"; }
    void end_early(base::Errc reason, std::string& out) override {
        out.append("event: stream_closed\ndata: ").append(base::code_name(reason)).append("\n\n");
    }

  private:
    Feed& feed_;
};

/// Used on the loop only.
class TestRoutes {
  public:
    /// They refer to this object.
    std::vector<http::Route> routes() {
        using http::Method;
        std::vector<http::Route> all;
        all.push_back({Method::get, "/hello", "hello", "", async_hello});
        all.push_back({Method::get, "/open", "open", "", async_hello, http::Auth::open});
        all.push_back({Method::post, "/echo", "echo", "", async_echo});
        all.push_back({Method::get, "/throw", "throw", "", async_throw});
        all.push_back({Method::get, "/things/{id}", "thing", "", async_thing});
        all.push_back({Method::delete_, "/things/{id}", "removeThing", "", async_thing});
        all.push_back({Method::get, "/big", "big", "", async_big});
        all.back().query = {{"bytes", "{}", ""}};
        all.push_back(
            {Method::get, "/slow", "slow", "", [this](auto& context) { return async_slow(*this, context); }});
        all.push_back({Method::get, "/stream", "stream", "",
                       [this](auto& context) { return async_stream(*this, context); }});
        return all;
    }
    /// Gives the stream a piece of its body.
    void feed_stream(std::string payload) {
        feed.payloads.push_back(std::move(payload));
        if (feed.wake)
            feed.wake();
    }

    FedStream::Feed feed;                                  // of GET /stream
    std::function<void(base::Result<std::string>)> reply;  // of GET /slow, once it waits

  private:
    static base::Task<base::Result<http::Response>> async_hello(http::RequestContext&) {
        co_return http::json_response(R"("hello")");
    }
    static base::Task<base::Result<http::Response>> async_echo(http::RequestContext& context) {
        std::string out;
        base::JsonWriter(out).string(context.request.body);
        co_return http::json_response(std::move(out));
    }
    static base::Task<base::Result<http::Response>> async_big(http::RequestContext& context) {
        const auto bytes = context.query_integer("bytes", {0, 100'000'000});
        co_return http::json_response(std::string(bytes->value_or(0), 'x'));
    }
    static base::Task<base::Result<http::Response>> async_thing(http::RequestContext& context) {
        std::string out;
        base::JsonWriter(out).string(context.param("id"));
        co_return http::json_response(std::move(out));
    }
    static base::Task<base::Result<http::Response>> async_throw(http::RequestContext&) {
        throw std::runtime_error("a defect with a secret");
        co_return http::Response{};
    }
    static base::Task<base::Result<http::Response>> async_slow(TestRoutes& self,
                                                               http::RequestContext& context) {
        auto start = [&](std::function<void(base::Result<std::string>)> given) {
            self.reply = std::move(given);
        };
        auto text = co_await context.async_reply<std::string>(start);
        if (text.has_error())
            co_return text.error();
        co_return http::json_response(std::move(*text));
    }
    static base::Task<base::Result<http::Response>> async_stream(TestRoutes& self, http::RequestContext&) {
        http::Response response;
        response.content_type = "text/event-stream";
        response.stream = std::make_unique<FedStream>(self.feed);
        co_return response;
    }
};

}  // namespace atl::test
